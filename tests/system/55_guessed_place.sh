# A user without XDG_RUNTIME_DIR has his run directory in /tmp, where anybody may have been before him.  What a stranger
# made under that name is not believed: neither his daemon's answers nor his files.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"
victim=1234567 stranger=1234568
guessed=/tmp/skade-$victim
[ ! -e "$guessed" ] || skip "$guessed exists"
as() { setpriv --reuid "$1" --regid "$1" --clear-groups env -u SKADE_RUN_DIR -u XDG_RUNTIME_DIR SKADE_INSTANCE=guessed "${@:2}"; }
trap 'status=$?; set +e; rm -rf "$guessed"; (exit $status); cleanup' EXIT

chmod 755 "$place"
chmod 1777 "$shm"
: >"$place/skaded.log"
chmod 666 "$place/skaded.log"
mkdir -p "$place/lib/stress" "$place/bin"
cp "$B/skaded" "$place/lib/"
cp "$B/stress/ask" "$place/lib/stress/"
chmod -R a+rX "$place/lib"

# start_as UID: a daemon of this user in the directory that the victim's programs guess, with one commit.
start_as() {
    rm -rf "$guessed" "$data" "$shm"/skade.*
    mkdir "$guessed" "$data"
    chown "$1:$1" "$guessed" "$data"
    printf '#!/bin/bash\nexec setpriv --reuid %s --regid %s --clear-groups "%s" "$@"\n' "$1" "$1" "$place/lib/skaded" >"$place/bin/skaded"
    chmod +x "$place/bin/skaded"
    PATH=$place/bin:$PATH start --instance guessed --read '*' --rebuild-idle 5ms
    ctl create shop.orders --location s3://lake/orders >/dev/null
    ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
    ctl reindex >/dev/null
}
run=$guessed
export SKADE_RUN_DIR=$run SKADE_INSTANCE=guessed
question() { echo "resolve 1 11" | as $victim "$place/lib/stress/ask"; }
not_believed() {
    local said
    said=$(question) && fail "believed: $said"
    [[ $said == "open: E"* ]] || fail "it says: $said"
}

echo "- his own daemon, alive and dead"
start_as $victim
same "a hit" "1 s3://lake/orders/v1" "$(question)"
crash
same "a hit without the daemon" "1 s3://lake/orders/v1" "$(question)"

echo "- a stranger's daemon, alive and dead"
start_as $stranger
not_believed
crash
not_believed

echo "- a stranger's directory and nothing in it"
rm -f "$guessed"/*
not_believed
