# The names of the shared-memory files vanish under load, again and again: within a moment they are there anew, and nobody
# is answered wrongly.
. "$(dirname "$0")/lib.sh"

heals() { counter self_heals 2>/dev/null || echo 0; }
healed() { [ "$(heals)" -gt "$1" ] && ls "$shm"/skade.*.v1.ctl >/dev/null 2>&1; }

count=4000
[ -z "${SKADE_STRESS:-}" ] || count=40000
(stress 90 order $count -- "${options[@]}" --rebuild-threshold 50 --rebuild-idle 20ms >"$place/order.log" 2>"$place/skaded.log"; echo $? >"$place/status") & load=$!
until ctl ping >/dev/null 2>&1; do [ ! -e "$place/status" ] || fail "$(cat "$place/order.log")"; done
rounds=0
for what in 'skade.*' 'skade.*.ctl' 'skade.*.root' 'skade.*.part' 'skade.*.lock' 'skade.*'; do
    before=$(heals)
    rm -f "$shm"/$what
    [ "$what" = 'skade.*.lock' ] && continue # it is taken anew, without a new epoch
    until healed "$before"; do [ ! -e "$place/status" ] || break 2; done
    rounds=$((rounds + 1))
done
wait $load
cat "$place/order.log"
same "the load's status" 0 "$(cat "$place/status")"
[ $rounds -ge 3 ] || fail "the load ended after $rounds rounds"
