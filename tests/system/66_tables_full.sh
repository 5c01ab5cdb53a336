# The data's disk is full or bad, at every write, sync and link of append and compaction: an error that says so, the table
# as it was, no file and no name left, and on it goes when there is room again.
. "$(dirname "$0")/lib.sh"

table=shop.events
rows() { ctl scan $table --oldest-first --format jsonl; }
events() { ctl history $table; }
# All names below tables/, and what the daemon holds of files without a name there; spare ones have no bytes.
names() { find "$data/tables" -type f | sort; }
unnamed() {
    local fd
    for fd in /proc/"$daemon"/fd/*; do
        case $(readlink "$fd") in
        "$(realpath "$data")"/tables/*deleted*) [ "$(stat -L -c %s "$fd" 2>/dev/null || echo 0)" = 0 ] || readlink "$fd" ;;
        esac
    done
}
until_unheld() { [ -z "$(unnamed)" ]; }

remember() {
    rows >"$place/rows"
    events >"$place/events"
    names >"$place/names"
}

# unchanged WHERE
unchanged() {
    rows | cmp -s - "$place/rows" || fail "$1: the rows changed"
    events | cmp -s - "$place/events" || fail "$1: the log changed"
    names | diff "$place/names" - || fail "$1: other files than before"
    until_true until_unheld
}

start --gc-grace 1h
ctl create $table >/dev/null
for i in 1 2 3; do printf 'k%s\tv%s\n' $i $i | ctl append $table --format tsv >/dev/null; done

# ---- one step fails ----

# refused POINT WHAT CODE WORDS COMMAND...
refused() {
    local point=$1 what=$2 words=$3
    shift 3
    remember
    fail_at "$point" "$what"
    expect 1 "$@" >"$place/out" 2>"$place/err"
    fail_no_more "$point"
    grep -qiE "$words" "$place/err" || fail "$point, $what: it says '$(cat "$place/err")'"
    unchanged "$point, $what"
}

for error in 28 5; do
    words="room|space"
    [ $error = 28 ] || words="input/output"
    for point in store.temp entries.write entries.fsync store.mark store.link store.dirsync store.linked; do
        printf 'n\t%s\n' $point >"$place/row"
        refused $point "fail $error" "$words" skadectl append $table "$place/row" --format tsv
        skadectl append $table "$place/row" --format tsv >/dev/null || fail "$point: no append after it"
    done
    for point in compact.begin store.temp compact.scanned rows.write rows.fsync manifest.write manifest.fsync \
        compact.link store.mark store.link store.dirsync store.linked; do
        refused $point "fail $error" "$words" skadectl compact $table
    done
    # The first of two names is there already; the manifest's file after the rows'.
    refused store.link "count 1 fail $error" "$words" skadectl compact $table
    refused store.temp "count 1 fail $error" "$words" skadectl compact $table
    ctl compact $table >/dev/null || fail "no compaction after errors"
    printf 'after\t%s\n' $error | ctl append $table --format tsv >/dev/null
done
# The log refuses what was linked already: the names are taken back.
for point in log.insert log.commit; do
    refused $point "fail 28" "room|space" skadectl append $table "$place/row" --format tsv
    refused $point "fail 28" "room|space" skadectl compact $table
done
# Nothing can be collected: said, tried again later, and nothing is lost.
remember
fail_at gc.remove "fail 5"
ctl gc --now >"$place/garbage"
fail_no_more gc.remove
[ -s "$place/garbage" ] || fail "what could not be removed is not in the list"
unchanged "gc.remove"
same "what can be removed then" "" "$(ctl gc --now)"
rows | cmp - "$place/rows"
ctl verify --full >/dev/null
stop
[ ! -d "$data/lost" ] || same "lost/" "" "$(ls "$data/lost")"

# ---- a disk that is really full ----

[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs; errors at single steps were tested"
mkdir "$place/small"
mount -t tmpfs -o size=24m none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
# The log is elsewhere: only the rows have no room.
mkdir -p "$place/small/tables" "$place/roomy/log"
ln -s "$place/roomy/log" "$place/small/log"
data=$place/small
start --gc-grace 1h
ctl create $table >/dev/null
head -c 1500000 /dev/urandom | base64 -w 76 >"$place/lines" # 2 MB that zstd makes little smaller
for i in 1 2 3; do ctl append $table "$place/lines" >/dev/null; done
remember
dd if=/dev/zero of="$data/filler" bs=64k 2>/dev/null || true
rm -f "$place/said"
expect 1 ctl append $table "$place/lines" 2>"$place/said"
grep -qiE "room|space" "$place/said" || fail "a full disk: it says '$(cat "$place/said")'"
unchanged "an append on a full disk"
expect 1 ctl compact $table 2>"$place/said"
grep -qiE "room|space" "$place/said" || fail "a full disk: it says '$(cat "$place/said")'"
unchanged "a compaction on a full disk"
# It fills up in the middle.
truncate -s $(($(stat -c %s "$data/filler") - 1000000)) "$data/filler"
expect 1 ctl append $table "$place/lines" 2>"$place/said"
unchanged "an append that fills the disk"
expect 1 ctl compact $table 2>"$place/said"
unchanged "a compaction that fills the disk"
# Readers don't mind.
same "rows on a full disk" $((3 * $(wc -l <"$place/lines"))) "$(ctl scan $table | wc -l)"
rm "$data/filler"
ctl append $table "$place/lines" >/dev/null
ctl compact $table >/dev/null
same "rows when there is room again" $((4 * $(wc -l <"$place/lines"))) "$(ctl scan $table | wc -l)"
ctl verify --full >/dev/null
stop
