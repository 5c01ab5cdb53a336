# A backup under load is a moment of the log; restored elsewhere it answers as the original did at that moment.
. "$(dirname "$0")/lib.sh"

start --rebuild-threshold 100 --rebuild-idle 5ms
formula create 3
formula commit 3 0 200
formula commit 3 200 600 & load=$!
for i in 1 2 3; do
    ctl backup "$place/backup.$i" >"$place/said.$i"
    skaded --check-log "$place/backup.$i" >"$place/checked"
    same "the newest event" "$(cut -f2 "$place/said.$i")" "$(cut -f2 "$place/checked")"
done
wait $load
ctl verify --full >/dev/null
expect 4 ctl backup "$place/backup.1" 2>/dev/null
for t in 0 1 2; do ctl history lake.t0000$t; done >"$place/original"
stop

for i in 1 3; do
    seq=$(cut -f2 "$place/said.$i")
    rm -rf "$place/data.$i"
    skadectl restore "$place/backup.$i" --data-dir "$place/data.$i" >/dev/null
    data=$place/data.$i
    start
    for t in 0 1 2; do ctl history lake.t0000$t; done >"$place/restored"
    awk -F'\t' -v seq="$seq" '$1 <= seq' "$place/original" | cmp - "$place/restored"
    ctl verify --full >/dev/null
    expect 0 ctl commit lake.t00000 s3://after/restore --snapshot 1 >/dev/null
    stop
done
