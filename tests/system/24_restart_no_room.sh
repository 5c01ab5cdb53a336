# The daemon ends and starts again while shared memory has no room, not even for a control page.  Whoever holds the old
# map must hear of renames, drops, expiries and new heads all the same: the old page is retired before a commit is accepted.
. "$(dirname "$0")/lib.sh"

# Holders of the old map, each of which asks something else first: nothing else may have told it.
round() {
    local end=$1 who
    rm -rf "$run" "$data"
    start --rebuild-idle 5ms
    ctl create shop.orders --location s3://lake/orders >/dev/null
    ctl create shop.items --location s3://lake/items >/dev/null
    ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
    ctl reindex >/dev/null
    for who in head name hit drop; do
        asker "$end-$who" 2000
        answers "$end-$who" "1 1" find shop.orders
        answers "$end-$who" "1 s3://lake/orders/v1" head 1
        answers "$end-$who" "1 map" from
    done

    fail_at publish.reserve "fail 28"
    $end
    start --rebuild-idle 5ms
    ctl commit shop.orders s3://lake/orders/v2 --snapshot 12 >/dev/null
    answers "$end-head" "1 s3://lake/orders/v2" head 1
    ctl rename shop.orders shop.sales >/dev/null
    answers "$end-name" 0 find shop.orders
    answers "$end-name" "1 1" find shop.sales
    ctl expire shop.sales --snapshot 11 >/dev/null
    answers "$end-hit" EEXPIRED resolve 1 11
    ctl drop shop.sales >/dev/null
    answers "$end-drop" ENOTABLE resolve 1 11

    fail_no_more publish.reserve
    ctl reindex >/dev/null
    for who in head name hit drop; do
        answers "$end-$who" "1 2" find shop.items
        answers "$end-$who" 0 find shop.sales
    done
    stop
}

round ${1:-crash}
[ -n "${1:-}" ] || round stop
