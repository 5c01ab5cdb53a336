# The log's disk is full: commits are refused with a clear word, questions are answered, and it goes on by itself when there
# is room.  What was acknowledged is there.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs"
mkdir "$place/small"
mount -t tmpfs -o size=32m none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
data=$place/small/data

is_full() { [ "$(counter log_full)" -gt "$1" ]; }

start --rebuild-idle 5ms
formula create 3
formula commit 3 0 5
for round in 1 2 3; do
    # Nothing is left in the write-ahead file: folded into the database it would be room for many commits.
    stop
    start --rebuild-idle 5ms
    before=$(counter log_full)
    dd if=/dev/zero of="$place/small/filler" bs=4k 2>/dev/null || true
    formula stream 3 $((round * 100)) $((round * 100 + 100)) >"$place/made" & load=$!
    until_true is_full "$before"
    expect 1 ctl commit lake.t00000 s3://lake/too/much --snapshot $round 2>"$place/err"
    grep -q "room" "$place/err" || fail "the message doesn't say why: $(cat "$place/err")"
    grep -q "commits are refused.*$place/small" "$place/skaded.log" || fail "the log doesn't say why"
    
    same "version 0" "$(ctl history lake.t00001 | tail -2 | head -1 | cut -f5)" "$(ctl as-of lake.t00001 2023-11-14T22:13:20.000001Z | cut -f5)"
    rm "$place/small/filler"
    wait $load || fail "the stream was not made"
done
crash
start
for t in 0 1 2; do
    same "commits of table $t" 305 "$(ctl history lake.t0000$t | awk -F'\t' '$3 == "commit"' | wc -l)"
done
[ "$(ctl history lake.t00000 | grep -c too/much || true)" = 0 ] || fail "a refused commit was made"
stop
skaded --data-dir "$data" --check-log >/dev/null
umount "$place/small"
