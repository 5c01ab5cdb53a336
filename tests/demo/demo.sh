#!/bin/bash
# The demo: a daemon in a temporary place, real Iceberg metadata, a synthetic history, readers and a writer while the
# daemon is killed and comes back; a closing table.  Everything is gone afterwards.
#
# usage: tests/demo/demo.sh BUILD-DIR      DEMO_TABLES, DEMO_VERSIONS, DEMO_SECONDS change its size
set -eu
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
tables=${DEMO_TABLES:-1000} versions=${DEMO_VERSIONS:-1000} seconds=${DEMO_SECONDS:-6}
export PATH="$build:$build/demo:$PATH"
place=$(mktemp -d /tmp/skade-demo.XXXXXX)
export SKADE_RUN_DIR=$place/run
daemon=

cleanup() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$place"
    rm -f /dev/shm/skade."$(id -u)".demo-$$.v1.*
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '  $ skadectl %s\n' "$*"; skadectl "$@" | head -"${LINES_SHOWN:-6}" | sed 's/^/    /'; }

start() {
    exec 9< <(exec skaded --instance "demo-$$" --run-dir "$SKADE_RUN_DIR" --data-dir "$place/data" 2>>"$place/skaded.log")
    daemon=$!
    read -r line <&9 || { cat "$place/skaded.log"; exit 1; }
}
export SKADE_INSTANCE=demo-$$

say "1. A daemon on an embedded default, in $place"
start
echo "  $line"

say "2. Real Iceberg metadata, written by PyIceberg: appends, a schema change, a rollback, a branch, a tag, gzip"
run import "$here/../data/iceberg"
run tables
run history shop.customers --limit 4
snapshot=$(skadectl history shop.customers | awk -F'\t' '$3 == "commit" { print $4; exit }')
run resolve shop.customers "$snapshot"
run head shop.orders
run as-of shop.customers "$(skadectl history shop.customers | awk -F'\t' '$3 == "commit" { t = $2 } END { print t }')"

say "3. A synthetic history: $((tables * versions)) snapshots over $tables tables"
load fill "$tables" "$versions" >"$place/fill"
skadectl reindex >/dev/null
awk '{ v[$1] = $2 } END { printf "  %d commits in %.1f s: %.0f commits per second, by releases\n", v["filled"], v["fill_seconds"], v["filled"] / v["fill_seconds"] }' "$place/fill"
bytes=$(skadectl stats index_bytes | awk '$1 == "index_bytes" { print $2 }')
echo "  the index takes $((bytes / (tables * versions))) bytes of shared memory for a snapshot"

load write 1 "$tables" "$versions" >"$place/quiet"

say "4. 4 reader processes, 1 writer, 1 reader without shared memory, for $seconds s; kill -9 of the daemon in the middle"
for i in 1 2 3 4; do load read "$seconds" "$tables" "$versions" >"$place/read.$i" & readers="${readers:-} $!"; done
load write "$seconds" "$tables" "$versions" >"$place/write" & writer=$!
# The writer's commits tell when half of the time is over: no clock of ours.
half=$(awk -v s="$seconds" 'BEGIN { print s / 2 }')
read -r -t "$half" _ < <(exec tail -f /dev/null) || true
generations=$(skadectl stats published | awk '$1 == "published" { print $2 }')
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start
echo "  killed and started again: $line"
status=0
for pid in $readers $writer; do wait "$pid" || status=1; done
load socket 1 "$tables" "$versions" >"$place/socket" || status=1
generations=$((generations + $(skadectl stats published | awk '$1 == "published" { print $2 }')))
run verify

say "5. What happened"
awk '$1 == "commits" { n = $2 } $1 == "commit_seconds" { s = $2 }
    END { printf "  commits, one writer alone    %12.0f per second, each durable\n", n / s }' "$place/quiet"
cat "$place"/read.* "$place/write" "$place/socket" | awk -v generations="$generations" -v seconds="$seconds" '
    { v[$1] += $2; n[$1]++ }
    END {
        printf "  lookups mapped, one by one   %12.0f per second and process   %8.0f ns each\n", 1e9 / (v["single_ns"] / n["single_ns"]), v["single_ns"] / n["single_ns"]
        printf "  lookups mapped, in batches   %12.0f per second and process   %8.0f ns each\n", 1e9 / (v["batch_ns"] / n["batch_ns"]), v["batch_ns"] / n["batch_ns"]
        printf "  lookups over the socket      %12.0f per second and process   %8.0f ns each\n", 1e6 / v["socket_us"], v["socket_us"] * 1e3
        printf "  commits beside 4 readers     %12.0f per second, on '"$(nproc)"' processors that are all busy\n", v["commits"] / v["commit_seconds"]
        printf "  generations published        %12d\n", generations
        printf "  answers judged               %12d\n", v["read_answers"] + v["write_answers"] + v["socket_answers"]
        printf "  errors that readers noticed  %12d\n", v["errors"]
        printf "  wrong answers: %d\n", v["wrong"]
        exit v["wrong"] != 0
    }' || status=1
exit $status
