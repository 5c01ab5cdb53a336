# A disk with little room left: the write-ahead file never takes the last of it, since folding it into the database needs
# some, too.  So commits go on as long as they themselves have room, and a little room that is made is enough to go on.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to mount a tmpfs"
mkdir "$place/small"
mount -t tmpfs -o size=8m none "$place/small" 2>/dev/null || skip "can't mount a tmpfs here"
data=$place/small/data

left() { df --output=avail -B1 "$place/small" | tail -1; }
size() { stat -c %s "$data/log/skade.db"; }
said() { grep -c "$1" "$place/skaded.log" || true; }

start
formula create 3
formula commit 3 0 1
head -c $(($(left) - 600000)) /dev/zero >"$place/small/filler"

# Commits one by one rewrite the same few pages: as frames of the write-ahead file these would be many times the room.
formula commit 3 1 300
same "groups refused" 0 "$(counter log_full)"
[ "$(left)" -gt 100000 ] || fail "only $(left) bytes are left of 600000, the database has $(size)"
same "failed checkpoints" 0 "$(said "checkpoint of the log")"

# No room at all: refused, and said once; a little room is enough to go on.
head -c 600000 /dev/zero >"$place/small/more" 2>/dev/null || true
for n in 1 2 3; do expect 1 ctl commit lake.t00000 s3://lake/too/much --snapshot $n 2>/dev/null; done
same "refusals said" 1 "$(said "commits are refused")"
[ "$(said "checkpoint of the log")" -le 1 ] || fail "a failing checkpoint is said again and again"
truncate -s -200000 "$place/small/filler"
formula commit 3 300 400
same "refusals said" 1 "$(said "commits are refused")"
crash
start
for t in 0 1 2; do same "commits of table $t" 400 "$(ctl history lake.t0000$t | grep -c "	commit	")"; done
stop
skaded --data-dir "$data" --check-log >/dev/null
umount "$place/small"
