# A damaged row in a file of a table: a compaction of any kind ends with the file and the offset and changes nothing; reading
# gives the rows before it and then the same error; what isn't damaged can still be read; repaired, all is well.
. "$(dirname "$0")/lib.sh"

settled() { ! find "$data/tables" -name '*.pending' | grep -q .; }
state() { find "$data/tables" -type f -printf '%p %s %T@\n' | sort; ctl history "$1"; }

# flip FILE TEXT: one bit of the byte where TEXT begins.  The file is nobody's to write, so it is replaced.
flip() {
    python3 - "$1" "$2" <<'PYTHON'
import os, sys
path, text = sys.argv[1], sys.argv[2].encode()
data = bytearray(open(path, "rb").read())
at = data.find(text) if text else 400 # in the first block
assert at >= 0, "the text isn't in the file"
data[at] ^= 4
mode, times = os.stat(path).st_mode, os.stat(path)
with open(path + ".new", "wb") as f:
    f.write(data)
os.chmod(path + ".new", mode)
os.rename(path + ".new", path)
os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
PYTHON
}

# refused FILE COMMAND...: with exit code 1, FILE and an offset are named.
refused() {
    local file=$1
    shift
    expect 1 "$@" >"$place/out" 2>"$place/err"
    grep -qF "$file" "$place/err" || fail "'$*' doesn't name $file: $(cat "$place/err")"
    grep -Eq 'at (byte|offset) [0-9]+' "$place/err" || fail "'$*' names no offset: $(cat "$place/err")"
}

start --gc-grace 1h
ctl create shop.events >/dev/null
for i in 1 2 3; do
    seq 1 200 | awk -v i=$i '{ printf "{\"key\":\"k%d\",\"value\":\"value-%d-of-%d-end\"}\n{\"value\":\"row-%d-of-%d-end\"}\n", $1 + i * 100, $1, i, $1, i }' |
        ctl append shop.events --format jsonl >/dev/null
done
until_true settled
ctl scan shop.events --format jsonl >"$place/rows"
ctl scan shop.events --format jsonl --oldest-first >"$place/rows.oldest"

# damaged FILE TEXT: while TEXT in FILE is damaged.
damaged() {
    local file=$1
    cp -a "$file" "$place/sound"
    flip "$file" "$2"
    state shop.events >"$place/before"
    failures=$(counter compactions_failed)
    refused "$file" ctl compact shop.events
    grep -q . "$place/out" && fail "a compaction that failed printed something"
    same "failures counted" $((failures + 1)) "$(counter compactions_failed)"
    refused "$file" ctl compact shop.events --keep-prefix k
    refused "$file" ctl compact shop.events --dry-run
    state shop.events | diff "$place/before" - || fail "a compaction that failed changed something"
    for order in "" --oldest-first; do
        refused "$file" ctl scan shop.events --format jsonl $order
        lines=$(wc -l <"$place/out")
        [ "$lines" -lt "$(wc -l <"$place/rows")" ] || fail "all rows came"
        cmp "$place/out" <(head -n "$lines" "$place/rows${order:+.oldest}") || fail "other rows before the damage"
        told[${#told[@]}]=$lines
    done
    expect 1 ctl verify --full >"$place/out" 2>&1
    grep -qF "$file" "$place/out" || fail "verify doesn't name $file"
    mv "$place/sound" "$file"
    ctl scan shop.events --format jsonl | cmp - "$place/rows"
}

middle=$(ctl history shop.events | awk -F'\t' '$3 == "commit"' | sed -n 2p | cut -f5)
middle=${middle#file://}
echo "- a row without a key in a commit's file"
told=()
damaged "$middle" row-150-of-2-end
[ "${told[0]}" -gt 300 ] || fail "newest first only ${told[0]} rows came before the damage"
[ "${told[1]}" -gt 300 ] || fail "oldest first only ${told[1]} rows came before the damage"
echo "- a value that is there"
told=()
damaged "$middle" value-50-of-2-end
# A get of another key of the file is answered.
cp -a "$middle" "$place/sound"
flip "$middle" row-150-of-2-end
same "a key beside" value-60-of-2-end "$(ctl get shop.events k260)"
mv "$place/sound" "$middle"
echo "- a block of a base"
ctl compact shop.events >/dev/null
printf '{"key":"k1","value":"newest"}\n' | ctl append shop.events --format jsonl >/dev/null
until_true settled
ctl scan shop.events --format jsonl >"$place/rows"
ctl scan shop.events --format jsonl --oldest-first >"$place/rows.oldest"
told=()
damaged "$(find "$data/tables/1/1" -name '*.rows')" ""
same "the newest row is before the damage" 1 "$((told[0] > 0))"
ctl compact shop.events >/dev/null
ctl verify --full >/dev/null
stop
