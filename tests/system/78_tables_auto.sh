# Tables that are compacted by themselves: those of the list, when so many commits came, and no others; one that fails isn't
# tried again before its cool-down is over; a reload changes all of it.
. "$(dirname "$0")/lib.sh"

# appends TABLE N: so many commits.
appends() { for n in $(seq 1 "$2"); do printf 'k%d\tv%d\n' $((n % 5)) "$n" | ctl append "$1" --format tsv >/dev/null; done; }
compacted() { ctl history "$1" | grep -c '	compact	' || true; }
count_is() { [ "$(counter "$1")" = "$2" ]; }
idle() { [ "$(counter compacting)" = 0 ]; }

start --gc-grace 1h --compact-auto 'shop.auto, logs.*' --compact-commits 10 --compact-cooldown 1h
for name in shop.auto shop.other logs.one logsxone; do ctl create $name >/dev/null; done

echo "- at the threshold, not before"
appends shop.auto 9
until_true idle
same "compactions before the threshold" 0 "$(counter compactions)"
appends shop.auto 1
until_true count_is compactions 1
same "of the table" 1 "$(compacted shop.auto)"
same "rows" 5 "$(ctl scan shop.auto --format tsv | wc -l)"
same "newest values" "v5 v1 v9" "$(ctl get shop.auto k0) $(ctl get shop.auto k1) $(ctl get shop.auto k4)"

echo "- the threshold counts from the last compaction"
appends shop.auto 9
until_true idle
same "compactions" 1 "$(counter compactions)"
appends shop.auto 1
until_true count_is compactions 2

echo "- a pattern, and who isn't in the list"
appends shop.other 25
appends logsxone 25
appends logs.one 10
until_true count_is compactions 3
until_true idle
same "compactions of the others" "0 0 1" "$(compacted shop.other) $(compacted logsxone) $(compacted logs.one)"
same "their snapshots" "25 25 1" "$(for t in shop.other logsxone logs.one; do ctl tables $t | cut -f3; done | tr '\n' ' ' | sed 's/ $//')"
ctl create lake.outside --location s3://bucket/x >/dev/null

echo "- a table that took its name is compacted, one that lost it isn't"
ctl rename shop.other logs.two >/dev/null
ctl rename shop.auto shop.manual >/dev/null
appends logs.two 1
until_true count_is compactions 4
appends shop.manual 12
until_true idle
same "compactions of them" "1 2" "$(compacted logs.two) $(compacted shop.manual)"
ctl rename shop.manual shop.auto >/dev/null
appends shop.auto 1
until_true count_is compactions 5

echo "- a dry run that fails puts nothing off"
appends shop.auto 1
fail_at compact.begin "fail 5"
expect 1 ctl compact shop.auto --dry-run 2>/dev/null
fail_no_more compact.begin
appends shop.auto 9
until_true count_is compactions 6

echo "- a failure is not repeated before its time, and hurts nobody else"
fail_at compact.scanned "fail 5"
appends shop.auto 10
until_true count_is compactions_failed 1
appends shop.auto 40
until_true idle
same "failures" 1 "$(counter compactions_failed)"
same "compactions" 6 "$(counter compactions)"
fail_no_more compact.scanned
appends shop.auto 10
appends logs.one 10
until_true count_is compactions 7
until_true idle
same "compactions of the failed and of another" "4 2" "$(compacted shop.auto) $(compacted logs.one)"
[ "$(grep -c 'not compacted' "$place/skaded.log")" = 2 ] || fail "a failure is told more than once, or never" # and so is the dry run

echo "- by hand it is compacted at once, and then by itself again when its time has come"
ctl compact shop.auto >/dev/null
same "compactions of it" 5 "$(compacted shop.auto)"

echo "- the cool-down ends"
stop
start --gc-grace 1h --compact-auto shop.auto --compact-commits 10 --compact-cooldown 1s
fail_at compact.begin "fail 28"
appends shop.auto 10
until_true count_is compactions_failed 1
fail_no_more compact.begin
until [ "$(compacted shop.auto)" = 6 ]; do appends shop.auto 1; done
same "failures" 1 "$(counter compactions_failed)"
same "the newest value" "$(ctl scan shop.auto --format tsv | head -1 | cut -f2)" \
    "$(ctl get shop.auto "$(ctl scan shop.auto --format tsv | head -1 | cut -f1)")"

echo "- commits before a start count"
ctl compact shop.auto >/dev/null
appends shop.auto 9
before=$(compacted shop.auto)
crash
start --gc-grace 1h --compact-auto shop.auto --compact-commits 10
until_true idle
same "compactions without a commit" 0 "$(counter compactions)"
appends shop.auto 1
until_true count_is compactions 1
same "compactions of it" $((before + 1)) "$(compacted shop.auto)"

echo "- a reload switches it off"
stop
printf 'compact_auto = shop.auto\ncompact_commits = 10\n' >"$place/skaded.conf"
start --gc-grace 1h --config "$place/skaded.conf"
appends shop.auto 10
until_true count_is compactions 1
printf 'compact_commits = 10\n' >"$place/skaded.conf"
kill -HUP "$daemon"
reloaded() { grep -q 'configuration reloaded' "$place/skaded.log"; }
until_true reloaded
appends shop.auto 25
until_true idle
same "compactions while it is off" 1 "$(counter compactions)"
ctl verify --full >/dev/null
stop
