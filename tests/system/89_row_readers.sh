# Who reads rows of stored tables: single users, several groups, one group, everyone, and nobody else; given and taken back.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"
chmod 755 "$place" "$shm"
mkdir -p "$place/bin"
cp -L "$B/skadectl" "$B/libskadeclient.so.0" "$place/bin/"
chmod -R a+rX "$place/bin"
as() { # UID GID COMMAND...
    local uid=$1 gid=$2
    shift 2
    setpriv --reuid "$uid" --regid "$gid" --clear-groups env LD_LIBRARY_PATH="$place/bin" "$place/bin/skadectl" "$@"
}
reads() { same "$*: rows" "k	v" "$(as "$@" scan shop.rows --format tsv)" && same "$*: a key" "v" "$(as "$@" get shop.rows k)"; }
read_by() { as "$@" scan shop.rows --format tsv >/dev/null 2>&1; }
refused() { ! read_by "$@"; }
roles() { # LINE...: the daemon has them from now on
    printf '%s\n' "$@" >"$place/skaded.conf"
    kill -HUP "$daemon"
}

: >"$place/skaded.conf"
start --config "$place/skaded.conf"
ctl create shop.rows >/dev/null
printf 'k\tv\n' | ctl append shop.rows --format tsv >/dev/null
nobody=$(id -un 65534) bin=$(id -un 2) bins=$(getent group 2 | cut -d: -f1) daemons=$(getent group 1 | cut -d: -f1)
[ -n "$bin" ] && [ -n "$bins" ] && [ -n "$daemons" ] || skip "needs users and groups with the numbers 1 and 2"

echo "- a single user"
roles "read = $nobody"
until_true read_by 65534 65534
reads 65534 65534
refused 2 2 || fail "another user reads"
[ "$(as 2 65534 ping >/dev/null 2>&1; echo $?)" = 8 ] || fail "the user's group has a role"

echo "- users of every role, and two groups"
roles "read = $nobody, @$daemons" "write = $bin" "admin = @$bins"
until_true read_by 2 2
reads 65534 65534
reads 2 65534
reads 60001 1
reads 60001 2
refused 60001 60001 || fail "somebody else reads"
ctl compact shop.rows >/dev/null # directories that are made later
reads 65534 65534

echo "- other ways to say it, and back"
roles "read = *"
until_true read_by 60001 60001
roles "read = @$bins"
until_true refused 60001 60001
reads 60001 2
refused 65534 65534 || fail "the list of before still admits"
roles "read = $nobody"
until_true read_by 65534 65534
stop
start --config "$place/skaded.conf"
reads 65534 65534
refused 60001 2 || fail "the group of before still reads"
roles "read ="
until_true refused 65534 65534
same "files that can be read" 0 "$(setpriv --reuid 65534 --regid 65534 --clear-groups find "$data/tables" -type f -readable 2>/dev/null | wc -l)"
stop
