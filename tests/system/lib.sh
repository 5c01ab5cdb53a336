# What the system tests share: a place of their own, a daemon in it, and words for what must hold.
#
# B is the build directory.  Each test has its own run, data and shared-memory directories, all gone at the end.
# Nothing here waits by the clock: `skaded: ready` is read from a pipe, ends are waited for.
set -eu
: "${B:?the build directory}"
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export PATH="$B:$PATH"
place=$(mktemp -d "${TMPDIR:-/tmp}/skade-test.XXXXXX")
shm=$(mktemp -d /dev/shm/skade-test.XXXXXX)
run=$place/run data=$place/data
export SKADE_RUN_DIR=$run
unset SKADE_INSTANCE SKADE_SHM SKADE_SHM_DIR
points=$place/points # fail points of shared/failpoint.h
mkdir "$points"
export SKADE_FAILPOINT_DIR=$points
daemon=

cleanup() {
    local status=$?
    trap - EXIT
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    { jobs -p | xargs -r kill -9; wait; } 2>/dev/null || true
    [ "$status" = 0 ] || [ "$status" = 77 ] || { echo "--- skaded's log"; tail -30 "$place/skaded.log" 2>/dev/null || true; }
    mountpoint -q "$place/small" 2>/dev/null && umount -l "$place/small"
    rm -rf "$place" "$shm"
    exit "$status"
}
trap cleanup EXIT

fail() { echo "$*"; exit 1; }
skip() { echo "$*"; exit 77; }

# start [OPTION...]: returns when the daemon is ready.
start() {
    local line
    exec 9< <(exec skaded --run-dir "$run" --data-dir "$data" --shm-dir "$shm" "$@" 2>>"$place/skaded.log")
    daemon=$!
    read -r -t 60 line <&9 || fail "skaded did not become ready"
    [[ $line == "skaded: ready"* ]] || fail "skaded said '$line'"
}

# stop: orderly; the status is the daemon's.
stop() {
    local pid=$daemon
    daemon=
    kill -TERM "$pid"
    wait_gone "$pid"
}

# crash: kill -9.
crash() {
    local pid=$daemon
    daemon=
    kill -9 "$pid"
    wait_gone "$pid"
}

# A process substitution is a child of ours: wait gives its status.
wait_gone() { wait "$1" 2>/dev/null || true; exec 9<&-; }

ctl() { skadectl "$@"; }

# expect STATUS COMMAND...: it must end with this status.  Its output goes on.
expect() {
    local want=$1 got=0
    shift
    "$@" || got=$?
    [ "$got" = "$want" ] || fail "'$*' ended with $got, not $want"
}

# same WHAT WANT GOT
same() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }

counter() { ctl stats "$1" | awk -v n="$1" '$1 == n { print $2 }'; }

# until_true COMMAND...: tries it again as long as the daemon lives; bounded by the runner's limit.
until_true() { until "$@" >/dev/null 2>&1; do kill -0 "$daemon" 2>/dev/null || fail "the daemon is gone"; done; }

# ---- programs of tests/stress ----

options=(--run-dir "$run" --data-dir "$data" --shm-dir "$shm")

# stress SECONDS PROGRAM ARGUMENT...: a program of tests/stress, with a limit on its time.  SKADE_STRESS: ten times that.
stress() {
    local limit=$1 name=$2
    shift 2
    [ -z "${SKADE_STRESS:-}" ] || limit=$((limit * 10))
    # They end by exit() with handles open; leaks are for skaded and skadectl to be asked about.
    # In our process group: who ends us ends it.
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 timeout --foreground -k 5 "$limit" "$B/stress/$name" "$@"
}

# ---- fail points ----

# fail_at NAME WHAT: what FAILPOINT(NAME) does from now on: "kill", "fail 28", "count 3 kill".
fail_at() { echo "$2" >"$points/.new" && mv "$points/.new" "$points/$1"; }
fail_no_more() { rm -f "$points/$1"; }

# hold_at NAME: who comes by there waits.  is_held NAME: returns when somebody does.  let_go NAME: lets it go on, and all
# that come later.
hold_at() { mkfifo "$points/$1"; }
is_held() { cat "$points/$1"; }
let_go() {
    exec 8>"$points/$1"
    rm "$points/$1"
    exec 8>&-
}

has_open() { readlink "/proc/$daemon"/fd/* | grep -qxF "$1"; }

# keep_held NAME: who is held stays so, but nobody else will be.  let_kept_go: lets it go on.
keep_held() {
    exec 7<>"$points/$1"
    until_true has_open "$points/$1"
    rm "$points/$1"
}
let_kept_go() { exec 7>&-; }

# ---- handles in processes of their own: tests/stress/ask.c ----

declare -A ask_in ask_out ask_pid

# asker WHO [socket] [stale] [TIMEOUT_MS]: a process with a handle; WRAP may hold a command to run it under.
asker() {
    local who=$1 in out
    shift
    mkfifo "$place/$who.in" "$place/$who.out"
    ${WRAP:-} "$B/stress/ask" "$@" <"$place/$who.in" >"$place/$who.out" 7>&- 8>&- 9<&- &
    ask_pid[$who]=$!
    exec {in}>"$place/$who.in" {out}<"$place/$who.out"
    ask_in[$who]=$in
    ask_out[$who]=$out
    rm "$place/$who.in" "$place/$who.out"
}

# ask WHO QUESTION...: one line to it, one line from it.
ask() {
    local who=$1 line
    shift
    echo "$*" >&"${ask_in[$who]}"
    read -r -t 60 -u "${ask_out[$who]}" line || fail "$who did not answer '$*'"
    echo "${line% }"
}

# answers WHO WANT QUESTION...
answers() {
    local who=$1 want=$2
    shift 2
    same "$who: $*" "$want" "$(ask "$who" "$@")"
}

# formula WHAT...: a history that can be judged by a formula (tests/stress/formula.c).
formula() { stress 120 formula "$@"; }
