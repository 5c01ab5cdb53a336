# A sticky directory that everybody may write, as /dev/shm is, with what others left in it, where the kernel protects files
# there (fs.protected_regular): opening them with O_CREAT fails even for root, and with a misleading word.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"

# The kernel's settings are everybody's: changed where that is possible, and put back.
settings="protected_regular protected_fifos"
for s in $settings; do cp "/proc/sys/fs/$s" "$place/$s" 2>/dev/null || skip "this kernel has no fs.$s"; done
put_back() { for s in $settings; do cat "$place/$s" >"/proc/sys/fs/$s"; done 2>/dev/null; }
trap 'status=$?; set +e; put_back; (exit $status); cleanup' EXIT
for s in $settings; do { echo 2 >"/proc/sys/fs/$s"; } 2>/dev/null || skip "fs.$s can't be set here"; done

chmod 755 "$place"
chmod 1777 "$shm"
mkdir "$run" "$data"
chown 12345:12345 "$run" "$data"
: >"$place/skaded.log"
chmod 666 "$place/skaded.log"
prefix=$shm/skade.12345.default.v1

# A daemon that another user runs.
mkdir "$place/bin" "$place/lib"
cp "$B/skaded" "$place/lib/"
chmod -R a+rX "$place/bin" "$place/lib"
user=(setpriv --reuid 12345 --regid 12345 --clear-groups)
printf '#!/bin/bash\nexec %s "%s" "$@"\n' "${user[*]}" "$place/lib/skaded" >"$place/bin/skaded"
chmod +x "$place/bin/skaded"
start_as_user() { PATH=$place/bin:$PATH start --rebuild-idle 5ms "$@"; }
is_published() { [ "$(counter generation)" != 0 ] && [ "$(counter covered_seq)" = "$(counter commit_seq)" ]; }

echo "- the service's user, killed, and again"
start_as_user
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
until_true is_published
crash
start_as_user
asker first && answers first "1 s3://lake/orders/v1" resolve 1 11 && answers first "1 map" from
crash

echo "- root in the user's run directory, over what the user left"
cp -a "$data" "$place/rootdata"
chown -R 0:0 "$place/rootdata"
userdata=$data
data=$place/rootdata
start --rebuild-idle 5ms
until_true is_published
answers first "1 s3://lake/orders/v1" resolve 1 11
ctl commit shop.orders s3://lake/orders/v2 --snapshot 12 >/dev/null
answers first "1 s3://lake/orders/v2" head 1
asker second && answers second "1 s3://lake/orders/v2" resolve 1 12
until_true is_published
[ "$(find "$shm" -name '*.ctl' | wc -l)" = 2 ] || fail "older pages are left: $(ls "$shm")"
[ -z "$(find "$shm" -name '*.part' -uid 12345)" ] || fail "the user's parts are left: $(ls -l "$shm")"
crash

echo "- the user, over what root left: told, and what to do about it"
data=$userdata
rm "$prefix.lock" # it is the user's own, which root went on using
: >"$prefix.lock"
chmod 600 "$prefix.lock"
expect 1 timeout 20 "$place/bin/skaded" "${options[@]}" >"$place/out" 2>"$place/err"
grep -q "$prefix.lock is a file of uid 0, mode 0600.*remove it" "$place/err" || fail "it says: $(cat "$place/err")"
[ "$(wc -l <"$place/err")" -le 3 ] || fail "it says it again and again: $(cat "$place/err")"
rm "$shm"/skade.*
start_as_user
until_true is_published
stop

echo "- root, over what a stranger left at the names of the lock and the page"
data=$place/rootdata
stranger() {
    rm -f "$shm"/skade.*
    echo precious >"$1"
    chown 54321:54321 "$1"
    chmod 666 "$1"
}
stranger "$prefix.lock"
expect 1 timeout 20 skaded --run-dir "$run" --data-dir "$data" --shm-dir "$shm" >"$place/out" 2>"$place/err"
grep -q "$prefix.lock is a file of uid 54321" "$place/err" || fail "it says: $(cat "$place/err")"
same "the stranger's file" "precious 54321" "$(cat "$prefix.lock") $(stat -c %u "$prefix.lock")"

stranger "$prefix.ctl"
start --rebuild-idle 5ms
grep -q "$prefix.ctl is a file of uid 54321" "$place/skaded.log" || fail "it says: $(cat "$place/skaded.log")"
same "the head over the socket" s3://lake/orders/v2 "$(ctl head shop.orders | cut -f5)"
same "the stranger's file" "precious 54321" "$(cat "$prefix.ctl") $(stat -c %u "$prefix.ctl")"
rm "$prefix.ctl"
until_true is_published
stop
