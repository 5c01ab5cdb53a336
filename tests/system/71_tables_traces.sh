# What the kernel sees of stored tables: who reads opens nothing for writing and changes nothing; who writes has every byte
# on the disk before it has a name, every name before the commit, and removes nothing before that.
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || skip "needs strace"
strace -qq -o "$place/out" true 2>/dev/null || skip "strace may not trace here"
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # it can't look while it is traced

start --gc-grace 1h
ctl create shop.events >/dev/null
for i in 1 2 3 4 5; do seq 1 300 | awk -v i=$i '{ printf "k%d\t%d.%d\n", $1, $1, i }' | ctl append shop.events --format tsv >/dev/null; done
ctl compact shop.events >/dev/null
for i in 6 7; do seq 1 30 | awk -v i=$i '{ printf "k%d\t%d.%d\n", $1, $1, i }' | ctl append shop.events --format tsv >/dev/null; done
settled() { ! find "$data/tables" -name '*.pending' | grep -q .; }
until_true settled

# ---- reading ----

looks() { find "$data/tables" -type f -printf '%p %s %m %T@ %C@\n' | sort; }
looks >"$place/before"
same "files that anyone may write" "" "$(find "$data/tables" -type f ! -perm 444)"

# read_only COMMAND...: under strace it opens nothing below the data directory for writing, and none of its files is changed.
read_only() {
    strace -f -qq -y -e signal=none -o "$place/trace" -e trace=%file,ftruncate,fallocate,pwrite64,write,mmap "$@" >/dev/null
    grep -q "$data/tables" "$place/trace" || fail "'$*' read no file of the table"
    ! grep -F "$data" "$place/trace" | grep -E 'O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|PROT_WRITE.*MAP_SHARED|^[0-9]+ +(unlink|rename|link|mkdir|chmod|truncate|ftruncate|fallocate|pwrite|write)' ||
        fail "'$*' changed something"
    looks | diff "$place/before" - || fail "'$*' changed a file"
}
read_only skadectl scan shop.events --format jsonl
read_only skadectl scan shop.events --format jsonl --oldest-first --threads 4
read_only skadectl get shop.events k7
read_only skadectl get shop.events nothing-of-this-name || true

# ---- writing ----

# traced COMMAND...: what the daemon does meanwhile, in $place/trace: one line a call, in the order of their ends.
traced() {
    mkfifo "$place/attached"
    strace -f -y -s 200 -e signal=none -o "$place/trace" \
        -e trace=fsync,fdatasync,linkat,link,rename,unlink,unlinkat -p "$daemon" 2>"$place/attached" &
    local tracer=$! line
    exec 6<"$place/attached"
    rm "$place/attached"
    read -r -t 60 line <&6 || fail "strace said nothing"
    [[ $line == *attached* ]] || skip "strace may not attach here: $line"
    "$@" >/dev/null
    until_true settled
    kill -INT "$tracer"
    wait "$tracer" || true
    exec 6<&-
}

cat >"$place/judge.py" <<'PYTHON'
# Reads a trace and a kind of change: the order of its steps is asserted, and how often each comes.
import re, sys

trace, kind, tables, log = sys.argv[1:]
events = []
for line in open(trace):
    if " +++ exited" in line:
        continue
    call = re.match(r"\d+ +(?:<\.\.\. )?(\w+)", line).group(1)
    if line.rstrip().endswith("<unfinished ...>"):
        # What is unfinished counts from its end on; names are told at the beginning.
        events.append([call, line, line.split()[0]])
        continue
    if " resumed>" in line:
        pid, name = line.split()[0], re.search(r"<\.\.\. (\w+) resumed>", line).group(1)
        begun = next(e for e in reversed(events) if e[2] == pid and e[0] == name and "unfinished" in e[1])
        events.remove(begun)
        events.append([name, begun[1].replace("<unfinished ...>", "") + line, ""])
        continue
    events.append([call, line, ""])

def where(what):
    return [i for i, (call, line, _) in enumerate(events) if what(call, line)]

def path_ends(line, suffix):
    return re.search(re.escape(suffix) + r'"', line) is not None

data = where(lambda c, l: c in ("fsync", "fdatasync") and "(deleted)" in l and tables in l)
mark = where(lambda c, l: c == "linkat" and path_ends(l, ".pending"))
rows = where(lambda c, l: c == "linkat" and path_ends(l, ".rows"))
last = where(lambda c, l: c == "linkat" and (path_ends(l, ".entries") or path_ends(l, ".manifest")))
directory = where(lambda c, l: c == "fsync" and re.search(r"<" + re.escape(tables) + r"/\d+/\d+>", l))
commit = where(lambda c, l: c in ("fsync", "fdatasync") and log in l)
unmark = where(lambda c, l: c in ("unlink", "unlinkat") and path_ends(l, ".pending"))
removed = where(lambda c, l: c in ("unlink", "unlinkat") and "." in l and not path_ends(l, ".pending") and tables in l)

say = dict(data=data, mark=mark, rows=rows, last=last, directory=directory, commit=commit, unmark=unmark, removed=removed)
def must(what, why):
    assert what, "%s\n%s\n%s" % (why, say, "".join("%3d %s" % (i, e[1]) for i, e in enumerate(events)))

must(len(mark) == 1 and len(last) == 1 and len(unmark) == 1 and commit, "each step is there")
must(not removed, "nothing else is removed")
if kind == "append":
    must(len(data) == 1 and not rows, "one file is synced")
else:
    must(len(rows) >= 2, "several files of rows")
    must(len(data) == len(rows) + 1, "the files of rows and the manifest are synced")
must(max(data) < mark[0], "all data is on the disk before the first name")
must(not rows or mark[0] < min(rows) and max(rows) < last[0], "the mark, then the rows, then what names them")
must(mark[0] < last[0], "the mark comes before the name")
must(any(last[0] < d < min(i for i in commit if i > last[0]) for d in directory), "the directory before the commit")
must(not [i for i in commit if mark[0] < i < last[0]], "no commit between the names")
must(max(i for i in commit if i < unmark[0]) > last[0], "the mark goes after the commit")
PYTHON
judged() { python3 "$place/judge.py" "$place/trace" "$1" "$data/tables" "$data/log/" || fail "the order of a change ($1)"; }

traced ctl append shop.events <<<one
judged append
seq 1 60000 | awk '{ printf "q%d\t%d.%d.%d\n", $1, $1 * 7919, $1 * 104729, $1 * 1299709 }' | ctl append shop.events --format tsv >/dev/null
until_true settled
traced ctl compact shop.events --target-size 65536
judged compact
stop
