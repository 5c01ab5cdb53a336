# A scan keeps the files that it reads, for as long as its process lives; who comes too late is told that the snapshot is
# expired, never that a file is missing; after a start nothing is removed for a grace window.
. "$(dirname "$0")/lib.sh"

table=shop.events
files() { find "$data/tables" -type f | sort; }
waits_for() { ctl gc $table | cut -f6; }

# Lines enough that a scan can't have written them all before somebody takes them from its pipe.
make_lines() { seq -f "$1 %06g $(printf 'x%.0s' {1..120})" 1 4000; }

declare -A scan_fd scan_pid

# scanning WHO ARGUMENT...: a scan that waits in the middle.  read_on WHO: the rest of it, into $place/WHO.rows.
scanning() {
    local who=$1 fd
    shift
    mkfifo "$place/$who"
    skadectl scan "$@" >"$place/$who" 2>"$place/$who.err" &
    scan_pid[$who]=$!
    exec {fd}<"$place/$who"
    scan_fd[$who]=$fd
    head -c 100 <&"$fd" >"$place/$who.rows" # so it has begun
}
read_on() {
    local fd=${scan_fd[$1]} status=0
    cat <&"$fd" >>"$place/$1.rows"
    exec {fd}<&-
    wait "${scan_pid[$1]}" || status=$?
    return $status
}

start --gc-grace 1h
ctl create $table >/dev/null
for part in a b c; do make_lines $part | ctl append $table >/dev/null; done
old=$(ctl head $table | cut -f2)
ctl scan $table --oldest-first >"$place/want"
files >"$place/first"

# ---- held over a compaction and a collection ----

scanning held $table --oldest-first
ctl compact $table >/dev/null
make_lines d | ctl append $table >/dev/null
ctl scan $table --oldest-first >"$place/want.second"
same "what its files wait for" "1 lease" "$(ctl gc $table --now | cut -f6)"
[ -z "$(files | comm -23 "$place/first" -)" ] || fail "files went that a scan reads"
# Others are told at once.
expect 6 ctl scan $table --snapshot "$old" >/dev/null 2>"$place/said"
grep -qi "retired" "$place/said" || fail "too late, it says '$(cat "$place/said")'"
expect 6 ctl get $table k --snapshot "$old" >/dev/null 2>&1

# A second scan, of the compacted table, and then a compaction that retires that.
scanning second $table --oldest-first
ctl compact $table >/dev/null
same "what is held" "1 lease 2 leases" "$(ctl gc $table --now | cut -f6 | sort -u | tr '\n' ' ' | sed 's/ $//')"
read_on held || fail "a held scan ended with $?: $(cat "$place/held.err")"
cmp "$place/held.rows" "$place/want" || fail "a held scan has other rows"
same "what is held after the first has ended" "1 lease" "$(ctl gc $table --now | cut -f6)"
[ -z "$(files | comm -12 "$place/first" -)" ] || fail "files of an ended scan are left"

# ---- a killed scanner ----

kill -9 "${scan_pid[second]}"
read_on second && fail "a killed scan succeeded"
nothing_waits() { [ -z "$(ctl gc $table --now)" ]; }
until_true nothing_waits
same "leases" 0 "$(counter leases)"
same "files of the table" "1 1" "$(files | grep -c manifest) $(files | grep -c rows)"
ctl scan $table --oldest-first | cmp - "$place/want.second"

# ---- a drop ----

ctl create shop.gone >/dev/null
make_lines g | ctl append shop.gone >/dev/null
make_lines g >"$place/want.gone"
scanning gone shop.gone --oldest-first
ctl drop shop.gone >/dev/null
expect 3 ctl scan shop.gone >/dev/null 2>&1
same "what a dropped table waits for" "1 lease" "$(ctl gc --now | cut -f6)"
read_on gone || fail "a scan of a dropped table ended with $?: $(cat "$place/gone.err")"
cmp "$place/gone.rows" "$place/want.gone" || fail "a scan of a dropped table has other rows"
same "what it waits for then" "" "$(ctl gc --now)"

# ---- who asks while the files are still being counted gets them removed, too ----

hold_at gc.measure
ctl append $table <<<one >/dev/null
ctl compact $table >/dev/null
is_held gc.measure
asked() { [ "$(counter requests)" -gt "$1" ]; }
before=$(counter requests)
ctl gc $table --now >"$place/left" & asks=$!
until_true asked "$before"
let_go gc.measure
wait $asks
same "what is left by a collection that had to wait" "" "$(cat "$place/left")"

# ---- the grace window begins anew with each start ----

make_lines h | ctl append $table >/dev/null
ctl scan $table --oldest-first >"$place/want.third"
ctl compact $table >/dev/null
files >"$place/third"
crash
start --gc-grace 1h
same "what waits after a start" "grace window" "$(waits_for)"
due=$(ctl gc $table --json | python3 -c '
import json, sys, time
print((int(json.loads(sys.stdin.readline())["due"]) - int(time.time() * 1e6)) // 60000000)')
[ "$due" -ge 50 ] || fail "after a start files are due in $due minutes, not in an hour"
files | cmp - "$place/third" || fail "files went before the grace window"
# The daemon's own collection, with the shortest window there is: not before it is over, and then by itself.
stop
began=$(date +%s%N)
start --gc-grace 5s
gone() { [ -z "$(ctl gc $table)" ]; }
until_true gone
[ $((($(date +%s%N) - began) / 1000000)) -ge 5000 ] || fail "collected within the grace window of a start"
ctl scan $table --oldest-first | cmp - "$place/want.third"
same "files of the table" "1 1" "$(files | grep -c manifest) $(files | grep -c rows)"

# ---- a scan that was held by a daemon that was killed ----

ctl scan $table --oldest-first >"$place/want"
make_lines i | ctl append $table >/dev/null
scanning late $table --oldest-first
crash
start --gc-grace 1h
ctl compact $table >/dev/null
ctl gc $table --now >/dev/null
# What it has open it may read to the end; else it says that it is too late.
status=0
read_on late || status=$?
case $status in
0) cmp "$place/late.rows" <(cat "$place/want" <(make_lines i)) || fail "a scan that was let down has other rows" ;;
6) grep -qi "gone\|retired" "$place/late.err" || fail "too late, it says '$(cat "$place/late.err")'" ;;
*) fail "a scan whose lease is gone ended with $status: $(cat "$place/late.err")" ;;
esac
ctl verify --full >/dev/null
stop
