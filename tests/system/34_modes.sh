# File modes are what the options say, whatever the umask.
. "$(dirname "$0")/lib.sh"

modes() { (cd "$shm" && for kind in ctl lock root part; do stat -c "$kind %a" skade.*."$kind"; done | sort -u); stat -c 'socket %a' "$run/default.sock"; stat -c 'run %a' "$run"; stat -c 'log %a' "$data/log"; }

round() {
    rm -rf "$run" "$data" "$shm"/skade.*
    start --rebuild-idle 5ms "$@"
    ctl create shop.orders --location s3://lake/orders >/dev/null
    ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
    ctl reindex >/dev/null
    modes
    stop
}

for mask in 000 022 077; do
    umask $mask
    same "modes, umask $mask" "$(printf '%s\n' 'ctl 600' 'lock 600' 'part 400' 'root 400' 'socket 666' 'run 700' 'log 700')" "$(round)"
    same "modes, umask $mask, read=*" "$(printf '%s\n' 'ctl 644' 'lock 600' 'part 444' 'root 444' 'socket 666' 'run 755' 'log 700')" "$(round --read '*')"
done
