# A daemon starts, answers, commits, resolves, refuses, and stops; what was committed is there after a restart.
. "$(dirname "$0")/lib.sh"

start
ctl ping >/dev/null
same "first table" 1 "$(ctl create shop.orders --location s3://lake/shop/orders)"
same "first commit" 2 "$(ctl commit shop.orders s3://lake/shop/orders/metadata/v1.json --snapshot 11)"
same "second commit" 3 "$(ctl commit shop.orders s3://lake/shop/orders/metadata/v2.json --snapshot -12 --base s3://lake/shop/orders/metadata/v1.json)"
same "resolve" $'shop.orders\t11\ts3://lake/shop/orders/metadata/v1.json' "$(ctl resolve shop.orders 11)"
same "resolve a negative id" $'shop.orders\t-12\ts3://lake/shop/orders/metadata/v2.json' "$(ctl resolve shop.orders -12)"
same "head" s3://lake/shop/orders/metadata/v2.json "$(ctl head shop.orders | cut -f5)"

expect 3 ctl resolve shop.orders 99
expect 3 ctl head shop.nothing
expect 4 ctl create shop.orders
expect 4 ctl commit shop.orders s3://x --snapshot 13 --base s3://lake/shop/orders/metadata/v1.json
expect 3 ctl commit shop.nothing s3://x
expect 2 ctl commit shop.orders
expect 2 ctl nonsense

stop
expect 5 ctl ping
start
same "after a restart" s3://lake/shop/orders/metadata/v1.json "$(ctl resolve shop.orders 11 | cut -f3)"
same "head after a restart" s3://lake/shop/orders/metadata/v2.json "$(ctl head shop.orders | cut -f5)"
same "the next number" 4 "$(ctl commit shop.orders s3://lake/shop/orders/metadata/v3.json --snapshot 14)"
stop
