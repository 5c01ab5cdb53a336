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
    for a in $(seq "$appends"); do rows_of "$1" "$a" | skadectl append "$table" --format tsv; done >"$place/appended.$1"
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
while kill -0 $pids 2>/dev/null; do # as long as all of them write
    skadectl compact "$table" >>"$place/compacted"
done
for pid in $pids; do wait "$pid"; done
touch "$place/written"
wait "$reader"

# The rest, too, so that what is left is one snapshot.
skadectl compact "$table" >>"$place/compacted"
skadectl scan "$table" --format tsv | cut -f1 | sort >"$place/keys"

# Columns of append: table snapshot seq rows bytes; of compact: table rows rows_pruned snapshots_before carried files_before
# files_after bytes_before bytes_after ... seq at the 13th.
awk -F'\t' -v left="$(skadectl tables "$table" | cut -f3)" '
    function line(what, snapshots, files, bytes) { printf "  %-34s %10s %8d %12d\n", what, snapshots, files, bytes }
    FILENAME ~ /appended/ { appends++; appended += $5; next }
    { files = $7; bytes = $9 }
    $13 != "-" { compactions++; read_files += $6; read_bytes += $8; written_files += $7; written_bytes += $9 }
    END {
        printf "  %-34s %10s %8s %12s\n", "", "snapshots", "files", "bytes"
        line("appended", appends, appends, appended)
        line("read by " compactions " compactions", "", read_files, read_bytes)
        line("written by them", compactions, written_files, written_bytes)
        line("left", left, files, bytes)
    }' "$place"/appended.* "$place/compacted"
echo "  $writers writers made $((writers * appends)) appends of $rows rows, beside compactions and $(cat "$place/scans") scans"
skadectl gc "$table" --now >/dev/null

for w in $(seq "$writers"); do for a in $(seq "$appends"); do rows_of "$w" "$a"; done; done | cut -f1 | sort >"$place/wanted"
if cmp -s "$place/keys" "$place/wanted"; then
    echo "  rows missing: 0"
else
    echo "  rows missing: $(comm -13 "$place/keys" "$place/wanted" | wc -l), unexpected: $(comm -23 "$place/keys" "$place/wanted" | wc -l)"
    exit 1
fi
