# The way of an append to the disk: messages that come in one piece, workers that are as fast as anyone, and a write-ahead
# file that is written over and not made anew.
. "$(dirname "$0")/lib.sh"

mkfifo "$place/peer.in" "$place/peer.out"
stress 120 rows_peer <"$place/peer.in" >"$place/peer.out" 7>&- 8>&- 9<&- &
exec 5>"$place/peer.in" 6<"$place/peer.out"
say() { printf '%s\n' "$@" >&5; }
hear() {
    local line
    say "$1"
    read -r -t 60 -u 6 line || fail "the peer gave up: $line"
    echo "$line"
}
hears() { same "$1" "$2" "$(hear "A answer")"; }
files() { find "$data/tables" -name "*.entries" | wc -l; } # a mark goes after the answer

start
ctl create t.one >/dev/null
say "A open"

echo "- begin, rows and abort in one write, and the next append: the first one leaves nothing"
say "A begin 1 7" "A row k v" "A abort" "A begin 1 8" "A row k w" "A end 1"
hears "the abort" "DONE"
hears "the next append" "APPENDED 2"
same "files" 1 "$(files)"

echo "- an end, and garbage in the same write: the connection is closed, the append comes to nothing"
say "A begin 1 9" "A row k v" "A end 1" "A garbage"
hears "garbage" "ERROR EPROTOCOL"
hears "what follows" "CLOSED"
say "A close" "A open" "A begin 1 10" "A row k z" "A end 1"
hears "another connection" "APPENDED 3"
same "files" 2 "$(files)"

echo "- what comes in one piece with a row that fills the queue is taken, too, although nothing more comes"
appends=3
for size in 1048576 1048000 1040000 1000000; do
    say "A begin 1 $size" "A row k v $size" "A row l w" "A end 2"
    hears "a row of $size bytes and what follows" "APPENDED $((++appends))"
done

echo "- no rows, another number of rows, the same again, other rows under the same uuid"
say "A begin 1 20" "A end 0"
hears "no rows" "APPENDED 0"
say "A begin 1 21" "A row k v" "A end 2"
hears "rows that are missing" "ERROR EPROTOCOL"
say "A begin 1 8" "A row k w" "A end 1"
hears "the same again" "APPENDED 2"
say "A begin 1 8" "A row k x" "A end 1"
hears "other rows" "ERROR EINPUT"

echo "- who built the index is not slow for good: its thread is gone, the others have their priority"
for i in 1 2 3 4 5 6; do
    ctl append t.one --format tsv >/dev/null <<<"k$i"$'\t'v
    ctl reindex >/dev/null
done
for stat in /proc/"$daemon"/task/*/stat; do
    set -- $(sed 's/.*) //' "$stat")
    same "the nice value of thread $stat" 0 "${17}"
done

echo "- the write-ahead file keeps its size when it was folded into the database"
ctl create lake.t --location s3://b >/dev/null
wal=$data/log/skade.db-wal
commit() {
    awk -v from="$1" 'BEGIN { for (i = from; i < from + 4096; i++)
        printf "{\"table\":\"lake.t\",\"location\":\"s3://b/%01000d\"}\n", i }' | ctl release - >/dev/null
}
folded() { [ "$(counter checkpoints)" -gt "$before" ]; }
before=$(counter checkpoints)
commit 0
until_true folded
size=$(stat -c %s "$wal")
[ "$size" -gt $((4 << 20)) ] || fail "the write-ahead file has $size bytes after it was folded"
ctl commit lake.t s3://b/last --snapshot 5 >/dev/null
same "the size of the write-ahead file" "$size" "$(stat -c %s "$wal")"
crash
start
same "the head after a crash" s3://b/last "$(ctl head lake.t | awk '{ print $NF }')"
ctl verify --full >/dev/null
