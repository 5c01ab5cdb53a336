# The names of the shared-memory files vanish under load, again and again: within a moment they are there anew, and nobody
# is answered wrongly.
. "$(dirname "$0")/lib.sh"

heals() { counter self_heals 2>/dev/null || echo 0; }
healed() { [ "$(heals)" -gt "$1" ] && ls "$shm"/skade.*.v1.ctl >/dev/null 2>&1; }

count=3000
[ -z "${SKADE_STRESS:-}" ] || count=30000
load() {
    local status=0
    stress 90 order $count -- "${options[@]}" --rebuild-threshold 50 --rebuild-idle 20ms >"$place/order.log" 2>"$place/skaded.log" || status=$?
    echo $status >"$place/status"
}
load & load=$!
until ctl ping >/dev/null 2>&1; do [ ! -e "$place/status" ] || fail "$(cat "$place/order.log")"; done
rounds=0
for what in 'skade.*' 'skade.*.ctl' 'skade.*.root' 'skade.*.part' 'skade.*' 'skade.*.lock' 'skade.*.ctl'; do
    before=$(heals)
    rm -f "$shm"/$what
    # The lock is taken anew without a new epoch; a lost root or part may be replaced before anybody looks.
    case $what in *.lock | *.root | *.part) continue ;; esac
    until healed "$before"; do [ ! -e "$place/status" ] || break 2; done
    rounds=$((rounds + 1))
done
wait $load
cat "$place/order.log"
same "the load's status" 0 "$(cat "$place/status")"
[ $rounds -ge 3 ] || fail "the load ended after $rounds rounds"
