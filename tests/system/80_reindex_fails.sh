# A reindex that fails is told to who asked for it, and is over then: where everything is published, nothing goes on being
# called a failure.
. "$(dirname "$0")/lib.sh"

is() { [ "$(counter "$1")" = "$2" ]; }
start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null
for point in reserve fill verify link linked; do
    fail_at publish.$point "fail 28"
    ctl reindex >/dev/null 2>"$place/err" && fail "publish.$point did not fail"
    fail_no_more publish.$point
    until_true is rebuild_failing 0
    is publish_failed 0 && fail "nothing counts the failure"
    asker after-$point && answers after-$point "1 s3://lake/orders/v1" head 1
done
stop
