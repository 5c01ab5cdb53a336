# Somebody opens the database of a running daemon with SQLite's shell: it is locked, and nothing is disturbed.
. "$(dirname "$0")/lib.sh"

if command -v sqlite3 >/dev/null; then
    sql() { sqlite3 "$data/log/skade.db" "$1"; }
elif python3 -c 'import sqlite3' 2>/dev/null; then
    sql() { python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1], timeout=0).execute(sys.argv[2]).fetchall())' "$data/log/skade.db" "$1"; }
else
    skip "neither sqlite3 nor Python's sqlite3 is here"
fi

start --rebuild-idle 5ms
formula create 2
formula commit 2 0 50
for statement in 'SELECT count(*) FROM sqlite_master' 'CREATE TABLE mine (a)' 'PRAGMA wal_checkpoint(TRUNCATE)' 'PRAGMA journal_mode = DELETE' 'VACUUM'; do
    ! sql "$statement" >"$place/said" 2>&1 || [ "$statement" != "${statement#PRAGMA}" ] || fail "'$statement' was possible: $(cat "$place/said")"
    grep -qi "locked" "$place/said" || fail "'$statement' said: $(cat "$place/said")"
done
expect 3 skaded "${options[@]}" 2>/dev/null
expect 3 skaded --data-dir "$data" --check-log 2>/dev/null
formula verify 2 50
ctl verify --full >/dev/null
crash
start --rebuild-idle 5ms
ctl verify --full >/dev/null
stop
skaded --data-dir "$data" --check-log >/dev/null
