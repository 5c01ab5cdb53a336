# Tables that skade stores, from end to end: rows in, rows out, at any snapshot; compaction, expiry, collection; restart.
. "$(dirname "$0")/lib.sh"

files() { find "$data/tables" -type f | wc -l; }

start
ctl create shop.events >/dev/null
ctl create lake.outside --location s3://bucket/outside >/dev/null

# ---- rows in, rows out ----
printf 'one\ntwo\nthree' | ctl append shop.events >"$place/first"
same "table and rows" "shop.events 3" "$(cut -f1,4 "$place/first" | tr '\t' ' ')"
first=$(cut -f2 "$place/first")
same "newest first" "three two one" "$(ctl scan shop.events | tr '\n' ' ' | sed 's/ $//')"
same "oldest first" "one two three" "$(ctl scan shop.events --oldest-first | tr '\n' ' ' | sed 's/ $//')"

ctl create shop.prices >/dev/null
printf 'apple\t1\npear\t2\n' | ctl append shop.prices --format tsv >/dev/null
before=$(ctl head shop.prices | cut -f2)
printf '%s\n' '{"key":"apple","value":"3"}' '{"key":"pear","delete":true}' '{"key_base64":"AP8=","value_base64":""}' |
    ctl append shop.prices --format jsonl >/dev/null
same "the newest value" 3 "$(ctl get shop.prices apple)"
same "the value before" 1 "$(ctl get shop.prices apple --snapshot "$before")"
expect 3 ctl get shop.prices pear 2>/dev/null
same "a deleted row, before" 2 "$(ctl get shop.prices pear --snapshot "$before")"
same "rows" '{"key_base64":"AP8=","value":""} {"key":"apple","value":"3"}' \
    "$(ctl scan shop.prices --format jsonl | tr '\n' ' ' | sed 's/ $//')"
same "rows before" "pear	2 apple	1" "$(ctl scan shop.prices --format tsv --snapshot "$before" | tr '\n' ' ' | sed 's/ $//')"
expect 2 ctl scan shop.prices --format lines 2>"$place/said" >/dev/null
grep -q jsonl "$place/said"

# ---- the wrong kind, the wrong input ----
expect 2 ctl append lake.outside </dev/null 2>"$place/said"
grep -q commit "$place/said"
expect 2 ctl scan lake.outside 2>/dev/null
expect 2 ctl get lake.outside k 2>/dev/null
expect 2 ctl compact lake.outside 2>/dev/null
expect 2 ctl commit shop.events s3://x 2>"$place/said"
grep -q append "$place/said"
expect 3 ctl append shop.nothing </dev/null 2>/dev/null
expect 3 ctl scan shop.nothing 2>/dev/null
had=$(files)
expect 2 ctl append shop.prices --format jsonl <<<'{"value":1}' 2>"$place/said"
grep -q 'line 1' "$place/said"
printf 'a\t1\nno tab\n' >"$place/bad.tsv"
expect 2 ctl append shop.prices "$place/bad.tsv" --format tsv 2>"$place/said"
grep -q 'line 2' "$place/said"
same "files after refused appends" "$had" "$(files)"
same "an append of nothing" "shop.events - - 0 0" "$(ctl append shop.events </dev/null | tr '\t' ' ')"

expect 2 ctl import --table shop.events "$(dirname "$0")/../data/iceberg/shop.db/orders" 2>"$place/said"
grep -q append "$place/said"
head -c 9000000 /dev/zero | ctl append shop.events >/dev/null
ctl create shop.again >/dev/null
ctl scan shop.events --format jsonl | head -1 | ctl append shop.again --format jsonl >/dev/null
same "a long row that was printed and appended again" 9000000 "$(ctl scan shop.again | head -c -1 | wc -c)"

# ---- a file that somebody removed: damage, and not an expired snapshot ----
ctl create shop.lost >/dev/null
echo row | ctl append shop.lost >/dev/null
rm "$(ctl head shop.lost | cut -f5 | sed 's,^file://,,')"
for what in "scan shop.lost" "get shop.lost key" "compact shop.lost"; do
    expect 1 ctl $what >/dev/null 2>"$place/said"
    grep -q 'is missing, and nothing retired it' "$place/said"
done
ctl drop shop.lost >/dev/null

# ---- compaction ----
for i in $(seq 1 20); do printf 'k%02d\tv%s\n' $((i % 7)) "$i" | ctl append shop.prices --format tsv >/dev/null; done
ctl scan shop.prices --format jsonl >"$place/rows"
old=$(ctl head shop.prices | cut -f2)
old_location=$(ctl head shop.prices | cut -f5)
ctl compact shop.prices --dry-run >"$place/dry"
ctl compact shop.prices --json >"$place/report"
same "rows that a dry run tells" "$(cut -f2 "$place/dry")" "$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["rows"])' "$place/report")"
python3 - "$place/report" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
assert r["table"] == "shop.prices" and r["rows"] == 9 and r["rows_pruned"] == 0, r
assert r["snapshots_before"] == 22 and r["carried"] == 0 and r["files_before"] == 22 and r["files_after"] == 1, r
assert r["bytes_after"] < r["bytes_before"] and r["old_data_dir"].endswith("/0"), r
PYTHON
ctl scan shop.prices --format jsonl | cmp - "$place/rows"
expect 6 ctl resolve shop.prices "$old" >/dev/null 2>&1
expect 6 ctl scan shop.prices --snapshot "$old" >/dev/null 2>&1
same "snapshots after a compaction" 1 "$(ctl tables shop.prices | cut -f3)"
ctl compact shop.prices --json >"$place/again"
same "a second compaction has nothing to do" "0" "$(grep -c '"seq":"' "$place/again")"
grep -q '"rows":9,.*"files_before":1,"files_after":1,' "$place/again" || fail "what is there isn't told: $(cat "$place/again")"
[ -e "${old_location#file://}" ] || fail "a retired file went before the grace window"
same "what waits" "shop.prices grace window" "$(ctl gc shop.prices | cut -f1,6 | tr '\t' ' ')"
same "what waits after gc --now" "" "$(ctl gc shop.prices --now)"
[ ! -e "${old_location#file://}" ] || fail "gc --now left a retired file"

# ---- pruning ----
printf 'k01\tlast\nother\tx\n' | ctl append shop.prices --format tsv >/dev/null
same "kept and dropped" "7 3" "$(ctl compact shop.prices --keep-prefix k | cut -f2,3 | tr '\t' ' ')"
same "keys that are left" "k00 k01 k02 k03 k04 k05 k06" \
    "$(ctl scan shop.prices --format tsv | cut -f1 | sort | tr '\n' ' ' | sed 's/ $//')"

# ---- restart ----
ctl scan shop.prices --format jsonl >"$place/rows"
crash
start
ctl scan shop.prices --format jsonl | cmp - "$place/rows"
same "snapshot of the first append" "three two one" "$(ctl scan shop.events --snapshot "$first" | tr '\n' ' ' | sed 's/ $//')"
printf 'k01\tafter\n' | ctl append shop.prices --format tsv >/dev/null
same "a value after the restart" after "$(ctl get shop.prices k01)"
ctl verify --full >/dev/null

# ---- drop ----
ctl drop shop.prices >/dev/null
expect 3 ctl scan shop.prices 2>/dev/null
ctl gc --now >/dev/null
same "files of a dropped table" 0 "$(find "$data/tables/3" -type f | wc -l)"
stop
