# An index that can't be published is tried again after a pause that doubles, not with every commit.
. "$(dirname "$0")/lib.sh"

start --rebuild-threshold 1 --rebuild-idle 1ms
ctl create shop.orders --location s3://lake/orders >/dev/null
now() { date +%s%3N; }
failures() { counter publish_failed; }
fail_at publish.reserve "fail 28"
before=$(failures) began=$(now)
for n in $(seq 200); do ctl commit shop.orders "s3://lake/orders/v$n" --snapshot "$n" >/dev/null; done
tries=$(($(failures) - before)) took=$(($(now) - began))
[ "$tries" -gt 0 ] || fail "nothing failed"

# Pauses of 100, 200, 400 ... ms: however slow we are, no more than these fit.
most=1
for ((pause = 100, sum = 0; sum <= took; sum += pause, pause *= 2)); do most=$((most + 1)); done
[ "$tries" -le "$most" ] || fail "$tries tries in $took ms"
fail_no_more publish.reserve
published() { [ "$(counter covered_seq)" = 201 ]; }
until_true published
stop
