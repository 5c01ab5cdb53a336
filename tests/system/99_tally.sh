# Lookups that memory answered, as their clients tell them: all of them in the end, each once, and how far behind each client
# is.  Nobody tells while it only looks up.
. "$(dirname "$0")/lib.sh"

commit() { SKADE_SHM=no ctl commit shop.orders s3://lake/orders/$1 --snapshot $1 >/dev/null; } # without lookups in memory
reindex() { newest=$(ctl reindex | cut -f2); }

start --rebuild-threshold 1000000 --rebuild-idle 1h
ctl create shop.orders --location s3://lake/orders >/dev/null
for n in {1..10}; do commit $n; done
reindex

# look WHO COUNT: so many lookups.
look() { for ((i = 0; i < $2; i++)); do answers "$1" "1 s3://lake/orders/$((i % 10 + 1))" resolve 1 $((i % 10 + 1)); done; }
# leave WHO: it closes its handle and ends.
leave() {
    answers "$1" 1 close
    wait "${ask_pid[$1]}" || fail "$1 failed"
}
told() { echo "$(counter lookups_map) $(counter lookups_tail)"; }
is_told() { [ "$(told)" = "$1" ]; }
of_client() { ctl clients | awk -F'\t' -v pid="$1" '$3 == pid { print $4, $5 }'; }

same "nobody looked up" "0 0" "$(told)"

echo "- lookups are told when a handle ends"
asker one
look one 25
asker two
look two 17
same "answers from memory" 25 "$(ask one counter hits_map | cut -d' ' -f2)"
same "before anybody tells" "0 0" "$(told)"
leave one
until_true is_told "25 0"
leave two
until_true is_told "42 0"

echo "- and with the next generation, which the client is behind until it looks"
asker one
look one 5
first=$newest
until_true eval '[ "$(of_client ${ask_pid[one]})" = "$first 0" ]'
commit 11
reindex
[ "$newest" -gt "$first" ] || fail "generation $newest follows $first"
same "with newer ones" "$first $((newest - first))" "$(of_client "${ask_pid[one]}")"
look one 1
same "when it looked" "$newest 0" "$(of_client "${ask_pid[one]}")"
same "before it" "47 0" "$(told)"

echo "- lookups in the tail"
commit 12
for i in 1 2 3; do answers one "1 s3://lake/orders/12" resolve 1 12; done
leave one
until_true is_told "48 3"

echo "- of many processes"
asker one
asker two
asker three
look one 30
look two 30
look three 30
reindex
for who in one two three; do look $who 1; done
for who in one two three; do leave $who; done
until_true is_told "141 3"

echo "- a client that is killed has told what it told"
asker one
look one 10
reindex
look one 4
ask one ping >/dev/null
kill -9 "${ask_pid[one]}"
wait "${ask_pid[one]}" 2>/dev/null || true
same "without its last" "151 3" "$(told)"

echo "- another daemon counts from 0, and is told no lookup that the last one was told of"
asker one
look one 10
reindex
look one 1
until_true is_told "161 3"
crash
start --rebuild-threshold 1000000 --rebuild-idle 1h
look one 6
leave one
until_true eval '[ "$(counter lookups_map)" -ge 7 ]'
same "since then" "7 0" "$(told)"
stop
