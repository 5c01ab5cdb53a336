# The index file: a start takes what it has from there and only the rest from the log, answers as before, and verifies
# the old rows afterwards.  Whatever is wrong with the file, the log tells all; a log older than the file is read-only.
. "$(dirname "$0")/lib.sh"

index=$data/index/index
commits() { for i in $(seq "$1" "$2"); do ctl commit a.b "s3://x/$i" --snapshot "$i" >/dev/null; done; }
everything() { ctl history a.b; }
is_written() { [ "$(counter index_file_seq)" -ge "$1" ]; }
is_checked() { [ "$(counter log_unchecked)" = 0 ] && [ "$(counter log_check_slices)" -ge 1 ]; }
on() { start --index-file-events 5 "$@"; }

on
ctl create a.b --location l >/dev/null
commits 1 30
until_true is_written 11
everything >"$place/want"
crash

# ---- after a crash: the file and what is newer; then the rows that it stood for ----
on
everything | diff "$place/want" - || fail "other answers than before the crash"
until_true is_checked
ctl verify --full >/dev/null || fail "verify has something to say"
ctl commit a.b s3://x/31 --snapshot 31 >/dev/null
ctl reindex >/dev/null
everything >"$place/want"
stop
same "the index file at an orderly end" yes "$([ -f "$index" ] && echo yes)"
on
same "covered by the file" "$(counter commit_seq)" "$(counter index_file_seq)"
everything | diff "$place/want" - || fail "other answers than before the stop"
stop

# ---- nobody can read it but us ----
same "mode of index/" 700 "$(stat -c %a "$data/index")"
same "other modes than 600" "" "$(find "$data/index" -type f ! -perm 600)"

# ---- damaged: the log tells all, and a warning says so ----
for which in index part; do
    file=$(find "$data/index" -type f -name "*$which" | head -1)
    printf '\x55' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc status=none
    : >"$place/skaded.log"
    on
    grep -q "index file is of no use" "$place/skaded.log" || fail "nothing was said about $file"
    everything | diff "$place/want" - || fail "other answers with a damaged $file"
    stop
done

# ---- killed while it is written: what is there is whole ----
for point in index.write index.rename index.renamed; do
    on
    fail_at "$point" kill
    for i in $(seq 40); do ctl commit a.b "s3://$point/$i" >/dev/null 2>&1 || break; done
    wait_gone "$daemon"
    daemon=
    fail_no_more "$point"
    on
    ctl verify --full >/dev/null || fail "verify has something to say after a kill at $point"
    stop
done

# ---- no room: a counter, and everything goes on ----
on
fail_at index.write "fail 28"
commits 100 120
failed() { [ "$(counter index_file_failed)" -ge 1 ]; }
until_true failed
ctl commit a.b s3://x/121 >/dev/null
fail_no_more index.write
grep -q "index file could not be written" "$place/skaded.log" || fail "nothing was said about a full disk"
stop

# ---- the log is older ----
cp -a "$data/log" "$place/log"
on
commits 200 220
ctl reindex >/dev/null
stop
rm -r "$data/log"
mv "$place/log" "$data/log"
rm -f "$shm"/*
before=$(cat "$data"/index/* | cksum)
: >"$place/skaded.log"
on
grep -q "older than the data.*read-only" "$place/skaded.log" || fail "it doesn't say that the log is older"
expect 1 ctl commit a.b s3://x/300 2>"$place/said"
grep -q "older than the data" "$place/said" || fail "a refusal doesn't say why: $(cat "$place/said")"
stop
same "the file" "$before" "$(cat "$data"/index/* | cksum)"
