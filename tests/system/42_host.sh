# Programs that aren't nice to the library in them: see tests/stress/host.c.
. "$(dirname "$0")/lib.sh"

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null
stress 240 host
only_me() { [ "$(counter connections)" = 1 ]; }
until_true only_me
stop
