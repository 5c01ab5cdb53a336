# A killed daemon whose control page nobody can find any more: its readers may believe it for two seconds, so its successor
# takes no commit before that is over.
. "$(dirname "$0")/lib.sh"

start --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 1 >/dev/null
ctl reindex >/dev/null
for who in early head miss name; do
    asker $who 1000
    answers $who "1 s3://lake/orders/v1" head 1
    answers $who "1 map" from
done
# They see the heart beat, and so believe the page for a while without asking anybody.
heartbeat() { od -An -t u8 -j 512 -N 8 "$shm"/skade.*.default.v1.ctl | tr -d ' '; }
has_beaten() { [ "$(heartbeat)" != "$1" ]; }
for beat in 1 2 3; do
    before=$(heartbeat)
    for who in early head miss name; do answers $who "1 s3://lake/orders/v1" head 1; done
    until_true has_beaten "$before"
done
for who in early head miss name; do answers $who "1 s3://lake/orders/v1" head 1; done
kill -STOP "$daemon" # so that the names aren't made anew
rm "$shm"/skade.*.ctl
crash
start --rebuild-idle 5ms
grep -q "control page is gone; commits wait" "$place/skaded.log" || fail "the log says nothing about a lost page"
skadectl --timeout 20 rename shop.orders shop.sales >"$place/rename" & rename=$!
answers early "1 s3://lake/orders/v1" head 1
wait $rename || fail "the rename failed"
same "the rename's number" 3 "$(cat "$place/rename")"
ctl --timeout 20 commit shop.sales s3://lake/orders/v2 --snapshot 2 >/dev/null
answers head "1 s3://lake/orders/v2" head 1
answers early "1 s3://lake/orders/v2" head 1
answers miss "1 s3://lake/orders/v2" resolve 1 2
answers miss 0 find shop.orders
answers name 0 find shop.orders
