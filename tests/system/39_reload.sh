# SIGHUP reads the configuration again; what it doesn't understand changes nothing.
. "$(dirname "$0")/lib.sh"

config() { printf '%s\n' "$@" >"$place/skaded.conf"; }
config "rebuild_threshold = 1000000" "rebuild_idle = 1h"
start --config "$place/skaded.conf"
formula create 2
formula commit 2 0 20
same "nothing is indexed" 0 "$(counter covered_seq)"

lines() { grep -c . "$place/skaded.log" || true; }
reload() {
    local before=$(lines)
    kill -HUP "$daemon"
    more() { [ "$(lines)" -gt "$before" ]; }
    until_true more
}
config "rebuild_threshold = nonsense"
reload
grep -q "rebuild_threshold" "$place/skaded.log" || fail "the log doesn't name the bad option: $(cat "$place/skaded.log")"
formula commit 2 20 30
same "still nothing is indexed" 0 "$(counter covered_seq)"

config "rebuild_threshold = 10" "rebuild_idle = 1h"
reload
formula commit 2 30 50
grep -q "for a restart wait" "$place/skaded.log" && fail "something waits for a restart: $(cat "$place/skaded.log")"
indexed() { [ "$(counter covered_seq)" -ge 90 ]; }
until_true indexed
formula verify 2 50

config "rebuild_threshold = 10" "rebuild_idle = 1h" "sync = normal" "shm_dir = /elsewhere" "parts_max = 5"
reload
grep -q "reloaded; for a restart wait shm_dir, sync$\|reloaded; for a restart wait sync$" "$place/skaded.log" ||
    fail "the log doesn't name what waits for a restart: $(cat "$place/skaded.log")"
stop
