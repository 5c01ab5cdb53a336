# Files of an earlier time in a table's directory, whole and valid ones: they are no part of the table, what was deleted stays
# deleted, and each goes where it belongs.
. "$(dirname "$0")/lib.sh"

entries() { find "$data/tables" -name '*.entries' | sort; }
put() { printf "$@" | ctl append shop.events --format jsonl >/dev/null; }
settled() { ! find "$data/tables" -name '*.pending' | grep -q .; }

start --gc-grace 1h
ctl create shop.events >/dev/null
put '{"key":"gone","value":"old"}\n{"key":"stays","value":"1"}\n'
old=$(entries)
put '{"key":"gone","delete":true}\n'
put '{"key":"stays","value":"2"}\n'
until_true settled
cp -a "$old" "$place/old.entries"
ctl compact shop.events >/dev/null
ctl gc --now >/dev/null
[ ! -e "$old" ] || fail "the retired file is still there"
check() {
    expect 3 ctl get shop.events gone 2>/dev/null
    same "$1: rows" '{"key":"stays","value":"2"}' "$(ctl scan shop.events --format jsonl)"
    ctl verify --full >/dev/null
}
check "after the compaction"

echo "- a retired file that is back under its name is no part of the table, and is collected again"
cp -a "$place/old.entries" "$old"
check "with the retired file"
stop
start --gc-grace 1h
check "with the retired file, after a start"
# It may be asked for by nobody, and goes with what its compaction retired.
ctl gc --now >/dev/null
[ ! -e "$old" ] || fail "a retired file stays for ever"
check "after it was removed again"

echo "- a file that a crash left, with its mark, is moved away and not used"
stray=$data/tables/1/1/00112233445566778899aabbccddeeff
[ -d "$data/tables/1/1" ] || fail "the table's directory is another"
crash
cp -a "$place/old.entries" "$stray.entries"
ln "$stray.entries" "$stray.pending"
start --gc-grace 1h
check "after a file with a mark"
[ ! -e "$stray.entries" ] && [ ! -e "$stray.pending" ] || fail "the file of a commit that never was stays"
ls "$data/lost" | grep -q 00112233445566778899aabbccddeeff || fail "it isn't in lost/"
grep -q 'lost/.*00112233445566778899aabbccddeeff' "$place/skaded.log" || fail "the move was not told"

echo "- an unnamed file of a killed daemon leaves no room taken"
used() { du -s --apparent-size -B1 "$data/tables" | cut -f1; }
before=$(used)
fail_at entries.fsync kill
! ctl --timeout 0.3 append shop.events <<<lost >/dev/null 2>&1 || fail "an append to a killed daemon succeeded"
wait_gone "$daemon"
daemon=
fail_no_more entries.fsync
start --gc-grace 1h
same "bytes in the directory" "$before" "$(used)"
check "after a daemon was killed over an unnamed file"
put '{"key":"new","value":"3"}\n'
same "a value" 3 "$(ctl get shop.events new)"

echo "- a file of another table's under one's name is refused, and the other tables go on"
ctl create shop.other >/dev/null
printf 'a\t1\n' | ctl append shop.other --format tsv >/dev/null
until_true settled
victim=$(find "$data/tables/2" -name '*.entries')
mv "$victim" "$place/mine"
cp -a "$place/old.entries" "$victim"
expect 1 ctl scan shop.other >"$place/out" 2>"$place/err"
grep -qF "$victim" "$place/err" || fail "the message doesn't name the file: $(cat "$place/err")"
[ ! -s "$place/out" ] || fail "rows of another file came: $(cat "$place/out")"
expect 1 ctl compact shop.other >/dev/null 2>"$place/err"
same "the other table" 3 "$(ctl get shop.events new)"
mv "$place/mine" "$victim"
same "its own again" 1 "$(ctl get shop.other a)"
stop
