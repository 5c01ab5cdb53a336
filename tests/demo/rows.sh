#!/bin/bash
# The demo's part about rows: a table that is appended to by several processes while it is compacted and read, and
# which must have every row in the end.
#
# usage: rows.sh FOLDER     a daemon answers at SKADE_RUN_DIR; FOLDER is for temporary files
# Prints what happened; fails when a row is missing or came twice.
set -eu
place=$1
writers=${DEMO_WRITERS:-4} appends=${DEMO_APPENDS:-50} rows=${DEMO_ROWS:-400}
table=shop.clicks

rows_of() { # WRITER APPEND: keyed rows that tell who wrote them
    awk -v w="$1" -v a="$2" -v n="$rows" 'BEGIN {
        for (i = 0; i < n; i++) printf "w%d-a%03d-r%04d\t{\"page\":\"/item/%d\",\"session\":\"%08x\"}\n", w, a, i, i * 7 % 300, w * 65536 + a * 256 + i }'
}

write() {
    local a
    for a in $(seq "$appends"); do rows_of "$1" "$a" | skadectl append "$table" --format tsv >/dev/null; done
}

# Reads until nobody writes any more; what is there may only grow.
watch_it() {
    local had=0 now scans=0
    until [ -e "$place/written" ]; do
        now=$(skadectl scan "$table" --format tsv --threads 2 | wc -l)
        [ "$now" -ge "$had" ] || { echo "  a scan found $now rows after one that found $had"; exit 1; }
        had=$now scans=$((scans + 1))
    done
    echo "$scans" >"$place/scans"
}

skadectl create "$table" >/dev/null
pids=
for w in $(seq "$writers"); do write "$w" & pids="$pids $!"; done
watch_it & reader=$!
compactions=0
while kill -0 $pids 2>/dev/null; do # as long as all of them write
    skadectl compact "$table" >"$place/compacted"
    compactions=$((compactions + 1))
done
for pid in $pids; do wait "$pid"; done
touch "$place/written"
wait "$reader"

show() { # WHAT
    skadectl scan "$table" --format tsv | cut -f1 | sort >"$place/keys"
    awk -v what="$1" -v snapshots="$(skadectl tables "$table" | cut -f3)" -v rows="$(wc -l <"$place/keys")" \
        'BEGIN { printf "  %-28s %8d rows %6d snapshots\n", what, rows, snapshots }'
}

echo "  $writers writers made $((writers * appends)) appends of $rows rows, beside $compactions compactions and $(cat "$place/scans") scans"
show "before the last compaction"
skadectl compact "$table" >"$place/compacted"
show "after it"
awk -F'\t' '{ printf "  files %d -> %d, bytes %d -> %d, in %.2f s\n", $6, $7, $8, $9, $11 }' "$place/compacted"
skadectl gc "$table" --now >/dev/null

for w in $(seq "$writers"); do for a in $(seq "$appends"); do rows_of "$w" "$a"; done; done | cut -f1 | sort >"$place/wanted"
if cmp -s "$place/keys" "$place/wanted"; then
    echo "  rows missing: 0"
else
    echo "  rows missing: $(comm -13 "$place/keys" "$place/wanted" | wc -l), unexpected: $(comm -23 "$place/keys" "$place/wanted" | wc -l)"
    exit 1
fi
