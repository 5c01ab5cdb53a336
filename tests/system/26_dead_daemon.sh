# A daemon that hangs or is dead: what the map proves is answered, what can go out of date is not, and nobody takes an old
# head for a new one when another daemon has come.
. "$(dirname "$0")/lib.sh"

# not_current WHO: until WHO says that it can't tell any more; before that the old head is the true one.
not_current() {
    local reply
    while reply=$(ask "$1" head 1); do
        case $reply in
        ETIMEOUT | EUNREACHABLE) return ;;
        "1 $2") ;;
        *) fail "$1: the head is '$reply'" ;;
        esac
    done
}

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 1 >/dev/null
ctl reindex >/dev/null
asker reader 1000
asker stale stale 1000
asker socket socket 1000
for who in reader stale socket; do answers $who "1 s3://lake/orders/v1" head 1; done

# It hangs.
kill -STOP "$daemon"
not_current reader s3://lake/orders/v1
answers reader "1 s3://lake/orders/v1" resolve 1 1
answers reader "1 map" from
answers reader "1 1" find shop.orders
answers reader ETIMEOUT resolve 1 2
answers reader ETIMEOUT find shop.nothing
answers socket ETIMEOUT head 1
not_current() { until [ "$(ask "$1" from)" = "1 stale" ]; do answers "$1" "1 $2" head 1 >/dev/null; done; }
not_current stale s3://lake/orders/v1
expect 7 ctl --timeout 1 ping
kill -CONT "$daemon"
for who in reader stale socket; do
    answers $who "1 s3://lake/orders/v1" head 1
    answers $who ENOSNAPSHOT resolve 1 2
done

# It dies, with and without having hung, and another one takes a commit: each reader's next word is the new head.
version=1
for round in 1 2 3 4 5 6; do
    version=$((version + 1))
    for who in reader stale; do answers $who "1 s3://lake/orders/v$((version - 1))" head 1; done
    [ $((round % 2)) = 0 ] || kill -STOP "$daemon"
    if [ $((round % 3)) = 0 ] && [ $((round % 2)) = 0 ]; then stop; else crash; fi
    [ $((round % 2)) = 0 ] || answers reader "1 s3://lake/orders/v1" resolve 1 1
    start --rebuild-idle 5ms
    ctl commit shop.orders "s3://lake/orders/v$version" --snapshot $version >/dev/null
    for who in reader stale socket; do answers $who "1 s3://lake/orders/v$version" head 1; done
done

# It is dead for good.
crash
until [ "$(ask reader head 1)" = EUNREACHABLE ]; do :; done
answers reader "1 s3://lake/orders/v1" resolve 1 1
answers reader EUNREACHABLE resolve 1 99
answers reader EUNREACHABLE find shop.nothing
answers socket EUNREACHABLE resolve 1 1
expect 5 ctl head shop.orders >/dev/null
