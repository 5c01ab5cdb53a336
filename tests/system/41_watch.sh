# A watch tells every event once and in order: old ones from the log, new ones as they come, across restarts and kill -9;
# one that is slow delays nobody.
. "$(dirname "$0")/lib.sh"

gapless() { awk -F'\t' -v from="$2" '$1 != NR + from { print "event " $1 " where " NR + from " comes"; exit 1 }' "$1"; }
has() { [ "$(wc -l <"$1")" -ge "$2" ]; }

start --rebuild-threshold 200 --rebuild-idle 5ms
formula create 4
formula commit 4 0 300 # more than a page, and most of it not in memory any more
skadectl watch --since 0 >"$place/all" & all=$!
skadectl watch --since 500 >"$place/some" & some=$!
skadectl watch --since 0 >"$place/slow" & slow=$!
until_true has "$place/slow" 1
kill -STOP $slow

commits=1204
for end in crash stop crash crash stop; do
    formula commit 4 $(((commits - 4) / 4)) $(((commits - 4) / 4 + 25))
    commits=$((commits + 100))
    until_true has "$place/all" $commits
    $end
    start --rebuild-threshold 200 --rebuild-idle 5ms
done
formula commit 4 $(((commits - 4) / 4)) $(((commits - 4) / 4 + 500))
commits=$((commits + 2000))
until_true has "$place/all" $commits
until_true has "$place/some" $((commits - 500))
gapless "$place/all" 0
gapless "$place/some" 500
! has "$place/slow" $commits || fail "the stopped watcher was not stopped"
kill -CONT $slow
until_true has "$place/slow" $commits
gapless "$place/slow" 0
kill $all $some $slow
cmp "$place/all" "$place/slow"

same "the count ends it" 7 "$(ctl watch --since 10 --count 7 | wc -l)"
same "one table" 5 "$(ctl watch --since 0 --table lake.t00002 --count 5 | cut -f4 | grep -c lake.t00002)"
# The log and history say the same.
ctl history lake.t00003 | sort -n | cut -f1,3,4,5 >"$place/history"
awk -F'\t' '$4 == "lake.t00003"' "$place/all" | cut -f1,3,5,6 | cmp - "$place/history"
same "a page of history" "$(head -50 "$place/history" | tail -10 | cut -f1)" "$(ctl history lake.t00003 --limit 10 --before $(sed -n 51p "$place/history" | cut -f1) | cut -f1 | sort -n)"
stop
