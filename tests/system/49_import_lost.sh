# The daemon is killed within an import and doesn't come back.  skadectl, whose patience with a daemon that works is an hour,
# gives up by itself and says that it can't know; the same import later makes each commit once.
. "$(dirname "$0")/lib.sh"

tables=$here/../data/iceberg
# What the import of TABLES made, but for numbers and times that the daemon gave.
made() { cut -f1 "$place/want" | while read -r table; do ctl history "$table" | cut -f3-; done; }

# What the import makes when nothing happens.
start
ctl import "$tables" | cut -f1,2,5 >"$place/want"
made >"$place/events"
stop
rm -rf "$data"

# lost POINT WHAT: WHAT at POINT, and nobody starts the daemon again.
lost() {
    start
    fail_at $1 "$2"
    timeout 120 skadectl import "$tables" >"$place/out" 2>"$place/err" & importer=$!
    wait_gone "$daemon"
    daemon=
    expect 5 wait $importer
    grep -q "ask again with the same uuid" "$place/err" || fail "it doesn't say that it can't know: $(cat "$place/err")"
    [ ! -s "$place/out" ] || fail "a table is reported that nobody acknowledged: $(cat "$place/out")"
    fail_no_more $1

    start
    ctl import "$tables" | cut -f1,2,5 | cmp "$place/want" - || fail "the import after $1 says something else"
    made | cmp "$place/events" - || fail "the history after $1 is another"
    stop
    rm -rf "$data"
}

lost commit.durable kill         # the create of the first table: durable, not answered
lost commit.durable "count 1 kill" # its release
lost log.commit "count 1 kill"
