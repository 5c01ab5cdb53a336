# A daemon that is started without standard input, output and errors keeps its messages out of its other files.
# Where they aren't closed here they are /dev/null anyway.
. "$(dirname "$0")/lib.sh"

for closed in '2>&-' '>&-' '<&-' '<&- >&- 2>&-'; do
    rm -rf "$data" "$run" "$shm"/skade.*
    bash -c "exec skaded --run-dir '$run' --data-dir '$data' --shm-dir '$shm' $closed" </dev/null >/dev/null 2>/dev/null &
    daemon=$!
    until_true ctl ping
    for fd in 0 1 2; do
        to=$(readlink "/proc/$daemon/fd/$fd")
        [ "$to" = /dev/null ] || fail "descriptor $fd of a daemon started with $closed is $to"
    done
    ctl create shop.orders --location s3://lake/orders >/dev/null
    kill -HUP "$daemon" # it says something
    ctl ping >/dev/null
    pid=$daemon daemon=
    kill -TERM "$pid"
    expect 0 wait "$pid"
done
