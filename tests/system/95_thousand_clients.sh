# A thousand clients attach, look up and go: nobody is refused, all are attached at once, and nothing stays of them.
. "$(dirname "$0")/lib.sh"

clients=1000
! grep -q '__[at]san_init' "$B/skaded" || clients=200 # each has a sanitizer's shadow
place_of=s3://lake/orders/1.metadata.json

# what_is_held: the daemon's descriptors.
what_is_held() { find "/proc/$daemon/fd" -mindepth 1 | wc -l; }

connected() { [ "$(counter connections)" -gt "$clients" ]; }
alone() { [ "$(counter connections)" = 1 ]; } # the one who asks

start
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders "$place_of" --snapshot 1 >/dev/null
ctl reindex >/dev/null
until_true alone
held=$(what_is_held)

for round in 1 2; do
    echo "- round $round: $clients at once"
    coproc CROWD { stress 300 thousand "$clients" shop.orders "$place_of" 2>&1; }
    crowd=$CROWD_PID in=${CROWD[1]}
    read -r -t 300 -u "${CROWD[0]}" line || fail "they don't say that they are there"
    same "they say" there "$line"

    until_true connected
    same "how many clients are listed" "$clients" "$(ctl clients | grep -c '^thousand' || true)"
    same "generations that they are behind" 0 "$(ctl clients | awk -F'\t' '$1 == "thousand" { print $5 }' | sort -u)"

    echo "- a commit while all of them are attached, and a new generation"
    ctl commit shop.orders "$place_of" --snapshot $((round + 1)) >/dev/null
    ctl reindex >/dev/null

    exec {in}>&-
    wait "$crowd" || fail "a client failed"
    until_true alone
done
same "connections refused" 0 "$(counter connections_refused)"
same "descriptors of the daemon" "$held" "$(what_is_held)"
stop
