# What waits to be removed, told and removed: when it was retired is what the log says, also after restarts; what can't be
# removed since its manifest is damaged is listed with the reason; a dropped table's files are asked for by name or number.
. "$(dirname "$0")/lib.sh"

rows() { seq "$1" "$2" | ctl append shop.events >/dev/null; }
retired() { ctl gc --json "$@"; } # a line of JSON for each
field() { python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)[sys.argv[1]])' "$1"; }
damage() { python3 - "$1" <<'PYTHON'
import os, sys
data = bytearray(open(sys.argv[1], "rb").read())
data[100] ^= 1
with open(sys.argv[1] + ".new", "wb") as f:
    f.write(data)
os.chmod(sys.argv[1] + ".new", 0o444)
os.rename(sys.argv[1] + ".new", sys.argv[1])
PYTHON
}

start --gc-grace 1h
ctl create shop.events >/dev/null
rows 1 10
rows 11 20
ctl compact shop.events >/dev/null
rows 21 30
ctl compact shop.events >/dev/null
ctl create shop.gone >/dev/null
echo x | ctl append shop.gone >/dev/null
ctl drop shop.gone >/dev/null
same "retirements" 3 "$(retired | wc -l)"
retired | field retired_at | sort >"$place/times"
retired | field due | sort >"$place/due"

echo "- the time of a retirement is the log's, the grace window begins anew"
stop
start --gc-grace 1h
retired | field retired_at | sort | diff "$place/times" - || fail "after a restart other times"
retired | field due | sort >"$place/due.now"
paste "$place/due" "$place/due.now" | awk '$1 >= $2 { exit 1 }' || fail "the grace window didn't begin anew"

echo "- a dropped table's files, by name and by number"
same "by its last name" 1 "$(retired shop.gone | wc -l)"
dir=$(retired shop.gone | field dir)
number=${dir%/*} number=${number##*/}
same "by its number" "$dir" "$(retired "$number" | field dir)"
same "of the living one" 2 "$(retired shop.events | wc -l)"
expect 3 ctl gc shop.none 2>"$place/err"
grep -q "none that was dropped has files left" "$place/err" || fail "$(cat "$place/err")"
same "left" "" "$(ctl gc --now shop.gone)"
[ -z "$(find "$dir" -type f)" ] || fail "files of the dropped table are left"
expect 3 ctl gc shop.gone 2>/dev/null
expect 3 ctl gc "$number" 2>/dev/null
same "of the living one" 2 "$(retired | wc -l)"

echo "- a damaged manifest: its files are kept, and why; the others go; mended, they go, too"
manifest=$(echo "$data"/tables/1/1/*.manifest)
cp -a "$manifest" "$place/sound"
damage "$manifest"
kept_because() { # COUNT: so many are listed, this one with the reason
    retired shop.events | field waiting_for >"$place/waiting"
    same "listed" "$1" "$(wc -l <"$place/waiting")"
    grep -q "^kept: $manifest: " "$place/waiting" || fail "no reason is told: $(cat "$place/waiting")"
    [ -e "$manifest" ] || fail "files of a retirement that can't be told apart were removed"
}
stop
start --gc-grace 1h
kept_because 2
ctl gc --now shop.events >/dev/null
kept_because 1
stop
start --gc-grace 1h
kept_because 1
mv "$place/sound" "$manifest"
same "left" "" "$(ctl gc --now shop.events)"
[ ! -e "$manifest" ] || fail "the mended manifest is still there"
same "rows" 30 "$(ctl scan shop.events | wc -l)"
stop
