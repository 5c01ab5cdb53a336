# Peers that say nothing, read nothing or send too much cost the daemon little, and for a short time.
. "$(dirname "$0")/lib.sh"

peer() { stress 100 peer "$@"; }
is_over() { ! kill -0 "$1" 2>/dev/null; }
long() { printf '%04000d' "$1"; }

start --frame-timeout 500ms --idle-timeout 1s --max-inflight 2 --release-max 20000 --rebuild-threshold 100000 --rebuild-idle 1h
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders "s3://lake/orders/$(long 1)" --snapshot 1 >/dev/null

echo "- one that says nothing, not even hello"
peer silent

echo "- one that asks nothing is closed, one that watches is not"
peer idle 1

echo "- one that sends more requests than may wait: the rest is not read"
base=$(counter requests)
cost=$(($(counter requests) - base)) # of one look
hold_at log.begin
coproc CROWD { peer crowd 1 20; }
crowd=$CROWD_PID in=${CROWD[1]}
read -r -u "${CROWD[0]}" line
same "it says" sent "$line"
is_held log.begin
ctl ping >/dev/null # a turn of the loop
pinged=$(counter requests)
ctl ping >/dev/null
now=$(counter requests)
ping=$((now - pinged - cost))
same "commits that were read" 2 $((now - base - 2 * ping - 3 * cost - 1)) # less two pings, three looks, its hello
let_go log.begin
exec {in}>&-
wait "$crowd"

echo "- a release that is too large"
for n in 1 2 3 4 5 6 7 8; do echo "{\"table\":\"shop.orders\",\"location\":\"s3://lake/$(long $n)\"}"; done >"$place/release"
head=$(ctl head shop.orders | cut -f2)
ctl release "$place/release" >/dev/null 2>"$place/err" && fail "it was taken"
grep -q "release_max" "$place/err" || fail "the refusal doesn't name the option: $(cat "$place/err")"
same "the head" "$head" "$(ctl head shop.orders | cut -f2)"

echo "- ones that ask for much and read nothing"
before=$(awk '/^VmRSS/ { print $2 }' "/proc/$daemon/status")
closed=$(counter timeouts)
peer deaf 1 1 40 >"$place/said" || fail "$(cat "$place/said")"
grew=$(($(awk '/^VmHWM/ { print $2 }' "/proc/$daemon/status") - before))
[ $grew -lt 400000 ] || fail "40 peers that don't read held $grew kB"
[ $(($(counter timeouts) - closed)) -ge 40 ] || fail "they were not closed for that"
[ "$(peer patient 1 1)" -gt 10 ] || fail "the answer came at once"

echo "- one that asks for a backup and doesn't read it: others get theirs"
stop
start --frame-timeout 500ms
for round in 1 2 3; do
    for n in $(seq 1000); do echo "{\"table\":\"shop.orders\",\"location\":\"s3://lake/$round/$(long "$n")\"}"; done | ctl release >/dev/null
done
peer backup >"$place/said" &
hung=$!
asked() { grep -q asked "$place/said" || is_over $hung; }
until_true asked
can_back_up() { ctl backup "$place/backup"; }
until_true can_back_up
skaded --check-log "$place/backup" >/dev/null
wait $hung || fail "$(cat "$place/said")"

echo "- a watch that is cancelled, and another on the same connection"
ctl reindex >/dev/null
for n in $(seq 20); do peer again; done
stop

echo "- one whose rows wait for a slow disk: the frame that is under way is late by our fault"
start --frame-timeout 500ms --idle-timeout 1s
ctl create shop.slow >/dev/null
for n in $(seq 300); do printf 'k%d\t%0*d\n' "$n" $((20000 + n * 7)) "$n"; done >"$place/rows"
for round in 1 2 3; do
    closed=$(counter timeouts)
    hold_at entries.write
    ctl append shop.slow --format tsv <"$place/rows" >"$place/said" 2>&1 &
    appender=$!
    is_held entries.write
    until=$(($(date +%s%N) + 2000000000)) # longer than either patience, as the daemon counts it
    is_late() { ctl ping && [ "$(date +%s%N)" -gt $until ]; }
    until_true is_late
    let_go entries.write
    wait $appender || fail "$(cat "$place/said")"
    same "closed for their time" "$closed" "$(counter timeouts)"
done
stop
