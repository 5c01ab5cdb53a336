# A daemon's socket is its own: a second one for the same instance and run directory is refused wherever its files are, and
# a socket whose name is lost is made anew.
. "$(dirname "$0")/lib.sh"

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
head=$(ctl commit shop.orders s3://lake/orders/v1 --snapshot 1)

echo "- a second daemon"
mkdir "$place/shm2"
expect 3 skaded --run-dir "$run" --data-dir "$place/data2" --shm-dir "$place/shm2" 2>"$place/err"
grep -q "$run.*$daemon" "$place/err" || fail "the refusal names neither directory nor process: $(cat "$place/err")"
same "the head" s3://lake/orders/v1 "$(ctl head shop.orders | cut -f5)"

echo "- the socket is removed, replaced, and all of the directory removed"
mkdir "$place/away"
rm "$run/default.sock"
until_true ctl ping
mv "$run/default.sock" "$place/away/"
: >"$run/default.sock"
until_true ctl ping
rm -r "$run"
until_true ctl ping
expect 3 skaded --run-dir "$run" --data-dir "$place/data2" --shm-dir "$place/shm2" 2>"$place/err"
same "warnings" 3 "$(grep -c "made anew" "$place/skaded.log")"

echo "- a successor that took the directory keeps it"
mkfifo "$place/ready"
rm -r "$run"
skaded --run-dir "$run" --data-dir "$place/data2" --shm-dir "$place/shm2" >"$place/ready" 2>>"$place/skaded2.log" &
second=$!
read -r line <"$place/ready"
[[ $line == "skaded: ready"* ]] || { until_true ctl ping; skip "the first was quicker"; }
told() { grep -q "can't be made anew: a daemon of instance default already has" "$place/skaded.log"; }
until_true told
same "tables of the second" "" "$(ctl tables)"
kill "$second"
wait "$second" || true
is_back() { ctl head shop.orders; }
until_true is_back
stop
[ ! -e "$run/default.sock" ] || fail "the socket was left"
