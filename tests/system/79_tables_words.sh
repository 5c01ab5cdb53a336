# What skadectl says of stored tables: standard output has data or nothing, everything else goes to standard error, and the
# exit code says which kind of no it is.
. "$(dirname "$0")/lib.sh"

# says STATUS COMMAND...: ends so; what fails prints no data and says why, what succeeds says nothing but its data.
says() {
    expect "$@" >"$place/out" 2>"$place/err"
    if [ "$1" = 0 ]; then
        [ ! -s "$place/err" ] || fail "'$*' succeeded, and yet: $(cat "$place/err")"
    else
        [ ! -s "$place/out" ] || fail "'$*' failed, and printed: $(cat "$place/out")"
        [ -s "$place/err" ] || fail "'$*' failed without a word"
        grep -q "^skadectl: " "$place/err" || fail "'$*' doesn't say who speaks: $(cat "$place/err")"
    fi
}

start --gc-grace 1h
ctl create shop.events >/dev/null
ctl create lake.outside --location s3://bucket/x >/dev/null
printf 'k1\tone\nk2\ttwo\n' >"$place/rows"
says 0 ctl append shop.events "$place/rows" --format tsv
same "columns of an append" 5 "$(awk -F'\t' '{ print NF }' "$place/out")"
old=$(cut -f2 "$place/out")

echo "- a key"
says 0 ctl get shop.events k1
same "a value and nothing else" "one" "$(cat "$place/out"; echo -n)"
same "its bytes" 3 "$(wc -c <"$place/out")"
says 3 ctl get shop.events k3
printf '{"key":"k2","delete":true}\n' | ctl append shop.events --format jsonl >/dev/null
says 3 ctl get shop.events k2
says 0 ctl get shop.events k2 --snapshot "$old"
# A deletion of what isn't there is a row like any other: it is no error, and changes nothing.
says 0 ctl append shop.events --format jsonl <<<'{"key":"missing","delete":true}'
says 0 ctl scan shop.events --format tsv
same "rows" "k1	one" "$(cat "$place/out")"

echo "- no such table, no such snapshot, another kind, nonsense"
for command in "scan shop.none" "get shop.none k" "compact shop.none" "gc shop.none"; do says 3 ctl $command; done
says 3 ctl append shop.none <<<x
says 3 ctl scan shop.events --snapshot 12345
says 3 ctl get shop.events k1 --snapshot 12345
says 3 ctl scan shop.events --as-of 2001-01-01
for command in "scan lake.outside" "get lake.outside k" "compact lake.outside"; do says 2 ctl $command; done
says 2 ctl append lake.outside <<<x
says 2 ctl scan shop.events --format xml
says 2 ctl scan shop.events --threads 0
says 2 ctl compact shop.events --level 99
says 2 ctl get shop.events
says 1 ctl append shop.events "$place/no-such-file"
says 2 ctl append shop.events --format tsv <<<'no tab in it'

echo "- expired"
says 0 ctl compact shop.events
says 6 ctl scan shop.events --snapshot "$old"
says 6 ctl get shop.events k1 --snapshot "$old"
says 0 ctl compact shop.events
same "what a compaction of nothing prints" 1 "$(wc -l <"$place/out")"
says 0 ctl gc shop.events
says 0 ctl gc --now
[ ! -s "$place/out" ] || fail "after gc --now something waits: $(cat "$place/out")"

echo "- whoever reads no more"
seq 1 200000 | ctl append shop.events >/dev/null
ctl scan shop.events 2>"$place/err" | head -1 >"$place/out"
same "the first row of a scan that nobody reads on" 200000 "$(cat "$place/out")"

echo "- no daemon"
stop
for command in "scan shop.events" "get shop.events k1" "compact shop.events" "gc"; do says 5 ctl --timeout 0.2 $command; done
says 5 ctl --timeout 0.2 append shop.events <<<x
