# A daemon that hangs or is dead: what the map proves is answered, what can go out of date is not, and nobody takes an old
# head for a new one when another daemon has come.
. "$(dirname "$0")/lib.sh"

# until_it_says WHO WANT QUESTION...: until then the old head is the true one.
until_it_says() {
    local who=$1 want=$2 reply
    shift 2
    until reply=$(ask "$who" "$@") && [ "$reply" = "$want" ]; do
        same "$who: $*" "1 s3://lake/orders/v1" "$reply"
    done
}
nobody_is_connected() { [ "$(counter connections)" = 1 ]; } # but the one who asks for it

start --rebuild-idle 5ms --idle-timeout 1s
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 1 >/dev/null
ctl reindex >/dev/null
asker lonely 1000
asker stale stale 1000
for who in lonely stale; do answers $who "1 s3://lake/orders/v1" head 1; done
until_true nobody_is_connected
asker connected 1000
asker socket socket 1000
for who in connected socket; do answers $who "1 s3://lake/orders/v1" head 1; done
answers connected 1 ping

# It hangs.  While a connection to it isn't hung up nothing can have been committed: its page is current.
kill -STOP "$daemon"
until_it_says lonely ETIMEOUT head 1
answers lonely "1 s3://lake/orders/v1" resolve 1 1
answers lonely "1 map" from
answers lonely ETIMEOUT resolve 1 2
answers lonely ETIMEOUT find shop.nothing
answers stale "1 s3://lake/orders/v1" head 1
answers stale "1 stale" from
answers socket ETIMEOUT head 1
answers connected "1 s3://lake/orders/v1" head 1
expect 7 ctl --timeout 1 ping
kill -CONT "$daemon"
for who in lonely stale socket connected; do
    answers $who "1 s3://lake/orders/v1" head 1
    answers $who ENOSNAPSHOT resolve 1 2
done

# It dies, with and without having hung, and another one takes a commit: each reader's next word is the new head.
for version in 2 3 4 5 6 7; do
    for who in lonely stale connected; do answers $who "1 s3://lake/orders/v$((version - 1))" head 1; done
    case $version in
    2 | 5) crash ;;
    3 | 6) kill -STOP "$daemon" && crash ;;
    *) stop ;;
    esac
    [ $version -lt 5 ] || answers lonely "1 s3://lake/orders/v1" resolve 1 1
    start --rebuild-idle 5ms
    ctl commit shop.orders "s3://lake/orders/v$version" --snapshot $version >/dev/null
    for who in lonely stale socket connected; do answers $who "1 s3://lake/orders/v$version" head 1; done
done

# It is dead for good.
crash
for who in lonely connected; do
    until [ "$(ask $who head 1)" = EUNREACHABLE ]; do :; done
    answers $who "1 s3://lake/orders/v1" resolve 1 1
    answers $who EUNREACHABLE resolve 1 99
    answers $who EUNREACHABLE find shop.nothing
done
answers socket EUNREACHABLE resolve 1 1
expect 5 ctl head shop.orders >/dev/null
