# Bytes, frames and peers of the worst kind at the socket: the daemon goes on as if nothing had been.
. "$(dirname "$0")/lib.sh"

start --frame-timeout 300ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
stress 100 hostile "$daemon"
[ "$(counter protocol_errors)" -gt 0 ] || fail "no protocol error was counted"
[ "$(counter timeouts)" -gt 0 ] || fail "no timeout was counted"
stop
