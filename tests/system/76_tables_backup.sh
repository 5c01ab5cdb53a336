# A backup of the log and the files of its list are the stored tables as of the copy, however the original went on; copied
# elsewhere they read the same.  Without the list a note says that they belong to it.
. "$(dirname "$0")/lib.sh"

rows() { ctl scan "$1" --oldest-first --format jsonl; }
values() { printf '%s\n' "$@" | awk '{ printf "k%d\t%s\n", NR % 3, $0 }'; }

start --gc-grace 1h
ctl create lake.outside --location s3://bucket/outside >/dev/null
ctl backup "$place/log.0" >/dev/null 2>"$place/err"
[ ! -s "$place/err" ] || fail "a log without stored tables needs no note: $(cat "$place/err")"
ctl backup "$place/log.00" --entry-files "$place/files.00" >/dev/null
same "files of no stored table" 0 "$(wc -c <"$place/files.00")"

# One table with a base of several files and commits after it, one of commits alone, one without a commit, one that's gone.
for name in based plain empty gone; do ctl create shop.$name >/dev/null; done
seq 1 30000 | awk '{ printf "key%d\t%d.%d.%d\n", $1 % 20000, $1 * 7919, $1 * 104729, $1 * 1299709 }' | ctl append shop.based --format tsv >/dev/null
ctl compact shop.based --target-size 65536 >/dev/null
ctl gc --now >/dev/null
values one two three | ctl append shop.based --format tsv >/dev/null
for i in 1 2 3; do values $i $i$i | ctl append shop.plain --format tsv >/dev/null; done
values x | ctl append shop.gone --format tsv >/dev/null
ctl drop shop.gone >/dev/null

ctl backup "$place/log.1" >/dev/null 2>"$place/err"
grep -q -- '3 stored tables .*--entry-files' "$place/err" || fail "no note of the stored tables: $(cat "$place/err")"
expect 4 ctl backup "$place/log.2" --entry-files "$place/files.00" >/dev/null 2>"$place/err"
grep -q 'nothing is overwritten' "$place/err"
[ ! -e "$place/log.2" ] || fail "the log was copied though its list could not be written"

ctl backup "$place/log.3" --entry-files "$place/files.3" >"$place/said" 2>"$place/err"
[ ! -s "$place/err" ] || fail "there was something to say: $(cat "$place/err")"
for name in based plain empty; do rows shop.$name >"$place/rows.$name"; done
ctl history shop.plain >"$place/history.plain"
grep -c '\.rows$' "$place/files.3" | { read -r n; [ "$n" -gt 1 ] || fail "the base has $n files"; }
same "one manifest" 1 "$(grep -c '\.manifest$' "$place/files.3")"
same "files of commits" 4 "$(grep -c '\.entries$' "$place/files.3")"
same "no file twice" "" "$(sort "$place/files.3" | uniq -d)"
find "$data/tables" -type f | grep -v "/$(ls "$data/tables" | sort -n | tail -1)/" | sort >"$place/there"
sort "$place/files.3" | diff "$place/there" - || fail "not exactly the files of the living tables"

# copied LIST WHERE: exactly the files of LIST, at the same places below the data directory WHERE.
copied() {
    mkdir -p "$2"
    (cd "$data" && sed "s|^$data/||" "$1" | xargs -r cp --parents -a -t "$2")
}

# The original goes on: what it had then is compacted and removed.
copied "$place/files.3" "$place/copied.3"
values later | ctl append shop.empty --format tsv >/dev/null
for name in based plain; do
    values after | ctl append shop.$name --format tsv >/dev/null
    ctl compact shop.$name >/dev/null
done
ctl gc --now >/dev/null
stop

# ---- elsewhere ----

# elsewhere LOG COPIED: a daemon on the restored log, with the copied files.
elsewhere() {
    data=$place/other
    rm -rf "$data"
    skadectl restore "$1" --data-dir "$data" >/dev/null
    mv "$2/tables" "$data/tables"
    start --gc-grace 1h
}

original=$data
elsewhere "$place/log.3" "$place/copied.3"
for name in based plain empty; do rows shop.$name | cmp - "$place/rows.$name" || fail "shop.$name has other rows elsewhere"; done
ctl history shop.plain | cut -f1-4 | diff - <(cut -f1-4 "$place/history.plain")
same "a value" two "$(ctl get shop.based k2)"
ctl verify --full >/dev/null
values more | ctl append shop.plain --format tsv >/dev/null
ctl compact shop.plain >/dev/null
ctl verify --full >/dev/null
stop

# ---- while tables are made, appended to and compacted ----

data=$original
start --gc-grace 1h
ctl create busy.rows >/dev/null
busy() {
    for n in $(seq 1 400); do
        echo "$n" | skadectl append busy.rows
        [ $((n % 10)) != 0 ] || { skadectl compact busy.rows; skadectl create "busy.made$n"; echo 1 | skadectl append "busy.made$n"; }
        [ $((n % 20)) != 0 ] || skadectl drop "busy.made$((n - 10))"
    done >/dev/null
}
busy & load=$!
appended() { [ "$(ctl history busy.rows | grep -c '	commit	')" -ge "$1" ]; }
for i in 4 5 6; do
    until_true appended $(((i - 3) * 15))
    ctl backup "$place/log.$i" --entry-files "$place/files.$i" >/dev/null
    copied "$place/files.$i" "$place/copied.$i"
done
kill $load
wait $load 2>/dev/null || true
stop
for i in 4 5 6; do
    elsewhere "$place/log.$i" "$place/copied.$i"
    n=$(ctl history busy.rows | grep -c '	commit	')
    [ "$n" -ge $(((i - 3) * 15)) ] || fail "$n commits are in backup $i"
    ctl scan busy.rows --oldest-first | diff - <(seq 1 "$n") >&2 || fail "backup $i: other rows than of $n commits"
    for name in $(ctl tables busy.made | cut -f1); do ctl scan "$name" >/dev/null || fail "backup $i: $name can't be read"; done
    ctl verify --full >/dev/null
    stop
done
