# SIGTERM under load: what was acknowledged is there, what wasn't is asked again and made once, the exit code is 0 and the
# socket is gone, each time.
. "$(dirname "$0")/lib.sh"

cycles=20
[ -z "${SKADE_STRESS:-}" ] || cycles=300
stress 240 kill9 $cycles term -- "${options[@]}" --rebuild-threshold 20 --rebuild-idle 5ms --parts-max 4 2>"$place/skaded.log"

# Peers that don't read, half-sent frames and open watches don't keep it.
start
skadectl watch >/dev/null & watcher=$!
asker idle
answers idle 1 ping
watched() { [ "$(counter watchers)" = 1 ]; }
until_true watched
pid=$daemon
daemon=
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
same "the daemon's end" 0 $status
[ ! -e "$run/default.sock" ] || fail "the socket is still there"
kill $watcher
