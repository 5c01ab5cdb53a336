# Who may do what: by the kernel's word at the socket, by file modes in shared memory.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"
chmod 755 "$place" "$shm"

# The build directory may be closed to others.
mkdir -p "$place/bin/stress"
cp -L "$B/skadectl" "$B/libskadeclient.so.0" "$place/bin/"
cp "$B/stress/ask" "$place/bin/stress/"
chmod -R a+rX "$place/bin"
nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups env LD_LIBRARY_PATH="$place/bin" "$@"; }
other() { nobody "$place/bin/skadectl" "$@"; }

round() {
    rm -rf "$run" "$data" "$shm"/skade.*
    start --rebuild-idle 5ms "$@"
    ctl create shop.orders --location s3://lake/orders >/dev/null
    ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
    ctl reindex >/dev/null
}

echo "- no role"
round
expect 8 other resolve shop.orders 11 2>"$place/err"
expect 8 other ping 2>"$place/err"
grep -q "options read, write, admin" "$place/err" || fail "the refusal doesn't say what to do: $(cat "$place/err")"
expect 8 other commit shop.orders s3://x 2>"$place/err"
stop

echo "- no role, but a run directory that lets one ask"
round --write root
expect 8 other ping 2>"$place/err"
grep -q "uid 65534" "$place/err" || fail "the refusal doesn't say who: $(cat "$place/err")"
expect 8 other resolve shop.orders 11 2>"$place/err"
expect 8 other segments 2>"$place/err"
stop

echo "- write without read"
round --write nobody
expect 0 other ping >/dev/null
expect 8 other segments 2>"$place/err"
stop

echo "- read"
round --read '*'
same "resolve" s3://lake/orders/v1 "$(other resolve shop.orders 11 | cut -f3)"
same "head" s3://lake/orders/v1 "$(other head shop.orders | cut -f5)"
same "without shared memory" s3://lake/orders/v1 "$(SKADE_SHM=no other resolve shop.orders 11 | cut -f3)"
expect 8 other commit shop.orders s3://x 2>"$place/err"
expect 8 other create shop.mine --location s3://x 2>"$place/err"
expect 8 other drop shop.orders 2>"$place/err"
expect 8 other rename shop.orders shop.mine 2>"$place/err"
expect 8 other expire shop.orders --snapshot 11 2>"$place/err"
expect 8 other reindex 2>"$place/err"
expect 8 other clients 2>"$place/err"
expect 8 other backup "$place/backup" 2>"$place/err"
echo '{"table":"shop.orders","location":"s3://x"}' | expect 8 other release 2>"$place/err"
WRAP="setpriv --reuid 65534 --regid 65534 --clear-groups" B=$place/bin asker reader
answers reader "1 s3://lake/orders/v1" resolve 1 11
answers reader "1 map" from
same "the number of events" 2 "$(counter commit_seq)"
stop

echo "- write"
round --read '*' --write nobody
same "a commit" 3 "$(other commit shop.orders s3://lake/orders/v2 --snapshot 12)"
expect 8 other reindex 2>"$place/err"
expect 8 other backup "$place/backup" 2>"$place/err"
stop

echo "- admin"
round --read '*' --admin nobody
expect 0 other reindex >/dev/null
expect 0 other clients >/dev/null
stop

# ---- directories that were there before, and maps ----

modes() { (cd "$shm" && for kind in ctl root part; do stat -c "$kind %a" skade.*."$kind"; done | sort -u | xargs); }
places() { echo "run $(stat -c %a "$run") tables $(stat -c %a "$data/tables")"; }
have() { [ "$(modes)" = "$1" ] && [ "$(places)" = "$2" ]; }
closed=("ctl 600 part 400 root 400" "run 700 tables 700")
open=("ctl 644 part 444 root 444" "run 755 tables 755")
asks_by_map() {
    WRAP="setpriv --reuid 65534 --regid 65534 --clear-groups" B=$place/bin asker "$1"
    answers "$1" "1 s3://lake/orders/v1" resolve 1 11
    answers "$1" "1 map" from
}

echo "- a role for an instance that ran without any"
round
stop
start --rebuild-idle 5ms --read '*'
until_true have "${open[@]}"
asks_by_map late
stop
start --rebuild-idle 5ms
until_true have "${closed[@]}"
expect 8 other ping 2>"$place/err"
stop

echo "- a directory that skaded didn't make is its owner's"
rm -rf "$run"
mkdir -m 700 "$run"
start --rebuild-idle 5ms --read '*'
same "the run directory's mode" 700 "$(stat -c %a "$run")"
grep -q "chmod 0755 $run" "$place/skaded.log" || fail "the log names no cure"
expect 8 other ping 2>"$place/err"
grep -q "chmod 0755" "$place/err" || fail "the refusal names no cure: $(cat "$place/err")"
chmod 755 "$run"
asks_by_map tardy
stop
rm -rf "$run"

echo "- another instance in the same directory keeps it open"
round --read '*'
stop
touch "$run/other.shm"
start --rebuild-idle 5ms
same "the run directory's mode" 755 "$(stat -c %a "$run")"
stop
rm "$run/other.shm"

echo "- given and taken back by SIGHUP"
: >"$place/skaded.conf"
round --config "$place/skaded.conf"
ctl create shop.rows >/dev/null
echo one | ctl append shop.rows >/dev/null
same "modes below tables" "d 755 f 444" "$(find "$data/tables" -mindepth 1 -printf '%y %m\n' | sort -u | xargs)"
expect 8 other scan shop.rows 2>"$place/err"
ctl reindex >/dev/null
same "modes" "${closed[*]}" "$(modes) $(places)"
expect 8 other ping 2>"$place/err"
printf 'read = *\n' >"$place/skaded.conf"
kill -HUP "$daemon"
until_true have "${open[@]}"
asks_by_map granted
same "rows from before the grant" one "$(other scan shop.rows)"
: >"$place/skaded.conf"
kill -HUP "$daemon"
until_true have "${closed[@]}"
expect 8 other resolve shop.orders 11 2>"$place/err"
same "files that can be read" 0 "$(setpriv --reuid 65534 --regid 65534 --clear-groups find "$data/tables" "$shm" -type f -readable 2>/dev/null | wc -l)"
until [ "$(ask granted resolve 1 11)" = EDENIED ]; do kill -0 "$daemon"; done
answers granted EDENIED head 1
ctl commit shop.orders s3://lake/orders/v2 --snapshot 12 >/dev/null
ctl reindex >/dev/null
same "modes of what is published later" "${closed[*]}" "$(modes) $(places)"
same "for others" s3://lake/orders/v2 "$(ctl resolve shop.orders 12 | cut -f3)"
printf 'read = @nogroup\n' >"$place/skaded.conf"
kill -HUP "$daemon"
by_group() { have "ctl 640 part 440 root 440" "run 755 tables 750"; }
until_true by_group
same "the group" nogroup "$(stat -c %G "$shm"/skade.*.part "$data/tables" | sort -u)"
asks_by_map member
stop

echo "- taken back by SIGHUP"
printf 'read = *\n' >"$place/skaded.conf"
round --config "$place/skaded.conf"
expect 0 other ping >/dev/null
: >"$place/skaded.conf"
kill -HUP "$daemon"
refused() { ! SKADE_SHM=no other ping >/dev/null 2>&1; }
until_true refused
expect 8 other ping 2>"$place/err"
stop
