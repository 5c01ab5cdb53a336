# A shared-memory directory of 1 MB: the daemon starts, answers over the socket what has no room, says so clearly, and
# recovers by itself when there is room.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs"
mkdir "$place/small"
mount -t tmpfs -o size=1m none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
shm=$place/small

is() { [ "$(counter "$1")" = "$2" ]; }
is_published() { [ "$(counter generation)" != 0 ] && is covered_seq "$(counter commit_seq)" && is rebuild_failing 0; }

# Parts by number of events alone, however slow the machine is: many small ones would have to be merged, for which this
# is too narrow.
start --rebuild-threshold 2000 --rebuild-idle 2s
formula create 200
formula release 200 0 30
until_true is_published
# No room for what comes next.
formula release 200 30 120
until_true is rebuild_failing 1
formula verify 200 120
grep -q "no room for .* in $shm.*remount" "$place/skaded.log" || fail "the log doesn't say what is missing where"
[ "$(grep -c "no room" "$place/skaded.log")" -le 3 ] || fail "one trouble fills the log"
# Events that take answers away.
asker holder
answers holder "1 1" find lake.t00000
ctl rename lake.t00000 lake.renamed >/dev/null
answers holder 0 find lake.t00000
ctl rename lake.renamed lake.t00000 >/dev/null
answers holder 0 find lake.renamed
formula verify 200 120
# Killed and started in the same narrow place.
crash
start --rebuild-threshold 2000 --rebuild-idle 20ms
formula verify 200 120
answers holder 0 find lake.renamed
# Room again.
mount -o remount,size=64m "$shm"
until_true is_published
formula verify 200 120
answers holder "1 1" find lake.t00000
answers holder "1 $(ctl head lake.t00000 | cut -f5)" head 1
answers holder "1 map" from
stop

kill "${ask_pid[holder]}" # its map takes room
rm -rf "$run" "$data" "$shm"/skade.*
mount -o remount,size=1m "$shm"

# Full from the start, with somebody else's file.
dd if=/dev/zero of="$shm/filler" bs=4k 2>/dev/null || true
start
ctl create lake.t00000 --location s3://lake >/dev/null
ctl commit lake.t00000 s3://lake/last --snapshot 5 >/dev/null
same "a hit over the socket" s3://lake/last "$(ctl resolve lake.t00000 5 | cut -f3)"
rm "$shm/filler"
until_true is_published
same "a hit by map" s3://lake/last "$(ctl resolve lake.t00000 5 | cut -f3)"
stop
