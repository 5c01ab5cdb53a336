# `skadectl reindex` where the index has no room: it says so, and doesn't wait for ever.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs"
mkdir "$place/small"
mount -t tmpfs -o size=256k none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
shm=$place/small

is() { [ "$(counter "$1")" = "$2" ]; }

start --rebuild-idle 20ms
formula create 20
formula release 20 0 200
until_true is rebuild_failing 1
expect 1 timeout 60 skadectl reindex
mount -o remount,size=16m "$shm"
expect 0 timeout 60 skadectl reindex >/dev/null
formula verify 20 200
stop
