# Programs in sandboxes: a seccomp filter, a chroot, a user namespace, too little address space.  What memory proves is
# answered, else the daemon is asked if it can be reached, else a status says why: see tests/stress/sandbox.c.
. "$(dirname "$0")/lib.sh"

start --rebuild-threshold 1000000 --rebuild-idle 1h --read '*'
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null
for scene in strict maps sockets full memory; do stress 100 sandbox $scene; done
stress 300 sandbox each

[ "$(id -u)" = 0 ] || skip "filters are well; chroots and user namespaces need root"
unshare -m true 2>/dev/null || skip "filters are well; mount namespaces can't be made here"

# check WHO map|daemon: the handle is right, and that is where it has its answers from.
check() {
    local who=$1 from=$2
    answers "$who" "1 1" find shop.orders
    answers "$who" "1 s3://lake/orders/v1" resolve 1 11
    answers "$who" "1 $from" from
    answers "$who" ENOSNAPSHOT resolve 1 99999
    answers "$who" "1 $head" head 1
}
head=$(ctl head shop.orders | cut -f5)

# A program of ours with its libraries, in a root of its own.
jail=$place/jail
mkdir -p "$jail/stress"
cp "$B/stress/ask" "$jail/stress/"
ldd "$B/stress/ask" | grep -o '/[^ ]*' | xargs cp -L --parents -t "$jail"

# enter DIRECTORY... -- COMMAND...: in the jail, from where these can be seen.
cat >"$place/enter" <<END
#!/bin/bash
set -e
for ((; ; )); do
    dir=\$1
    shift
    [ "\$dir" != -- ] || break
    mount --bind "\$dir" "$jail\$dir"
done
exec chroot "$jail" "\$@"
END
chmod +x "$place/enter"
jailed="unshare -m $place/enter"

echo "- a chroot that sees nothing, not even directories"
expect 1 $jailed -- /stress/ask </dev/null >"$place/out"
grep -q "^open: EUNREACHABLE: the run directory $run can't be seen" "$place/out" || fail "it says: $(cat "$place/out")"
mkdir -p "$jail$run"

echo "- a chroot that sees the run directory only"
WRAP="$jailed $run --" B=/ asker told && check told daemon
[ "$(ask told counter failed_missing)" -gt 0 ] || fail "nothing counts the missing files"
mkdir -p "$jail$shm"

echo "- a chroot that sees both, or only shared memory"
WRAP="$jailed $run $shm --" B=/ asker both && check both map
expect 1 $jailed "$shm" -- /stress/ask </dev/null >"$place/out"
grep -q "^open: EUNREACHABLE: " "$place/out" || fail "it says: $(cat "$place/out")"

echo "- they hear of what is published later"
ctl commit shop.orders s3://lake/orders/other --snapshot 12345 >/dev/null
head=s3://lake/orders/other
check told daemon
check both map
ctl reindex >/dev/null
check told daemon
check both map

unshare -U true 2>/dev/null || skip "chroots are well; user namespaces can't be made here"
# The names of shared-memory files hold the uid of the daemon, as it is seen outside: who sees another one finds nothing
# and asks.
echo "- a user namespace without any uid"
WRAP="unshare -U" asker unmapped && check unmapped daemon
[ "$(ask unmapped counter failed_missing)" -gt 0 ] || fail "nothing counts the missing files"

echo "- user namespaces that know the daemon's uid, by another number and by its own"
WRAP="unshare -U --map-user=1234" asker renumbered && check renumbered daemon
WRAP="unshare -U --map-root-user" asker rooted && check rooted map

echo "- a user who is root in a namespace of his own, where the daemon's uid is unknown"
if command -v setpriv >/dev/null; then
    chmod 755 "$place" "$shm"
    mkdir -p "$place/bin/stress"
    cp "$B/stress/ask" "$place/bin/stress/"
    chmod -R a+rX "$place/bin"
    WRAP="setpriv --reuid 12345 --regid 12345 --clear-groups unshare -U --map-root-user" B=$place/bin asker user
    check user daemon
fi

# All uids that a namespace doesn't know look the same, the daemon's and any stranger's.  Byte by byte the files are the
# daemon's, under the names that are looked for there; only their owner isn't.
echo "- a stranger's files, where he looks like the daemon"
for file in "$shm"/skade.0.*; do
    copy=$shm/skade.65534.${file#*/skade.0.}
    cp "$file" "$copy"
    chown 54321:54321 "$copy"
    chmod 444 "$copy"
done
WRAP="unshare -U" asker deceived && check deceived daemon
[ "$(ask deceived counter failed_foreign)" -gt 0 ] || fail "nothing counts the stranger's files"
crash
asker outside && answers outside "1 s3://lake/orders/v1" resolve 1 11
expect 1 unshare -U "$B/stress/ask" </dev/null >"$place/out"
grep -q "^open: EUNREACHABLE: .*belongs to uid 65534" "$place/out" || fail "it says: $(cat "$place/out")"
