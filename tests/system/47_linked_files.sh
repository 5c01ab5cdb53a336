# A shared-memory file that has a name is never written to, made shorter or longer, or made writable by anybody: who maps
# it would read garbage or be killed by SIGBUS.  Every system call of the daemon is looked at, through rebuilds, failures,
# lack of room, kills, takeovers and lost names; and those of clients, who write nothing at all.
#
# The control page is the exception by design: the daemon has it mapped, and the next one retires it.
. "$(dirname "$0")/lib.sh"
command -v strace >/dev/null || skip "needs strace"
strace -qq -o "$place/out" true 2>/dev/null || skip "strace may not trace here"

# ---- what is forbidden ----

# judge [client] TRACE: each line that breaks the rule, and why; then what was seen.  strace -y shows a file made without a
# name as DIRECTORY/#INODE for ever, so that is what files are known by.
cat >"$place/judge.awk" <<'END'
function first_argument(line) { sub(/^[^(]*\(/, "", line); sub(/[,)].*/, "", line); return line }
function result(line) { sub(/.*\) += /, "", line); sub(/[ <].*/, "", line); return line }
function address(line) { line = first_argument(line); sub(/<.*/, "", line); return line }
function is_in_shm(text) { return index(text, shm "/") > 0 }
function inode(text) { return match(text, /#[0-9]+/) ? substr(text, RSTART, RLENGTH) : "" }
function bad(why) { print why ": " line; wrong++ }

# The last quoted text, a name, and its ending: part, root, ctl, tmp, lock.
function last_name(text,    parts, n) { n = split(text, parts, "\""); return parts[n - 1] }
function ending(name) { sub(/.*\./, "", name); return name }
function may_open_for_writing(name) { return !client && name ~ /\.(ctl|lock)$/ }

# What changes bytes or size.
function changes(    file) {
    file = first_argument(line)
    if (call == "truncate") {
        if (is_in_shm(file)) bad("a name is truncated")
    } else if (call == "copy_file_range" || call == "splice") {
        if (is_in_shm(line)) bad("a file is copied to")
    } else if (is_in_shm(file)) {
        if (inode(file) == "" || inode(file) in linked) bad("a file with a name is changed")
        if (call == "fallocate" && line !~ /, 0, [0-9]+, [0-9]+\)/) bad("more than memory is reserved")
        if (call == "ftruncate") bad("a size is set without memory for it")
    }
}

function maps(    i) {
    if (line !~ /MAP_SHARED/ || !is_in_shm(line)) return
    i = inode(line)
    if (line !~ /PROT_WRITE/) {
        read_only[result(line)] = 1
        return
    }
    if (client) bad("a client can write")
    else if (i == "" ? line !~ /\.ctl>/ : (i in linked) && linked[i] != "ctl") bad("a file with a name is mapped to be written")
    if (i != "") writable[result(line)] = i
    retired += i == ""
}

function unmaps() {
    delete read_only[address(line)]
    delete writable[address(line)]
}

function moves(    to) {
    to = line
    sub(/\) += .*/, "", to)
    sub(/.*, /, "", to)
    if (!(address(line) in writable)) return
    writable[to] = writable[address(line)]
    delete writable[address(line)]
}

function links(    fd, i, name, a) {
    if (!is_in_shm(line) && index(line, shm ">") == 0) return
    fd = line
    if (!match(fd, /\/proc\/self\/fd\/[0-9]+/)) { bad("a name is given to what has one"); return }
    i = made[pid, substr(fd, RSTART + 14, RLENGTH - 14)]
    name = last_name(line)
    if (i == "") { bad("a file of unknown origin gets a name"); return }
    if (name ~ /\.(part|root)$/)
        for (a in writable)
            if (writable[a] == i) bad("a file gets its name while it is mapped to be written")
    if (!(i in linked)) linked[i] = ending(name)
    count[ending(name)]++
}

function opens(    name) {
    if (!is_in_shm(line) && index(line, shm ">") == 0) return
    name = last_name(line)
    if (line ~ /O_TMPFILE/) {
        if (client) bad("a client makes a file")
        if (result(line) >= 0) made[pid, result(line)] = inode(substr(line, index(line, ") = ")))
    } else if (line ~ /O_TRUNC/)
        bad("a file is opened to be emptied")
    else if (line ~ /O_WRONLY|O_RDWR|O_CREAT/ && !may_open_for_writing(name))
        bad("a file with a name is opened to be written")
}

function judge() {
    call = line
    sub(/^[0-9]+ +/, "", call)
    sub(/\(.*/, "", call)
    if (call ~ /^(ftruncate|truncate|fallocate|p?writev?2?|pwrite64|sendfile|copy_file_range|splice)$/) changes()
    else if (call == "mmap") maps()
    else if (call == "munmap") unmaps()
    else if (call == "mremap") moves()
    else if (call ~ /mprotect$/) { if (line ~ /PROT_WRITE/ && address(line) in read_only) bad("a map is made writable") }
    else if (call ~ /^link/) links()
    else if (call ~ /^(open|creat)/) opens()
}

# A call during which another thread's are shown comes in two pieces.  What munmap() frees may be mapped anew before its end
# is shown, so it counts from its beginning.
{
    pid = $1
    line = $0
    if (line ~ /<unfinished \.\.\.>$/) {
        sub(/ *<unfinished \.\.\.>$/, "", line)
        begun[pid] = line
        if (line ~ /^[0-9]+ +munmap\(/) judge()
        next
    }
    if (line ~ /^[0-9]+ +<\.\.\. .* resumed>/) {
        if (line ~ /<\.\.\. munmap/) next
        sub(/^[0-9]+ +<\.\.\. .* resumed>/, "", line)
        line = begun[pid] line
    }
    judge()
}
END { print count["part"] + 0, "parts", count["root"] + 0, "roots", count["tmp"] + 0, "pages", retired + 0, "retired"; exit wrong > 0 }
END
judge() {
    local client=0
    [ "$1" != client ] || { client=1; shift; }
    awk -v shm="$shm" -v client=$client -f "$place/judge.awk" "$1"
}

# ---- traced daemons ----

calls=open,openat,openat2,creat,mmap,munmap,mremap,mprotect,pkey_mprotect,link,linkat
calls=$calls,truncate,ftruncate,fallocate,write,writev,pwrite64,pwritev,pwritev2,sendfile,copy_file_range,splice
tracing=(strace -f -qq -y -s 200 -e signal=none -e "trace=$calls" -o)
# Leaks can't be looked for in a process that is traced.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
# With -D it is the daemon that has our child's pid.
mkdir "$place/bin"
printf '#!/bin/bash\nexec %s "%s" -D "%s" "$@"\n' "${tracing[*]}" "$place/fifo" "$B/skaded" >"$place/bin/skaded"
chmod +x "$place/bin/skaded"

start_traced() {
    mkfifo "$place/fifo"
    cat "$place/fifo" >>"$place/trace" &
    collector=$!
    PATH=$place/bin:$PATH start --rebuild-threshold 40 --rebuild-idle 5ms --parts-max 2 "$@"
    rm "$place/fifo"
}
traced_to_its_end() { "$1"; wait $collector; }

if [ "$(id -u)" = 0 ] && mkdir "$place/small" && mount -t tmpfs -o size=4m none "$place/small" 2>/dev/null; then
    shm=$place/small
else
    echo "no tmpfs of its own can be mounted: lack of room is only pretended"
fi
is() { [ "$(counter "$1")" = "$2" ]; }
is_published() { [ "$(counter generation)" != 0 ] && is covered_seq "$(counter commit_seq)" && is rebuild_failing 0; }
publish() { until_true ctl reindex; }

# Rebuilds, merges, what takes answers away, and every step of a publication failing.
start_traced
versions=40
formula create 20
for to in 10 20 30 40; do formula release 20 $((to - 10)) $to; until_true is_published; done
ctl create shop.orders --location s3://lake/orders >/dev/null
for v in 1 2 3; do ctl commit shop.orders s3://lake/orders/v$v --snapshot $v >/dev/null; done
ctl expire shop.orders --snapshot 2 >/dev/null
ctl rename shop.orders shop.sales >/dev/null
ctl drop shop.sales >/dev/null
for point in reserve fill verify link linked; do
    fail_at publish.$point "fail 28"
    ctl reindex >/dev/null 2>&1 && fail "publish.$point did not fail"
    fail_no_more publish.$point
    publish
done
# No room, and room again.
if [ "$shm" = "$place/small" ]; then
    dd if=/dev/zero of="$shm/filler" bs=4k 2>/dev/null || true
    formula release 20 40 60
    versions=60
    until_true is rebuild_failing 1
    rm "$shm/filler"
    publish
fi
# Names that vanish; a kill and a takeover; a takeover after an orderly end.
rm "$shm"/skade.*
healed() { [ -e "$shm/skade.$(id -u).default.v1.ctl" ]; }
until_true healed
publish
traced_to_its_end crash
start_traced
publish
traced_to_its_end stop
start_traced
formula verify 20 $versions
traced_to_its_end stop

seen=$(judge "$place/trace") || fail "$seen"
echo "$seen"
read -r parts _ roots _ pages _ retired _ <<<"$seen"
[ "$parts" -ge 15 ] && [ "$roots" -ge 15 ] && [ "$pages" -ge 4 ] && [ "$retired" -ge 2 ] || fail "this proves too little: $seen"

# ---- clients ----

start --rebuild-threshold 40 --rebuild-idle 5ms
publish
"${tracing[@]}" "$place/client" "$B/skadectl" verify >/dev/null
grep -q "MAP_SHARED.*$shm/skade.*part" "$place/client" || fail "the client maps nothing: $(cat "$place/client")"
seen=$(judge client "$place/client") || fail "$seen"
stop

# ---- would it be noticed? ----

file=$shm/$(grep -m 1 -o "fallocate([0-9]*<$shm/#[0-9]*" "$place/trace" | grep -o '#.*')
named=$shm/skade.0.default.v1.1.2.part
# noticed WHY LINE...: the judge says WHY of a trace that goes on with LINE.
noticed() {
    local why=$1
    shift
    { cat "$place/trace"; printf '1 %s\n' "$@"; } >"$place/doctored"
    judge "$place/doctored" >"$place/out" && fail "not noticed: $*"
    grep -q "^$why: " "$place/out" || fail "instead of '$why': $(cat "$place/out")"
}
noticed "a file with a name is changed" "ftruncate(9<$file>(deleted), 0) = 0"
noticed "a file with a name is changed" "pwrite64(9<$file>(deleted), \"x\", 1, 0) = 1"
noticed "a file with a name is changed" "write(9<$named>, \"x\", 1) = 1"
noticed "a file with a name is changed" "fallocate(9<$file>(deleted), FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0"
noticed "more than memory is reserved" "fallocate(9<$shm/#1>(deleted), FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0"
noticed "a size is set without memory for it" "ftruncate(9<$shm/#1>(deleted), 4096) = 0"
noticed "a name is truncated" "truncate(\"$named\", 0) = 0"
noticed "a file with a name is mapped to be written" \
    "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 9<$file>(deleted), 0) = 0x1000"
noticed "a file with a name is mapped to be written" "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 9<$named>, 0) = 0x1000"
noticed "a map is made writable" "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 9<$file>(deleted), 0) = 0x1000" \
    "mprotect(0x1000, 4096, PROT_READ|PROT_WRITE) = 0"
noticed "a file with a name is opened to be written" "openat(9<$shm>, \"${named##*/}\", O_RDWR|O_CLOEXEC) = 10<$named>"
noticed "a file with a name is opened to be written" "openat(AT_FDCWD</>, \"$named\", O_WRONLY <unfinished ...>" "<... openat resumed>) = 9<$named>"
noticed "a file is opened to be emptied" "openat(9<$shm>, \"skade.0.default.v1.lock\", O_RDWR|O_TRUNC) = 10<$shm/skade.0.default.v1.lock>"
grep -v munmap "$place/trace" >"$place/doctored"
judge "$place/doctored" | grep -q "^a file gets its name while it is mapped to be written: " || fail "a map that stays is not noticed"
