# Somebody else's things at our names: a FIFO, a directory, a symbolic link, another user's file.  The daemon refuses
# loudly or leaves them alone, clients ask the socket; nobody hangs, nothing of others' is touched.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to make another user's files"
prefix=$shm/skade.0.default.v1

squat() {
    rm -rf "$2"
    case $1 in
    fifo) mkfifo "$2" ;;
    directory) mkdir "$2" && touch "$2/inside" ;;
    symlink) echo precious >"$place/precious" && ln -s "$place/precious" "$2" ;;
    dangling) ln -s "$place/nothing" "$2" ;;
    foreign) echo precious >"$2" && chown 65534:65534 "$2" ;;
    esac
}
print() { stat -c '%i %F %u %s' "$1"; [ -d "$1" ] && ls "$1"; [ ! -f "$place/precious" ] || cat "$place/precious"; }

# At the lock's name: without the lock no daemon may run.
for kind in fifo directory symlink dangling foreign; do
    squat $kind "$prefix.lock"
    print "$prefix.lock" >"$place/before"
    expect 1 timeout 20 skaded "${options[@]}" >"$place/out" 2>"$place/err"
    grep -q "$prefix.lock" "$place/err" || fail "a $kind at the lock isn't named: $(cat "$place/err")"
    print "$prefix.lock" | cmp "$place/before" -
    [ ! -e "$place/nothing" ] || fail "a dangling link was followed"
    rm -rf "$prefix.lock"
done

# At the control page's name: everybody asks the socket until it is gone.
for kind in fifo directory symlink dangling foreign; do
    rm -rf "$shm"/skade.* "$run" "$data" "$place/skaded.log"
    squat $kind "$prefix.ctl"
    print "$prefix.ctl" >"$place/before"
    start --rebuild-idle 5ms
    grep -q "$prefix.ctl" "$place/skaded.log" || fail "a $kind at the page isn't named: $(cat "$place/skaded.log")"
    ctl create shop.orders --location s3://lake/orders >/dev/null
    ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
    same "resolve" s3://lake/orders/v1 "$(timeout 20 skadectl resolve shop.orders 11 | cut -f3)"
    print "$prefix.ctl" | cmp "$place/before" -
    [ ! -e "$place/nothing" ] || fail "a dangling link was followed"
    rm -rf "$prefix.ctl"
    is_published() { [ "$(counter generation)" != 0 ] && [ -e "$prefix.ctl" ]; }
    until_true is_published
    stop
done
rm -rf "$shm"/skade.* "$run" "$data"

# Look-alikes: names of a former epoch, of other instances, and some that are nobody's.
n=0
for kind in fifo directory symlink dangling foreign; do
    for name in 00000000000000aa.ctl 00000000000000aa.00000000000000bb.root 00000000000000aa.00000000000000bb.part \
        00000000000000aa.00000000000000bb.tmp; do
        n=$((n + 1))
        squat $kind "$prefix.$(printf '%016x' $n)${name#00000000000000aa}"
    done
done
for name in skade.0.other.v1.00000000000000aa.ctl skade.0.default.v2.ctl skade.1.default.v1.ctl skade.0.default.v1.xyz.ctl \
    skade.0.default.v1.00000000000000AA.ctl skade.0.default.v1. skade; do
    echo precious >"$shm/$name"
done
(cd "$shm" && stat -c '%n %i %F %u %s' *) | sort >"$place/before"
start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null
(cd "$shm" && stat -c '%n %i %F %u %s' *) | sort >"$place/after"
comm -23 "$place/before" "$place/after" | grep . && fail "the daemon touched what isn't its own"
same "resolve" s3://lake/orders/v1 "$(ctl resolve shop.orders 11 | cut -f3)"

# At the control page's name while the daemon runs: clients that come now.
asker old 2000
answers old "1 s3://lake/orders/v1" head 1
mv "$prefix.ctl" "$place/page"
for kind in fifo directory symlink dangling foreign; do
    squat $kind "$prefix.ctl"
    asker "at-$kind" 2000
    answers "at-$kind" "1 1" find shop.orders
    answers "at-$kind" "1 s3://lake/orders/v1" resolve 1 11
    answers old "1 s3://lake/orders/v1" head 1
    ctl commit shop.orders s3://lake/orders/v1 >/dev/null
done
rm -rf "$prefix.ctl"
healed() { [ -e "$prefix.ctl" ]; }
until_true healed
asker new 2000
answers new "1 s3://lake/orders/v1" resolve 1 11
stop
