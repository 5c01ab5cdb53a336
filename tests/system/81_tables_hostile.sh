# Connections that do with stored tables what no handle does, and files and logs as accidents leave them: the daemon answers
# in order or refuses, lives on, and ends when it is told to.  What the peer can say: tests/stress/rows_peer.c.
. "$(dirname "$0")/lib.sh"

files() { find "$data/tables/$1" -type f; }
put() { ctl append "$1" --format tsv >/dev/null <<<"$2"$'\t'"$3"; }

# The peer lives as long as this script, over several daemons.
mkfifo "$place/peer.in" "$place/peer.out"
stress 300 rows_peer <"$place/peer.in" >"$place/peer.out" 7>&- 8>&- 9<&- &
exec 5>"$place/peer.in" 6<"$place/peer.out"

# say LINE...: to the peer.  hear LINE: sends what this connection said; what the peer prints.
say() { printf '%s\n' "$@" >&5; }
hear() {
    local line
    say "$1"
    read -r -t 60 -u 6 line || fail "the peer gave up: $line"
    echo "$line"
}

# hears WHAT WANT WHO: the next answer that WHO gets.
hears() { same "$1" "$2" "$(hear "$3 answer")"; }

# leased WHO TABLE: the number of a new lease.
leased() {
    local answer
    say "$1 open" "$1 lease $2"
    answer=$(hear "$1 answer")
    [[ $answer == "LEASED "* ]] || fail "no lease: $answer"
    echo "${answer#LEASED }"
}

# streams WHO TABLE UUID: a compaction by rows of WHO, and none of them comes.
streams() {
    say "$1 stream $3 $(leased "$1" "$2")" "$1 ping"
    [[ $(hear "$1 answer") == "PONG "* ]] || fail "the compaction did not begin"
}

# ends: the daemon does, told by SIGTERM; its output is closed then.
ends() {
    local status=0 line
    kill -TERM "$daemon"
    read -r -t 60 line <&9 || status=$?
    [ $status -le 128 ] || fail "$1"
    daemon=
    exec 9<&-
}

start --gc-grace 1h
for table in shop.one shop.two; do
    ctl create $table >/dev/null
    for i in 1 2 3; do put $table k$i v; done
    ctl compact $table >/dev/null
done

echo "- 256 questions about two collections, and then garbage: all of it ends with the connection"
# The collection of the first table stays held, that of the second ends while the connection's questions wait for both.
hold_at gc.remove
say "A open" "A gc 1 1"
same "it says" sent "$(hear "A send")"
keep_held gc.remove
hold_at gc.remove
say "B open" "B gc 2 128" "B gc 1 128" "B garbage"
same "it says" sent "$(hear "B send")"
is_held gc.remove
ctl ping >/dev/null # a turn of the loop
let_go gc.remove
for i in $(seq 300); do
    line=$(hear "B answer")
    [ "$line" != CLOSED ] || break
done
same "what comes behind the answers" CLOSED "$line"
ctl ping >/dev/null
let_kept_go
hears "the answer that another got" "GC_LIST" A
same "what waits" "" "$(ctl gc --now)"
ctl verify --full >/dev/null

echo "- an end that claims rows, and none came"
say "C open" "C begin 1 100" "C end 3"
hears "the answer" "ERROR EPROTOCOL" C

echo "- an abort after the end is too late, and the append is answered"
hold_at log.begin
say "C begin 1 101" "C row late 1" "C end 1"
same "it says" sent "$(hear "C send")"
is_held log.begin
say "C abort"
hears "the abort" "ERROR EBUSY" C

echo "- the same uuid while its first append is under way"
say "D open" "D begin 1 101" "D row late 1" "D end 1"
same "it says" sent "$(hear "D send")"
let_go log.begin
first=$(hear "C answer")
[[ $first == "APPENDED "* ]] || fail "the first append: $first"
hears "the second, which waited" "$first" D
say "D begin 1 101" "D row late 1" "D end 1"
hears "the second, sent again" "$first" D
same "the row" 1 "$(ctl get shop.one late)"

echo "- who sends rows of a compaction can't wait for what waits for such rows: its own, or another's that may wait for it"
put shop.one k4 v
put shop.two k4 v
streams E 1 200
streams F 2 201
say "E compact 1 202"
hears "one's own" "ERROR EBUSY" E
say "E compact 2 203"
hears "another's" "ERROR EBUSY" E
say "F close"

echo "- a compaction by rows that never come, which others joined, ends with the daemon"
say "F open" "F compact 1 204" "F ping"
[[ $(hear "F answer") == "PONG "* ]] || fail "it did not join"
ends "a silent compaction keeps the daemon from its end"

echo "- a silent compaction is closed after a while; one who only holds a lease is not"
start --gc-grace 1h --idle-timeout 1s
leased G 1 >/dev/null
streams H 1 205
hears "the silent compaction" CLOSED H
say "G ping"
[[ $(hear "G answer") == "PONG "* ]] || fail "a lease was closed for its silence"
compacts_nothing() { [ "$(counter compacting)" = 0 ]; }
until_true compacts_nothing
say "G close"

echo "- a table that is dropped while it is compacted"
# Past the scan it must not even begin to make files: that would fail in another way here.
hold_at compact.scanned
say "I open" "I compact 1 206"
same "it says" sent "$(hear "I send")"
is_held compact.scanned
ctl drop shop.one >/dev/null
fail_at compact.link "fail 5"
let_go compact.scanned
hears "the compaction" "ERROR ECONFLICT" I
fail_no_more compact.link

echo "- a moment whose files were collected stays expired over a restart"
ctl create shop.three >/dev/null
for i in 1 2 3; do put shop.three k$i v; done
moment=$(ctl history shop.three --limit 1 | cut -f1)
ctl compact shop.three >/dev/null
ctl gc --now >/dev/null
for when in before after; do
    say "J open" "J lease 3 $moment"
    hears "the lease $when the restart" "ERROR EEXPIRED" J
    [ $when = after ] || { stop; start --gc-grace 1h; }
done

echo "- a file that was replaced by another of its table is damage, without --full too"
ctl create shop.four >/dev/null
put shop.four k1 "$(printf '%0500d' 1)"
put shop.four k2 "$(printf '%0500d' 2)"
ctl verify >/dev/null
mapfile -t pair < <(files 4 | grep 'entries$')
mv "${pair[0]}" "$place/kept"
cp "${pair[1]}" "${pair[0]}"
status=0
ctl verify >/dev/null 2>&1 || status=$?
same "what verify ends with" 1 $status
mv "$place/kept" "${pair[0]}"
ctl verify >/dev/null

echo "- an append whose outcome is unknown says how to learn it"
fail_at log.committed kill
expect 5 ctl --timeout 0.3 append shop.four <<<unknown >"$place/out" 2>"$place/err"
wait_gone "$daemon"
daemon=
fail_no_more log.committed
uuid=$(sed -n 's/.*--uuid \([0-9a-f-]*\).*/\1/p' "$place/err")
[ -n "$uuid" ] || fail "the uuid isn't told: $(cat "$place/err")"
start --gc-grace 1h
head=$(ctl head shop.four | cut -f2)
ctl append shop.four --uuid "$uuid" <<<unknown >/dev/null
same "the head" "$head" "$(ctl head shop.four | cut -f2)"
same "rows" 3 "$(ctl scan shop.four --format jsonl | wc -l)"
stop

echo "- mode normal: what is collected leaves no marks"
start --sync normal --gc-grace 1h
ctl create shop.five >/dev/null
for i in 1 2 3; do put shop.five k$i v; done
files 5 | grep -q pending || fail "this mode leaves marks"
ctl compact shop.five >/dev/null
ctl gc --now >/dev/null
same "files that are left of what was compacted" "" "$(find "$data/tables/5/0" -type f 2>/dev/null || true)"

echo "- mode normal: a power loss takes the newest appends, and the daemon goes on to write"
put shop.five k4 v
crash
cp -a "$data/log" "$place/older"
start --sync normal
put shop.five k5 v
put shop.five k6 v # has seen an event that the log will not have
crash
rm -rf "$data/log" "$shm"/* "$run"
mv "$place/older" "$data/log"
start --sync normal
same "rows" 4 "$(ctl scan shop.five --format jsonl | wc -l)"
put shop.five k7 v
same "files in lost/" 2 "$(ls "$data/lost" | grep -c 'entries$')"

echo "- the loop makes no directory and waits for no disk when a compaction starts"
command -v strace >/dev/null || skip "all is well but for the loop's calls: there is no strace"
ctl create shop.six >/dev/null
put shop.six k1 v
strace -f -q -e trace=fsync,fdatasync,mkdir,mkdirat -o "$place/calls" -p "$daemon" 2>"$place/strace" &
tracer=$!
is_traced() { ! grep -q '^TracerPid:[[:space:]]*0$' /proc/"$daemon"/task/*/status; }
until is_traced; do
    kill -0 $tracer 2>/dev/null || skip "all is well but for the loop's calls: strace can't look at the daemon"
done
ctl compact shop.six >/dev/null
kill $tracer
wait $tracer || true
grep -q 'mkdir.*/1"\|mkdirat.*"1"' "$place/calls" || fail "the directory's making was not seen: $(cat "$place/calls")"
same "calls of the loop" "" "$(grep "^$daemon " "$place/calls" | grep -v '+++\|---' || true)"
stop
