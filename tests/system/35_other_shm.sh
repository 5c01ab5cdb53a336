# A client that sees no shared memory, or another one: it asks the socket, and is right.
. "$(dirname "$0")/lib.sh"

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
ctl reindex >/dev/null

check() {
    local who=$1 from=$2
    answers "$who" "1 1" find shop.orders
    answers "$who" "1 s3://lake/orders/v1" resolve 1 11
    answers "$who" "1 $from" from
    answers "$who" ENOSNAPSHOT resolve 1 99
    answers "$who" "1 s3://lake/orders/v1" head 1
}
asker mapped && check mapped map
SKADE_SHM=no asker told && check told daemon
asker socket socket && check socket daemon

unshare -m true 2>/dev/null || skip "mount namespaces can't be made here"
# An empty directory over ours, one that can't be read, and one with a page of another epoch.
hide() { mount -t tmpfs none "$shm" && exec "$@"; }
strange() { cp -a "$shm" "$place/copy" && mount -t tmpfs none "$shm" && cp -a "$place/copy/." "$shm" && exec "$@"; }
export -f hide strange
export shm place
wrapper() {
    cat >"$place/$1" <<END
#!/bin/bash
$1 "\$@"
END
    chmod +x "$place/$1"
}
wrapper hide && wrapper strange
WRAP="unshare -m $place/hide" asker hidden && check hidden daemon
WRAP="unshare -m $place/strange" asker copied && check copied daemon
# A copy of the page is frozen: what happens after it was made must be seen all the same.
ctl commit shop.orders s3://lake/orders/v2 --snapshot 12 >/dev/null
ctl rename shop.orders shop.sales >/dev/null
for who in mapped told socket hidden copied; do
    answers $who 0 find shop.orders
    answers $who "1 s3://lake/orders/v2" resolve 1 12
    answers $who "1 s3://lake/orders/v2" head 1
done
stop
