#!/bin/bash
# The demo: a daemon in a temporary place, real Iceberg metadata, a synthetic history, what each load does alone, readers
# and a writer while the daemon is killed and comes back; a closing table.  Everything is gone afterwards.
#
# usage: tests/demo/demo.sh BUILD-DIR      DEMO_TABLES, DEMO_VERSIONS, DEMO_SECONDS change its size
set -eu
export LC_ALL=C # awk and EPOCHREALTIME: points in numbers
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

# Columns under each other, with their names above, which skadectl prints on a terminal.
aligned() {
    awk -F'\t' '
        { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } fields[NR] = NF }
        END {
            for (r = 1; r <= NR; r++) {
                line = ""
                for (i = 1; i < fields[r]; i++) line = line sprintf("%-" width[i] "s  ", cell[r, i])
                printf r == 1 ? "    \033[2m%s\033[0m\n" : "    %s\n", line cell[r, fields[r]]
            }
        }'
}
run() {
    printf '  $ skadectl %s\n' "$*"
    { skadectl "$1" --help | sed -n 's/^Columns: //p' | tr ' ' '\t'; skadectl "$@" | head -"${LINES_SHOWN:-6}"; } | aligned
}

start() {
    exec 9< <(exec skaded --instance "demo-$$" --run-dir "$SKADE_RUN_DIR" --data-dir "$place/data" 2>>"$place/skaded.log")
    daemon=$!
    read -r line <&9 || { cat "$place/skaded.log"; exit 1; }
}
export SKADE_INSTANCE=demo-$$

say "1. A daemon with nothing but defaults, in $place"
start
echo "  $line"

say "2. Real Iceberg metadata, written by PyIceberg: appends, a schema change, a rollback, a branch, a tag, gzip"
run import --base-uri s3://lake "$(realpath --relative-to=. "$here/../data/iceberg")"
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

say "4. One process at a time"
load read 1 "$tables" "$versions" >"$place/alone.read"
load socket 1 "$tables" "$versions" >"$place/alone.socket"
load write 1 "$tables" "$versions" >"$place/alone.write"
cat "$place"/alone.* | awk '
    { v[$1] = $2 }
    END {
        printf "  lookups mapped, one by one   %10.0f per second   %8.0f ns each, of the processor'"'"'s time\n", 1e9 / v["single_ns"], v["single_ns"]
        printf "  lookups mapped, in batches   %10.0f per second   %8.0f ns each\n", 1e9 / v["batch_ns"], v["batch_ns"]
        printf "  lookups over the socket      %10.0f per second   %8.0f ns each\n", 1e6 / v["socket_us"], v["socket_us"] * 1e3
        printf "  commits, each durable        %10.0f per second\n", v["commits"] / v["commit_seconds"]
    }'

say "   The same beside each other: what was committed a moment ago is read from shared memory, too"
status=0
load write 1 "$tables" "$versions" >"$place/beside.write" & loads=$!
load read 1 "$tables" "$versions" >"$place/beside.read" || status=1
wait "$loads" || status=1
loads=
cat "$place"/alone.read "$place"/alone.write "$place"/beside.* | awk '
    { v[$1] += $2 }
    END {
        printf "  answers judged               %12d   %d commits among them were read back at once\n", v["lookups"] + v["heads"] + v["misses"] + v["names"], v["commits"]
        printf "  over the socket              %12d   none may be\n", v["asked"]
        exit v["asked"] != 0
    }' || status=1

say "5. All at once for $seconds s: 4 readers, 1 reader without shared memory, 1 writer; kill -9 of the daemon in the middle"
for i in 1 2 3 4; do load read "$seconds" "$tables" "$versions" >"$place/all.$i" & loads="${loads:-} $!"; done
load socket "$seconds" "$tables" "$versions" >"$place/all.socket" & loads="$loads $!"
load write "$seconds" "$tables" "$versions" >"$place/all.write" & loads="$loads $!"
half=$(awk -v s="$seconds" 'BEGIN { print s / 2 }')
read -r -t "$half" _ < <(exec tail -f /dev/null) || true
generations=$(skadectl stats published | awk '$1 == "published" { print $2 }')
killed_at=$EPOCHREALTIME
kill -9 "$daemon"
wait "$daemon" 2>/dev/null || true
start
away=$(awk -v a="$killed_at" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
echo "  killed and started again: $line"
for pid in $loads; do wait "$pid" || status=1; done
generations=$((generations + $(skadectl stats published | awk '$1 == "published" { print $2 }')))
run verify

say "6. A table of rows: appended to by several processes while it is compacted, read and watched"
mkdir "$place/rows"
"$here/rows.sh" "$place/rows" || status=1

say "7. What came of the lookups, on $(nproc) processors for 6 processes and the daemon"
cat "$place"/all.* | awk -v generations="$generations" -v away="$away" '
    $1 ~ /^longest/ { if ($2 > v[$1]) v[$1] = $2; next }
    { v[$1] += $2 }
    END {
        printf "  lookups judged               %12d\n", v["lookups"]
        printf "  heads judged                 %12d   none may be older than one that was seen before\n", v["heads"]
        printf "  snapshots that nobody made   %12d   none may be found\n", v["misses"]
        printf "  names judged                 %12d   half of them nobody'"'"'s\n", v["names"]
        printf "  commits                      %12d   acknowledged, and read back at once\n", v["commits"]
        printf "  generations published        %12d\n", generations
        printf "  the daemon was away          %12.2f s   %d questions that needed it were refused and asked again\n", away, v["unreachable"]
        printf "  longest wait                 %12.2f s   of a question; %.2f s of a commit\n", v["longest_ms"] / 1e3, v["longest_commit_ms"] / 1e3
        printf "  errors that readers noticed  %12d\n", v["errors"]
        printf "  wrong answers: %d\n", v["wrong"]
        exit v["wrong"] + v["errors"] != 0
    }' || status=1
exit $status
