# kill -9 at every step of append, compaction, collection and of the start that follows: the old table or the new one, never
# another; what was acknowledged is there, what is sent again is made once; files without a commit go to lost/ and are
# reported; what only looks like ours stays.
. "$(dirname "$0")/lib.sh"

table=shop.events
rows() { ctl scan "$1" --oldest-first --format jsonl; }
entries_of() { find "$data/tables" -type f \( -name '*.entries' -o -name '*.rows' -o -name '*.manifest' \) -size +0; }

# ---- names that look like ours ----

look_alikes() {
    local d=$data/tables
    mkdir -p "$d/1/0" "$d/x" "$d/01/0" "$d/1/00" "$d/events__cold" "$d/1/0.bak"
    for name in 1/0/0123456789abcdef0123456789abcdef.entries.bak 1/0/README 1/0/0123.entries 1/x x/y 01/0/f \
        01/0/0123456789abcdef0123456789abcdef.entries 1/00/0123456789abcdef0123456789abcdef.pending \
        events__cold/0123456789abcdef0123456789abcdef.rows 1/0.bak/0123456789abcdef0123456789abcdef.entries \
        1/0/0123456789ABCDEF0123456789ABCDEF.entries 1/0/0123456789abcdef0123456789abcdef.1.rows; do
        echo "$name" >"$d/$name"
        echo "$name"
    done >"$place/alike"
}
check_look_alikes() {
    local name
    while read -r name; do
        same "the look-alike $name" "$name" "$(cat "$data/tables/$name" 2>/dev/null)"
    done <"$place/alike"
}

# ---- what must hold after a restart ----

# no_strays WHERE: every file of ours that is left is one that the log names, and no mark is left.
no_strays() {
    local file name
    ctl history $table | cut -f5 | sed 's|.*/||; s|\..*||' | sort -u >"$place/known"
    for file in $(entries_of); do
        grep -qxF "${file#"$data/tables/"}" "$place/alike" && continue
        name=${file##*/}
        grep -qxF "${name%%.*}" "$place/known" || fail "$1: $file is left without a commit"
    done
    same "$1: marks" "" "$(find "$data/tables" -name '*.pending' | grep -v /00/ || true)"
}

# moved_files_are_told WHERE: what is in lost/ was said, by the daemon that did it.
moved_files_are_told() {
    local file
    [ ! -d "$data/lost" ] || for file in $(ls "$data/lost"); do
        grep -qF "lost/$file" "$place/skaded.log" || fail "$1: lost/$file was not reported"
    done
}

# survives WHERE: the daemon that comes after the killed one.
survives() {
    fail_no_more "${1%% *}"
    start --gc-grace 1h
    rows $table >"$place/now" || fail "$1: the table can't be scanned"
    no_strays "$1"
    moved_files_are_told "$1"
    check_look_alikes
    ctl verify --full >/dev/null || fail "$1: damaged"
}

# killed POINT WHAT COMMAND...: COMMAND runs into the point and the daemon dies there; whoever asked dies with it.  What he
# was told is in $place/out.
killed() {
    local point=$1 what=$2
    shift 2
    fail_at "$point" "$what"
    "$@" >"$place/out" 2>"$place/err" & local sent=$!
    wait_gone "$daemon"
    daemon=
    kill -9 $sent 2>/dev/null || true
    { wait $sent; } 2>/dev/null || true
}
acknowledged() { [ -s "$place/out" ]; }

start --gc-grace 1h
ctl create $table >/dev/null
look_alikes
printf 'a\t1\nb\t2\n' | ctl append $table --format tsv >/dev/null

# ---- append ----

n=0
append_dies() {
    n=$((n + 1))
    local uuid row="k$n	value $n"
    uuid=$(printf '%08x-0000-4000-8000-%012x' $n $RANDOM)
    rows $table >"$place/old"
    { cat "$place/old"; printf '{"key":"k%s","value":"value %s"}\n' $n $n; } >"$place/new"
    printf '%s\n' "$row" >"$place/row"
    killed "$1" "$2" skadectl --timeout 60 append $table "$place/row" --format tsv --uuid "$uuid"
    survives "$1 of an append"
    ! acknowledged || cmp -s "$place/now" "$place/new" || fail "$1: an acknowledged append is lost"
    cmp -s "$place/now" "$place/new" || cmp -s "$place/now" "$place/old" || fail "$1: neither the old table nor the new"
    # Sent again it is there, once.
    ctl append $table "$place/row" --format tsv --uuid "$uuid" >"$place/first"
    ctl append $table "$place/row" --format tsv --uuid "$uuid" >"$place/again"
    cmp "$place/first" "$place/again" || fail "$1: another answer to the same append"
    rows $table | diff - "$place/new" || fail "$1: an append sent again isn't there once"
}

for point in store.temp entries.write entries.fsync store.mark store.link store.dirsync store.linked log.begin log.insert \
    log.commit log.committed commit.durable store.settle; do
    append_dies $point kill
done

# ---- compaction ----

# What is asked of every snapshot there was: its rows as before, or that it is expired.
snapshots() { ctl history $table | awk -F'\t' '$3 == "commit" || $3 == "compact" { print $4 }'; }

remember_snapshots() {
    local id
    rm -rf "$place/at"
    mkdir "$place/at"
    for id in $(snapshots); do
        ctl scan $table --snapshot "$id" --format jsonl >"$place/at/$id" 2>/dev/null || rm "$place/at/$id"
    done
}

# check_snapshots WHERE EXPIRED: EXPIRED of them are.
check_snapshots() {
    local id got gone=0
    for id in $(ls "$place/at"); do
        got=0
        ctl scan $table --snapshot "$id" --format jsonl >"$place/then" 2>/dev/null || got=$?
        case $got in
        0) cmp -s "$place/then" "$place/at/$id" || fail "$1: snapshot $id has other rows" ;;
        6) gone=$((gone + 1)) ;;
        *) fail "$1: snapshot $id: status $got" ;;
        esac
    done
    same "$1: expired snapshots" "$2" "$gone"
}

compaction_dies() {
    local point=$1 what=$2 before after
    shift 2
    n=$((n + 1))
    printf 'a\t%s\nz%s\t1\n' $n $n | ctl append $table --format tsv >/dev/null
    printf '{"key":"b","delete":true}\n{"key":"b","value":"%s"}\n' $n | ctl append $table --format jsonl >/dev/null
    rows $table >"$place/old"
    grep -v '"key":"z' "$place/old" >"$place/new"
    remember_snapshots
    before=$(ls "$place/at" | wc -l)
    killed "$point" "$what" skadectl --timeout 60 compact $table --drop-from z
    survives "$point of a compaction"
    if [ "$(ctl history $table --limit 1 | cut -f3)" = compact ]; then
        cmp -s "$place/now" "$place/new" || fail "$point: a compaction was made, and the rows are others"
        check_snapshots "$point" "$before"
    else
        ! acknowledged || fail "$point: an acknowledged compaction is lost"
        cmp -s "$place/now" "$place/old" || fail "$point: no compaction was made, and the rows are others"
        check_snapshots "$point" 0
    fi
}

for point in compact.begin store.temp compact.scanned rows.write rows.fsync manifest.write manifest.fsync compact.link \
    store.mark store.link store.dirsync store.linked log.begin log.insert log.commit log.committed commit.durable \
    store.settle; do
    compaction_dies $point kill
done
# Between the names: one .rows file has its name, the manifest hasn't.
compaction_dies store.link "count 1 kill"

# ---- the log refuses what has its names, and they are being taken back ----

n=$((n + 1))
printf 'r\t%s\n' $n | ctl append $table --format tsv >/dev/null
rows $table >"$place/old"
printf 'r\trefused\n' >"$place/row"
for what in "0 append $table $place/row --format tsv" "1 append $table $place/row --format tsv" \
    "0 compact $table" "1 compact $table" "2 compact $table"; do
    fail_at log.insert "fail 28"
    killed store.unlink "count ${what%% *} kill" skadectl --timeout 60 ${what#* }
    fail_no_more log.insert
    survives "store.unlink of ${what}"
    cmp -s "$place/now" "$place/old" || fail "store.unlink of ${what}: the table changed"
done

# ---- a log that isn't synced at each commit: marks stay until the next start ----

stop
start --gc-grace 1h --sync normal
printf 's\t1\n' | ctl append $table --format tsv >/dev/null
ctl compact $table >/dev/null
rows $table >"$place/old"
[ "$(find "$data/tables/1" -name '*.pending' | grep -vc /00/)" = 2 ] || fail "no marks with --sync normal"
crash
survives "commits of a log that isn't synced"
cmp "$place/now" "$place/old"

# ---- collection ----

ctl compact $table >/dev/null
rows $table >"$place/old"
retired=$(ctl gc $table --json | grep -c .)
[ "$retired" -gt 1 ] || fail "nothing is retired"
for skip in 0 1 0 3; do
    killed gc.remove "count $skip kill" skadectl --timeout 60 gc $table --now
    survives "gc.remove of a collection"
    cmp -s "$place/now" "$place/old" || fail "a collection that was killed changed the table"
    printf 'g\t%s\n' $skip | ctl append $table --format tsv >/dev/null
    ctl compact $table >/dev/null
    rows $table >"$place/old"
done
ctl gc --now >/dev/null
rows $table | cmp - "$place/old"
check_look_alikes
# What is left: the base, and nothing else of ours.
same "files after the last collection" "1 1" \
    "$(find "$data/tables/1" -name '*.manifest' | wc -l) $(find "$data/tables/1" -name '*.rows' | grep -vc 0123456789)"

# ---- the start itself ----

# A compaction with two .rows files whose commit never came: three files to move, two of them after one crash more.
n=$((n + 1))
printf 'q\t%s\n' $n | ctl append $table --format tsv >/dev/null
rows $table >"$place/old"
for what in "store.lost 0" "store.lost 1" "store.unmark 0"; do
    point=${what% *} skip=${what#* }
    killed store.linked kill skadectl --timeout 60 compact $table
    fail_no_more store.linked
    fail_at "$point" "count $skip kill"
    ! (start --gc-grace 1h) >/dev/null 2>&1 || fail "the start didn't run into $point"
    survives "$point of a start"
    cmp -s "$place/now" "$place/old" || fail "$point: the table changed"
done
[ "$(ls "$data/lost" | wc -l)" -gt 3 ] || fail "lost/ is empty"

# ---- a directory that was made and not set up ----

stop
start --gc-grace 1h
ctl create shop.other >/dev/null
echo one >"$place/row"
killed store.dir kill skadectl --timeout 60 append shop.other "$place/row"
fail_no_more store.dir
start --gc-grace 1h
ctl append shop.other <<<two >/dev/null
same "modes of a table's directories" "755 755" \
    "$(stat -c %a "$data/tables/2" "$data/tables/2/0" | tr '\n' ' ' | sed 's/ $//')"
same "rows" two "$(ctl scan shop.other)"
stop

# ---- lost/ goes after the grace window, what only lies in it stays ----

echo mine >"$data/lost/notes.txt"
start --gc-grace 5s
until_true grep -q "lost/ was there for a grace window" "$place/skaded.log"
same "what is left in lost/" notes.txt "$(ls "$data/lost")"
same "a file of somebody else's in lost/" mine "$(cat "$data/lost/notes.txt")"
check_look_alikes
ctl verify --full >/dev/null
stop
