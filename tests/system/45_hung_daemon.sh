# A daemon that hangs is waited for once by each command, and not at all for what the map still says.  Counted are the
# connections that it finds when it goes on: each wait makes one.
. "$(dirname "$0")/lib.sh"

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 1 >/dev/null
ctl reindex >/dev/null
seq=$(ctl history shop.orders --limit 1 | cut -f1)
echo '{"table": "shop.orders", "location": "s3://lake/orders/v9", "snapshot": "9"}' >"$place/release"

impatient() { ctl --timeout 0.2 "$@"; }
seen() { counter connections_total; }

# once STATUS COMMAND...: with the daemon stopped it ends so, and made no second connection.  Each look at the counter makes one
# more, and is made while the daemon runs.
once() {
    local before after
    before=$(seen)
    kill -STOP "$daemon"
    expect "$@" >"$place/out" 2>"$place/err"
    kill -CONT "$daemon"
    after=$(seen)
    [ $((after - before - 1)) -le 1 ] || fail "'${*:2}' connected $((after - before - 1)) times"
}

# What the map says is said after the time that opening took.
once 0 impatient resolve shop.orders 1
same "a mapped hit" s3://lake/orders/v1 "$(cut -f3 "$place/out")"
once 0 impatient resolve --stdin < <(printf 'shop.orders 1\n')
same "a mapped hit of a pipe" s3://lake/orders/v1 "$(cut -f3 "$place/out")"
once 0 impatient segments
once 0 impatient stats alive
same "alive" 0 "$(cut -f2 "$place/out")"

# What needs the daemon times out, once.
once 7 impatient ping
once 7 impatient head shop.orders
once 7 impatient resolve shop.orders 2
once 7 impatient as-of shop.orders 2100-01-01
once 7 impatient history shop.orders
once 7 impatient tables
once 7 impatient clients
once 7 impatient watch --table shop.orders
once 7 impatient commit shop.orders s3://lake/orders/v2 --snapshot 2
once 7 impatient create shop.other
once 7 impatient rename shop.orders shop.renamed
once 7 impatient drop shop.orders
once 7 impatient expire shop.orders --snapshot 1
once 7 impatient release "$place/release"
once 7 impatient reindex
once 7 impatient verify
once 7 impatient backup "$place/backup"
grep -q "did not answer within 200 ms" "$place/err" || fail "the backup said: $(cat "$place/err")"

# None of the changes was made, then or when it went on.
same "the newest event" "$seq" "$(ctl history shop.orders --limit 1 | cut -f1)"
same "the head" s3://lake/orders/v1 "$(ctl head shop.orders | cut -f5)"
stop
