# Stores of simd-r-drive become one commit: the rows in the order of that engine's iterator, from the damaged ones nothing,
# and the source stays as it was.
. "$(dirname "$0")/lib.sh"

# A store made here: 3000 entries of 700 keys with deletions, and one value of 3 MiB.  Beside it what a scan must give.
python3 - "$place" <<'PYTHON'
import hashlib, json, random, struct, sys, zlib

rng = random.Random(63)
place, store, live, order = sys.argv[1], bytearray(), {}, 0

def entry(key, payload, align):
    prev = len(store)
    store.extend(bytes(-prev % align) + payload + struct.pack("<QQL", key, prev, zlib.crc32(payload)))

for order in range(3000):
    key = rng.randrange(700) * 0x0123456789abcdef % (1 << 64)
    if rng.random() < 0.2:
        entry(key, b"\0", 1)
        live.pop(key, None)
    else:
        payload = rng.randbytes(3 << 20 if order == 1500 else rng.randrange(2, 200))
        key = 0xfedcba9876543210 if order == 1500 else key
        entry(key, payload, 64)
        live[key] = (order, payload)
open(place + "/made.bin", "wb").write(store)
with open(place + "/made.expected.jsonl", "w") as f:
    for key, (_, payload) in sorted(live.items(), key=lambda item: -item[1][0]):
        f.write(json.dumps({"key_hash": f"{key:016x}", "payload_len": len(payload),
                            "payload_sha256": hashlib.sha256(payload).hexdigest()}) + "\n")
open(place + "/torn.bin", "wb").write(store[:-7])
PYTHON

# scanned TABLE LISTING: a scan gives what the engine's iterator gave.
scanned() {
    ctl scan "$1" --format jsonl | python3 -c '
import base64, hashlib, json, sys
want = [json.loads(line) for line in open(sys.argv[1])]
got = []
for line in sys.stdin:
    row = json.loads(line)
    value = base64.b64decode(row["value_base64"]) if "value_base64" in row else row["value"].encode()
    got.append((row["key"], len(value), hashlib.sha256(value).hexdigest()))
assert got == [(w["key_hash"], w["payload_len"], w["payload_sha256"]) for w in want], (len(got), len(want))
' "$2" || fail "$1: not the rows of $2"
}

looks() { stat -c '%s %Y %Z' "$1" && cksum <"$1"; }

# imports NAME FILE LISTING: in a table of its own, as one commit, and FILE is as before.
imports() {
    local rows before
    rows=$(wc -l <"$3")
    before=$(looks "$2")
    ctl create "drive.$1" >/dev/null
    ctl import-simd-r-drive "drive.$1" "$2" >"$place/said"
    same "$1: table and rows" "drive.$1 $rows" "$(cut -f1,4 "$place/said" | tr '\t' ' ')"
    same "$1: the file afterwards" "$before" "$(looks "$2")"
    if [ "$rows" = 0 ]; then
        same "$1: nothing was committed" "- - 0" "$(cut -f2,3,5 "$place/said" | tr '\t' ' ')"
        expect 3 ctl head "drive.$1" >/dev/null 2>&1
    else
        same "$1: its commit" "$(cut -f2,3 "$place/said")" "$(ctl head "drive.$1" | cut -f2,3)"
        same "$1: commits" 1 "$(ctl history "drive.$1" | grep -c commit)"
        scanned "drive.$1" "$3"
    fi
}

# refuses FILE WORDS: with exit code 1, and the table stays as it was.
refuses() {
    local before
    before=$(looks "$1")
    expect 1 ctl import-simd-r-drive drive.made "$1" >"$place/said" 2>"$place/err"
    grep -q "$2" "$place/err" || fail "$1: no '$2' in: $(cat "$place/err")"
    [ ! -s "$place/said" ] || fail "$1: it was refused, and yet: $(cat "$place/said")"
    same "$1 afterwards" "$before" "$(looks "$1")"
    same "commits after $1" 1 "$(ctl history drive.made | grep -c commit)"
}

start
imports made "$place/made.bin" "$place/made.expected.jsonl"
refuses "$place/torn.bin" "whole entries before"
same "a value by its key" "$(head -1 "$place/made.expected.jsonl" | python3 -c 'import json,sys; print(json.load(sys.stdin)["payload_sha256"])')" \
    "$(ctl get drive.made "$(ctl scan drive.made --format jsonl | head -1 | cut -d'"' -f4)" | sha256sum | cut -d' ' -f1)"

# ---- what is refused before the file is looked at ----
expect 3 ctl import-simd-r-drive drive.nothing "$place/made.bin" 2>/dev/null
ctl create lake.outside --location s3://bucket/outside >/dev/null
for file in "$place/made.bin" /dev/null; do
    expect 2 ctl import-simd-r-drive lake.outside "$file" 2>"$place/err"
    grep -q "use commit" "$place/err"
done
expect 1 ctl import-simd-r-drive drive.made "$place/nothing.bin" 2>/dev/null
expect 2 ctl import-simd-r-drive drive.made "$place/made.bin" --layout 32 2>/dev/null
expect 1 ctl import-simd-r-drive drive.made "$place/made.bin" --layout none 2>"$place/err"
grep -q "layout none" "$place/err"

# ---- the same request again is the same commit ----
ctl create drive.again >/dev/null
uuid=12345678-1234-4234-8234-123456789abc
ctl import-simd-r-drive drive.again "$place/made.bin" --layout 64 --uuid $uuid | cut -f1-4 >"$place/once"
ctl import-simd-r-drive drive.again "$place/made.bin" --uuid $uuid | cut -f1-4 | cmp "$place/once" -
same "commits of a request sent twice" 1 "$(ctl history drive.again | grep -c commit)"

# ---- the engine's own stores ----
stores=${SKADE_TEST_DATA:-$here/../../../shared/data}/simd-r-drive
if [ -d "$stores" ]; then
    for listing in "$stores"/*.expected.jsonl; do
        name=$(basename "$listing" .expected.jsonl)
        imports "$name" "$stores/$name.bin" "$listing"
    done
    refuses "$stores/torn_tail.bin" "at offset 987 are no whole entry; 9 whole entries before"
    refuses "$stores/zero_tail.bin" "at offset 1244 are zero, and no entry; 10 whole entries before"
    refuses "$stores/bit_flip.bin" "entry 7, key hash 55b8da70178442d5: the checksum"
    refuses "$stores/foreign.bin" "no store of simd-r-drive"
else
    echo "not tried: the engine's own stores are not at $stores (SKADE_TEST_DATA says where)"
fi

# ---- what was imported lives through a restart ----
stop
start
scanned drive.made "$place/made.expected.jsonl"
