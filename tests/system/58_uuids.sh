# An expiry that comes again gets its first answer, also from the next daemon; the same uuid for another one is refused.
. "$(dirname "$0")/lib.sh"

expire() { stress 60 peer expire "$@"; }
start --rebuild-idle 5ms
for table in orders items; do
    ctl create shop.$table --location s3://lake/$table >/dev/null
    for n in 1 2 3 4 5; do
        ctl commit shop.$table s3://lake/$table/v$n --snapshot $n --time ${n}000000 >/dev/null
    done
done

by_snapshot=$(expire 1 1 2 2)
by_time=$(expire 2 2 1 2500000)
same "up to snapshot 2" 13 "$by_snapshot"
same "before 2.5 s" 14 "$by_time"
later=$(expire 3 2 1 3500000)

again() {
    same "$1: the same by snapshot" "$by_snapshot" "$(expire 1 1 2 2)"
    same "$1: the same by time" "$by_time" "$(expire 2 2 1 2500000)"
    same "$1: the same of later" "$later" "$(expire 3 2 1 3500000)"
    same "$1: another snapshot" EINPUT "$(expire 1 1 2 3)"
    same "$1: another table" EINPUT "$(expire 1 2 2 2)"
    same "$1: another time" EINPUT "$(expire 2 2 1 4500000)"
    same "$1: an earlier time" EINPUT "$(expire 2 2 1 1500000)"
    same "$1: another's" EINPUT "$(expire 3 1 2 2)"
    same "$1: no such table" EINPUT "$(expire 1 99 2 2)"
    same "$1: events" 15 "$(counter commit_seq)"
    expect 0 ctl resolve shop.orders 3 >/dev/null
}
again "the same daemon"
stop
start --rebuild-idle 5ms
again "the next daemon"
crash
start --rebuild-idle 5ms
expire 4 1 2 3 >/dev/null
same "one that came before a later one" "$by_snapshot" "$(expire 1 1 2 2)"
stop
