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
expect 8 other commit shop.orders s3://x 2>"$place/err"
stop

echo "- no role, but a run directory that lets one ask"
round --write root
expect 8 other ping 2>"$place/err"
grep -q "uid 65534" "$place/err" || fail "the refusal doesn't say who: $(cat "$place/err")"
expect 8 other resolve shop.orders 11 2>"$place/err"
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
