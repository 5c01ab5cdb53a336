# The log is older than the data, or another one's: the daemon serves read-only, says so, and moves, removes and makes
# nothing among the files, whatever lies there.
. "$(dirname "$0")/lib.sh"

everything() { find "$data/tables" "$data/lost" -printf '%P %s %T@ %i\n' 2>/dev/null | sort; }

# with_log BACKUP: the same files under the log of BACKUP.
with_log() {
    rm -rf "$data/log"
    skadectl restore "$1" --data-dir "$place/restored" >/dev/null
    mv "$place/restored/log" "$data/log"
    rm -rf "$place/restored"
}

refused=
# reads_only WHY [ROWS]: it says WHY, refuses every change, touches nothing; and has ROWS.
reads_only() {
    everything >"$place/before"
    : >"$place/skaded.log"
    start --gc-grace 5s
    grep -q "$1" "$place/skaded.log" || fail "the daemon's log doesn't say '$1': $(cat "$place/skaded.log")"
    grep -q "read-only" "$place/skaded.log" || fail "the daemon's log doesn't say read-only"
    expect 1 ctl append shop.events <<<x >"$place/out" 2>"$place/said"
    grep -q "$1" "$place/said" || fail "a refusal doesn't say why: $(cat "$place/said")"
    expect 1 ctl compact shop.events >"$place/out" 2>"$place/said"
    # These wait first until nobody can believe the last daemon any more: once is enough.
    [ -n "$refused" ] || expect 1 ctl drop shop.events >"$place/out" 2>"$place/said"
    [ -n "$refused" ] || expect 1 ctl create shop.more >"$place/out" 2>"$place/said"
    refused=yes
    ctl gc --now >"$place/out" 2>&1 || true
    [ "${2:-}" = "" ] || same "rows" "$2" "$(ctl scan shop.events --oldest-first | tr '\n' ' ' | sed 's/ $//')"
    crash
    everything | diff "$place/before" - || fail "files were touched"
}

# stray_in TABLE: the daemon dies between the names and the commit.
stray_in() {
    start --gc-grace 1h
    fail_at store.linked kill
    skadectl --timeout 60 append "$1" <<<stray >/dev/null 2>&1 & local sent=$!
    wait_gone "$daemon"
    daemon=
    fail_no_more store.linked
    kill -9 $sent 2>/dev/null || true
    { wait $sent; } 2>/dev/null || true
}

backup() { ctl backup "$1" >/dev/null 2>&1; }
append() { printf '%s\n' "$1" | ctl append shop.events >/dev/null; }

start --gc-grace 1h
ctl create shop.events >/dev/null
ctl create shop.first >/dev/null
append one
append two
backup "$place/backup.2"
append three
backup "$place/backup.3"

# ---- one commit is missing in the log ----

stop
with_log "$place/backup.2"
reads_only "older than the data" "one two"

# ---- several are ----

with_log "$place/backup.3"
start --gc-grace 1h
append four
append five
ctl compact shop.events >/dev/null
append six
backup "$place/backup.6"
ctl scan shop.events --oldest-first >"$place/six"
stop
with_log "$place/backup.3"
reads_only "older than the data" "one two three"
with_log "$place/backup.2"
reads_only "older than the data" "one two"
# The newest backup makes it whole again.
with_log "$place/backup.6"
start --gc-grace 1h
ctl scan shop.events --oldest-first | cmp - "$place/six"
append seven
ctl append shop.first <<<first >/dev/null
ctl scan shop.events --oldest-first >"$place/seven"
stop

# ---- a file that was about to be committed is there, too: before the telling one or behind it ----

moved=0
for where in "shop.first 1/1" "shop.events 2/0" "shop.first 2/0" "shop.first 7/0"; do
    stray_in "${where% *}"
    mkdir -p "$data/tables/${where#* }"
    telling=$data/tables/${where#* }/00000000000040008000000000000001.entries
    cp "$(ls "$data"/tables/1/0/*.entries | head -1)" "$telling"
    reads_only "older than the data"
    # With that one away the other is moved, and all is well.
    rm "$telling"
    start --gc-grace 1h
    moved=$((moved + 1))
    same "files that were moved" $moved "$(ls "$data/lost" | wc -l)"
    ctl scan shop.events --oldest-first | cmp - "$place/seven"
    ctl verify --full >/dev/null
    stop
done

# ---- the log of another instance ----

ours=$data
data=$place/other
start --gc-grace 1h
ctl create shop.events >/dev/null
append foreign
backup "$place/backup.other"
stop
data=$ours
with_log "$place/backup.other"
reads_only "another log"

# Also when what is there was marked: it was about to be committed, to another log.
data=$place/marked
start --gc-grace 1h
ctl create shop.events >/dev/null
stop
stray_in shop.events
with_log "$place/backup.other"
reads_only "another log"

# ---- the newest commit is missing, and its mark was still there: what is noticed and what isn't ----

# settling_killed ROW: the daemon dies behind a commit, before its mark goes; the log as it was before is in log.before.
settling_killed() {
    stop
    rm -rf "$place/log.before"
    cp -a "$data/log" "$place/log.before"
    start --gc-grace 1h
    fail_at store.settle kill
    skadectl --timeout 60 append shop.events <<<"$1" >/dev/null 2>&1 & local sent=$!
    wait_gone "$daemon"
    daemon=
    fail_no_more store.settle
    kill -9 $sent 2>/dev/null || true
    { wait $sent; } 2>/dev/null || true
    find "$data/tables" -name '*.pending' | grep -q . || fail "the mark is gone"
}
older_log() { rm -rf "$data/log" && cp -a "$place/log.before" "$data/log"; }

data=$place/last
start --gc-grace 1h
ctl create shop.events >/dev/null
append one
settling_killed two
older_log
everything >"$place/before"
# The last daemon's page says how long its log was.
expect 1 timeout 60 skaded --run-dir "$run" --data-dir "$data" --shm-dir "$shm" >"$place/out" 2>"$place/said"
grep -q "clients were told of" "$place/said" || fail "the refusal doesn't say how it knows: $(cat "$place/said")"
everything | diff "$place/before" - || fail "files were touched"
# Without the page, after a reboot, only the mark is left, and that says: never committed.
rm -f "$shm"/skade.*
start --gc-grace 1h
grep -q "has no commit: moved to lost/" "$place/skaded.log" || fail "the file isn't reported"
same "files in lost/" 1 "$(find "$data/lost" -type f | wc -l)"
same "rows" one "$(ctl scan shop.events)"
# A file of later says that the log knew more.
settling_killed three
start --gc-grace 1h
append four
crash
older_log
rm -f "$shm"/skade.*
reads_only "older than the data" one
