# What was committed a moment ago is read from memory by every process: no question goes over the socket, none is answered
# wrongly, also while the daemon is killed, when the mapped tail is full, and when there is no room for one.
. "$(dirname "$0")/lib.sh"

value() { awk -v n="$1" '$1 == n { print $2 }' "$place/fresh"; }
fresh() {
    rm -rf "$place/fresh"
    stress 300 fresh "$@" >"$place/fresh" || fail "$(cat "$place/fresh")"
}
fresh_daemon() {
    rm -rf "$run" "$data"
    start "$@"
}

count=300
[ -z "${SKADE_STRESS:-}" ] || count=5000

# Generations come and go meanwhile.
fresh_daemon --rebuild-threshold 200
fresh 4 "$count"
same "questions over the socket" 0 "$(value asked)"
[ "$(value tail)" -gt "$count" ] || fail "only $(value tail) answers from tails"
same "answers of the daemon that the tail has" 0 "$(counter tail_answers)"
same "events without room" 0 "$(counter tail_full)"
stop

# kill -9 in between: some have to ask, nothing is lost, and in the end memory is enough again.
fresh_daemon
stress 300 fresh 4 "$count" >"$place/fresh" &
crowd=$!
until_true eval '[ "$(counter commits)" -gt 50 ]'
crash
start
until_true eval '[ "$(counter commits)" -gt 50 ]'
crash
start
wait "$crowd" || fail "$(cat "$place/fresh")"
[ "$(value tail)" -gt "$count" ] || fail "only $(value tail) answers from tails"
stop

# Nothing is indexed, so the tail becomes full: what is behind it is asked for.
fresh_daemon --rebuild-threshold 1000000 --rebuild-idle 1h
ctl create lake.long --location s3://lake >/dev/null
location=s3://$(printf '%04000d' 0)
for i in 1 2 3 4 5 6 7 8; do
    for n in {1..100}; do
        echo "{\"table\": \"lake.long\", \"location\": \"$location$i$n\", \"snapshot\": $((i * 1000 + n))}"
    done | ctl release - >/dev/null
done
[ "$(counter tail_full)" -gt 0 ] || fail "the tail isn't full"
fresh 3 50
[ "$(value asked)" -gt 0 ] || fail "nobody had to ask"
[ "$(counter tail_answers)" -gt 0 ] || fail "the daemon doesn't count them"
ctl reindex >/dev/null
same "events in the next one" 0 "$(counter tail_used)"
stop
