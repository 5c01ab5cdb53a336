# Connections are counted: no user but admins may hold most of them, and the last ones are kept for admins.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"
chmod 755 "$place" "$shm"

mkdir -p "$place/bin/stress"
cp -L "$B/stress/peer" "$place/bin/stress/"
chmod -R a+rX "$place/bin"

# holder NAME UID N: a process of this user that holds N connections, or as many as it gets; `said` is what it says.
holder() {
    mkfifo "$place/$1.in" "$place/$1.out"
    setpriv --reuid "$2" --regid "$2" --clear-groups "$place/bin/stress/peer" hold "$3" <"$place/$1.in" >"$place/$1.out" &
    holder=$!
    exec 6>"$place/$1.in" 5<"$place/$1.out"
    read -r -t 60 said <&5 || fail "$1 said nothing"
}
holders_end() {
    exec 6>&- 5<&-
    wait "$holder" || true
    alone() { [ "$(counter connections)" = 1 ]; }
    until_true alone
}

start --read '*' --max-connections 40
ctl create shop.orders --location s3://lake/orders >/dev/null

echo "- one user"
holder one 65534 100
same "one user gets" 30 "${said%% *}"
[[ $said == *max_connections* ]] || fail "the refusal doesn't name the option: $said"

echo "- and another: the last are kept"
exec 4>&6
mkfifo "$place/two.in" "$place/two.out"
setpriv --reuid 65533 --regid 65533 --clear-groups "$place/bin/stress/peer" hold 100 4>&- <"$place/two.in" >"$place/two.out" &
second=$!
exec 3>"$place/two.in"
read -r -t 60 said <"$place/two.out" || fail "the second said nothing"
same "another user gets" 2 "${said%% *}"
[[ $said == *max_connections* ]] || fail "the refusal doesn't name the option: $said"
ctl commit shop.orders s3://lake/orders/v1 --snapshot 1 >/dev/null
exec 3>&- 4>&-
wait $second || true
holders_end

echo "- an admin, to the last one"
holder three 0 100
same "an admin gets" 40 "${said%% *}"
[[ $said == *max_connections* ]] || fail "the refusal doesn't name the option: $said"
expect 1 ctl ping 2>"$place/err"
grep -q max_connections "$place/err" || fail "the refusal doesn't name the option: $(cat "$place/err")"
holders_end
stop
