# Limits of the process: a daemon without descriptors to spare, or whose files may not grow.  It refuses what it can't do,
# answers the rest, and goes on when it can.
. "$(dirname "$0")/lib.sh"

free_path=$PATH
# limited LIMIT...: skaded under `ulimit LIMIT`.
limited() {
    mkdir -p "$place/bin"
    printf '#!/bin/bash\nulimit %s && exec "%s" "$@"\n' "$*" "$B/skaded" >"$place/bin/skaded"
    chmod +x "$place/bin/skaded"
    PATH=$place/bin:$free_path
}

echo "- descriptors"
limited -n 40
start --rebuild-threshold 1000000 --rebuild-idle 1h
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null
stress 100 sandbox crowd 100
head=$(ctl head shop.orders | cut -f5)
only_me() { [ "$(counter connections)" = 1 ]; }
until_true only_me
stop
start
same "what was committed in a crowd" "$head" "$(ctl head shop.orders | cut -f5)"
stop

echo "- sizes of files"
rm -rf "$data" "$shm"/skade.*
limited -f 512
start --rebuild-threshold 100 --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
n=0
while ctl commit shop.orders "s3://lake/orders/$(printf '%03000d' $n)" --snapshot $((n + 1)) >/dev/null 2>"$place/err"; do
    n=$((n + 1))
    [ $n -lt 1000 ] || fail "no limit was felt"
done
grep -q "EFULL\|no room\|no space" "$place/err" || fail "the refusal doesn't say why: $(cat "$place/err")"
same "the head" "$n" "$(ctl head shop.orders | cut -f2)"
expect 0 ctl resolve shop.orders 1 >/dev/null
stop
PATH=$free_path
start
same "the head without the limit" "$n" "$(ctl head shop.orders | cut -f2)"
ctl commit shop.orders s3://lake/orders/last --snapshot 5000 >/dev/null
stop
