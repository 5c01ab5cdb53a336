# An index that takes most of its tmpfs: the next daemon finds that full of its predecessor's files, and makes room.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs"
mkdir "$place/small"
mount -t tmpfs -o size=4m none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
shm=$place/small

is() { [ "$(counter "$1")" = "$2" ]; }
is_published() { [ "$(counter generation)" != 0 ] && is covered_seq "$(counter commit_seq)" && is rebuild_failing 0; }

start
formula create 20
formula release 20 0 600
ctl reindex >/dev/null
mount -o remount,size=$(($(du -k "$shm" | cut -f1) * 5 / 4))k "$shm"
for end in crash stop; do
    $end
    start
    until_true is_published
    formula verify 20 600
done
stop
