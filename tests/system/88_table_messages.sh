# What goes wrong with stored tables is told by name and with the cure: which file, which table, which moment, which role.
. "$(dirname "$0")/lib.sh"

# says STATUS WORDS COMMAND...: ends so, with these words on standard error.
says() {
    local want=$1 words=$2
    shift 2
    expect "$want" "$@" >"$place/out" 2>"$place/err" </dev/null
    grep -qF -- "$words" "$place/err" || fail "'$*' doesn't say '$words': $(cat "$place/err")"
}

start --gc-grace 1h
ctl create shop.events >/dev/null
ctl create shop.empty >/dev/null
seq 1 5 | ctl append shop.events >/dev/null

echo "- what is read from"
mkdir "$place/dir"
says 2 "$place/dir is a directory: give a file with rows" ctl append shop.events "$place/dir"
says 1 "$place/none: No such file" ctl append shop.events "$place/none"
printf 'a\tb\nno tab\n' >"$place/rows"
says 2 "$place/rows, line 2: there is no TAB" ctl append shop.events "$place/rows" --format tsv
expect 2 ctl append shop.events --format jsonl 2>"$place/err" <<<'{'
grep -q "standard input, line 1: " "$place/err" || fail "$(cat "$place/err")"
says 2 "it looks like 123e4567" ctl append shop.events "$place/rows" --uuid 12

echo "- moments"
says 3 "as of 1970-01-01T00:00:00.012345Z: the table had no commit then; its earliest is of 2" ctl scan shop.events --as-of 12345
says 3 "shop.empty: as of 1970-01-01T00:00:00.012345Z: the table has no commit yet" ctl scan shop.empty --as-of 12345
says 3 "snapshot 12345: the table has no such snapshot: its history lists" ctl scan shop.events --snapshot 12345
snapshot=$(ctl head shop.events --json | python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["snapshot"])')
ctl compact shop.events >/dev/null
says 6 "was retired by a compaction or expire: take a newer one" ctl scan shop.events --snapshot "$snapshot"

echo "- numbers"
says 2 "--threads 0: 1 to" ctl scan shop.events --threads 0
says 2 "--level 99: zstd has levels" ctl compact shop.events --level 99

echo "- roles"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { stop; exit 0; }
chmod 755 "$place" "$shm"
mkdir -p "$place/bin"
cp -L "$B/skadectl" "$B/libskadeclient.so.0" "$place/bin/"
chmod -R a+rX "$place/bin"
other() { setpriv --reuid 65534 --regid 65534 --clear-groups env LD_LIBRARY_PATH="$place/bin" "$place/bin/skadectl" "$@"; }
stop
start --read '*'
may_not() { says 8 "uid 65534 may not $1: that takes the role write, which skaded's option write gives" other "${@:2}"; }
may_not "append rows" append shop.events
grep -q "shop.events: " "$place/err" || fail "the table isn't named: $(cat "$place/err")"
may_not "compact tables" compact shop.events
may_not "remove files" gc --now
may_not "drop tables" drop shop.events
stop
