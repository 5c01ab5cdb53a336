# What a compaction costs and says beforehand: the daemon's memory stays within what it was told however many keys and
# deletions there are; a dry run says the rows and raw bytes exactly and the size closely; afterwards nothing is to do.
. "$(dirname "$0")/lib.sh"

field() { python3 -c 'import json,sys; r = json.loads(sys.stdin.readline()); print(*(r[k] for k in sys.argv[1:]))' "$@"; }
peak() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$daemon/status"; }
forget_peak() { echo 5 >"/proc/$daemon/clear_refs"; }

# Values as of events: numbers that repeat a little, so that they can be compressed a little.
events() { # FROM TO WHICH
    awk -v from="$1" -v to="$2" -v which="$3" 'BEGIN {
        srand(which)
        for (i = from; i < to; i++)
            printf "user-%d\t{\"user\":%d,\"event\":\"%s\",\"at\":%d,\"amount\":%.4f,\"which\":%d}\n", \
                i * 7919 % 1000003, i, (i % 3 ? "click" : "purchase"), 1700000000 + int(rand() * 1e7), rand() * 1e4, which
    }'
}

echo "- how much memory"
start --gc-grace 1h --compact-memory 1048576
ctl create shop.many >/dev/null
for which in 1 2 3; do events 0 120000 $which | ctl append shop.many --format tsv >/dev/null; done
events 0 60000 4 | awk -F'\t' '{ printf "{\"key\":\"%s\",\"delete\":true}\n", $1 }' | ctl append shop.many --format jsonl >/dev/null
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "one\t%d\n", i }' | ctl append shop.many --format tsv >/dev/null
raw=$(du -sb "$data/tables" | cut -f1)
[ "$raw" -gt 50000000 ] || fail "only $raw bytes to compact"
forget_peak 2>/dev/null || skip "the peak of memory can't be reset here"
before=$(peak)
ctl compact shop.many --json >"$place/report"
took=$(($(peak) - before))
same "rows" 60001 "$(field rows <"$place/report")"
same "one key of many versions" 99999 "$(ctl get shop.many one)"
expect 3 ctl get shop.many user-7919 2>/dev/null
echo "  $took KiB more at the peak, of $((raw / 1024)) KiB of files"
# Buffers, windows, zstd and the index of a file are no part of compact_memory; without a bound it would be 24 bytes a row
# and what the files have.  A sanitizer has shadows of all this.
limit=16384
grep -q __asan_init "$B/skaded" 2>/dev/null && limit=$((limit * 6))
[ "$took" -lt "$limit" ] || fail "a compaction with compact_memory 1 MiB took $took KiB more"
ctl verify --full >/dev/null

if [ -n "${SKADE_STRESS:-}" ]; then
    echo "- 10 million rows of a million keys, within the same bounds"
    ctl create shop.huge >/dev/null
    for which in 0 1 2 3 4 5 6 7 8 9; do
        awk -v w=$which 'BEGIN { for (i = 0; i < 1000000; i++) printf "key-%06d\t%d of %d\n", i * 7919 % 1000000, w, i }' |
            ctl append shop.huge --format tsv >/dev/null
    done
    forget_peak
    before=$(peak)
    ctl compact shop.huge --json >"$place/report"
    took=$(($(peak) - before))
    same "rows" 1000000 "$(field rows <"$place/report")"
    echo "  $took KiB more at the peak, of $(($(field bytes_before <"$place/report") / 1024)) KiB of files"
    # Without a bound it would be 240 MB; twice as many files are open as above, each with a window.
    [ "$took" -lt $((limit * 3 / 2)) ] || fail "a compaction of 10 million rows with compact_memory 1 MiB took $took KiB more"
    ctl scan shop.huge --format tsv --oldest-first |
        awk -F'\t' '$1 != sprintf("key-%06d", (NR - 1) * 7919 % 1000000) ||
            $2 != "9 of " NR - 1 { print "row " NR " is " $0; exit 1 }' || fail "other rows than the newest of each key"
    same "a key" "9 of 1" "$(ctl get shop.huge key-007919)"
    ctl verify --full >/dev/null
fi

echo "- what it says beforehand"
ctl create shop.sampled >/dev/null
for which in 5 6; do events 0 150000 $which | ctl append shop.sampled --format tsv >/dev/null; done
events 150000 250000 7 | ctl append shop.sampled --format tsv >/dev/null
settled() { ! find "$data/tables" -name '*.pending' | grep -q .; }
until_true settled
had=$(find "$data/tables" -type f | sort | cksum)
for target in 134217728 1048576; do
    ctl compact shop.sampled --dry-run --json --target-size $target >"$place/dry.$target" 2>/dev/null
done
same "files after dry runs" "$had" "$(find "$data/tables" -type f | sort | cksum)"
same "it is marked as an estimate" True "$(field sampled <"$place/dry.1048576")"
ctl compact shop.sampled --json --target-size 1048576 >"$place/real"
for what in rows rows_pruned raw_bytes files_before bytes_before; do
    same "$what beforehand" "$(field $what <"$place/real")" "$(field $what <"$place/dry.1048576")"
    same "$what beforehand, for another size" "$(field $what <"$place/real")" "$(field $what <"$place/dry.134217728")"
done
said=$(field bytes_after <"$place/dry.1048576") is=$(field bytes_after <"$place/real")
echo "  $said bytes were estimated, $is came"
[ $((said * 100)) -ge $((is * 85)) ] && [ $((said * 100)) -le $((is * 115)) ] || fail "an estimate of $said bytes, and $is came"
same "one file of a large size" 1 "$(field files_after <"$place/dry.134217728")"
files=$(field files_after <"$place/real")
wanted=$(((is + 1048575) / 1048576))
echo "  in $files files"
[ "$files" -ge "$wanted" ] && [ "$files" -le $((wanted + 1)) ] || fail "$files files of 1 MiB for $is bytes"
of_table=$(dirname "$(field old_data_dir <"$place/real")")
same "files that are there" "$files" "$(find "$of_table/1" -name '*.rows' | wc -l)"

echo "- afterwards nothing is to do"
ctl compact shop.sampled --dry-run --json >"$place/dry"
same "rows" "$(field rows <"$place/real")" "$(field rows <"$place/dry")"
was=$(ctl head shop.sampled)
same "a second compaction" 0 "$(ctl compact shop.sampled --json | grep -c '"seq":"')"
same "the head" "$was" "$(ctl head shop.sampled)"
stop
