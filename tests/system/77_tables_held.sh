# What readers hold.  A reader that stands still keeps its files through compaction, collection and drop, and reads on; when it
# is killed they go.  A view and a lease on every commit of a table cost no descriptors and no maps.
# SKADE_STRESS: 100,000 commits.
. "$(dirname "$0")/lib.sh"

count_is() { [ "$(counter "$1")" = "$2" ]; }
files() { find "$data/tables/$1" -type f ! -name '*.pending' | wc -l; }

# waits: tables and what their retired files wait for, each once.  A lease keeps what was retired after its moment.
waits() { cut -f1,6 | sort -u | tr '\t' ' ' | paste -sd, | sed 's/,/, /g'; }

# reader NAME TABLE: a scan whose output nobody takes yet, so that it stands still in the middle.
declare -A reader
reader() {
    mkfifo "$place/$1"
    skadectl scan "$2" --oldest-first >"$place/$1" 2>"$place/$1.err" &
    reader[$1]=$!
}

start --gc-grace 1h
ctl create shop.events >/dev/null
ctl create shop.gone >/dev/null
for i in 1 2 3; do seq $((i * 100000)) $((i * 100000 + 29999)) | ctl append shop.events >/dev/null; done
ctl scan shop.events --oldest-first >"$place/rows"
seq 1 50000 | ctl append shop.gone >/dev/null

echo "- a reader that stands still reads on over a compaction, a drop and collections"
reader slow shop.events
reader killed shop.events
reader dropped shop.gone
exec 3<"$place/slow" 4<"$place/killed" 5<"$place/dropped"
read -r first <&3
same "the first row" 100000 "$first"
read -r -u 4 first
read -r -u 5 first
until_true count_is leases 3
ctl compact shop.events >/dev/null
ctl append shop.events <<<new >/dev/null
ctl compact shop.events >/dev/null
ctl drop shop.gone >/dev/null
ctl gc --now >"$place/waits"
same "what waits, and for whom" "shop.events 2 leases, shop.gone 1 lease" "$(waits <"$place/waits")"
{ echo 100000; cat <&3; } | cmp - "$place/rows"
wait "${reader[slow]}" || fail "a slow reader failed: $(cat "$place/slow.err")"
{ echo 1; cat <&5; } | cmp - <(seq 1 50000)
wait "${reader[dropped]}" || fail "a reader of a dropped table failed: $(cat "$place/dropped.err")"

echo "- a killed reader holds nothing"
until_true count_is leases 1
same "what waits for it" "shop.events 1 lease" "$(ctl gc --now | waits)"
kill -9 "${reader[killed]}"
wait "${reader[killed]}" 2>/dev/null || true
until_true count_is leases 0
same "what waits then" "" "$(ctl gc --now)"
same "files of the tables" "2 0" "$(files 1) $(files 2)"
same "rows" 90001 "$(ctl scan shop.events | wc -l)"
exec 3<&- 4<&- 5<&-

echo "- a hold on every commit"
commits=2000
[ -z "${SKADE_STRESS:-}" ] || commits=100000
stress 300 held_commits $commits "$daemon"
same "leases that are left" 0 "$(counter leases)"
same "files that are left" 3 "$(files 3)"
ctl verify --full >/dev/null
stop
