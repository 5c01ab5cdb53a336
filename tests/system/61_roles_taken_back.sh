# A role that SIGHUP takes back is taken from those who are connected, too.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "needs root to become other users"
command -v setpriv >/dev/null || skip "needs setpriv"
chmod 755 "$place" "$shm"

mkdir -p "$place/bin/stress"
cp -L "$B/stress/ask" "$place/bin/stress/"
chmod -R a+rX "$place/bin"

config() { printf '%s\n' "$@" >"$place/skaded.conf"; }
reload() {
    local before=$(grep -c "configuration reloaded" "$place/skaded.log" || true)
    config "$@"
    kill -HUP "$daemon"
    more() { [ "$(grep -c "configuration reloaded" "$place/skaded.log")" -gt "$before" ]; }
    until_true more
}

config "read = *" "write = nobody"
start --config "$place/skaded.conf" --rebuild-idle 5ms
ctl create shop.orders --location s3://lake/orders >/dev/null
WRAP="setpriv --reuid 65534 --regid 65534 --clear-groups" B=$place/bin asker other socket
answers other "1 2" commit 1 1 s3://lake/orders/v1

echo "- write"
reload "read = *"
answers other EDENIED commit 1 2 s3://lake/orders/v2
answers other "1 s3://lake/orders/v1" head 1

echo "- and given again, without another connection"
connected=$(ask other counter connects)
reload "read = *" "write = nobody"
answers other "1 3" commit 1 3 s3://lake/orders/v3
same "connections" "$connected" "$(ask other counter connects)"

echo "- read"
reload "# nobody"
answers other EDENIED head 1
gone() { [ "$(counter connections)" = 1 ]; }
until_true gone
stop
