# A part in shared memory is damaged in place.  A merge never takes the damage over, nobody is answered from the part once it
# was found, and the daemon makes the index anew from the log, in the same process.  When it happens again at once it stops.
. "$(dirname "$0")/lib.sh"

# damage TEXT: change it, in the part that has it, to something of the same length.
damage() {
    local file offset
    file=$(grep -laF "$1" "$shm"/skade.*.part | tail -1)
    offset=$(LC_ALL=C grep -oabF "$1" "$file" | head -1)
    chmod u+w "$file"
    printf X | dd of="$file" bs=1 seek="${offset%%:*}" conv=notrunc status=none
    chmod u-w "$file"
    name=$(basename "$file")
}
is_anew() { [ "$(grep -c "the daemon begins anew" "$place/skaded.log")" = "$1" ] && ctl ping; }
# A location that is like no other stands in a part as it is.
location() { [ "$1" = 25 ] && echo "odd place" || echo "s3://lake/orders/metadata/v$1"; }
fill() {
    for i in $(seq "$1" "$2"); do ctl commit shop.orders "$(location "$i")" --snapshot "$i"; done >/dev/null
}
# all TO: every snapshot is where the log has it, by the daemon and by its maps.
all() {
    for maps in no yes; do
        for i in $(seq 1 "$1"); do same "snapshot $i" "$(location "$i")" "$(SKADE_SHM=$maps ctl resolve shop.orders "$i" | cut -f3)"; done
    done
    ctl verify --full >/dev/null
}
run_and_damage() {
    start --rebuild-idle 5ms "$@"
    ctl create shop.orders --location s3://lake/orders >/dev/null
    fill 1 30
    ctl reindex >/dev/null
    all 30
    pid=$daemon
    damage "odd place"
}
forget() { rm -rf "$data" "$place/skaded.log"; }

echo "- an operator sees it and has the index made anew"
run_and_damage
expect 1 ctl verify >"$place/verify" 2>"$place/err"
awk -F'\t' -v name="$name" '$1 == name && $2 > 0 && $3 == $2 { found = 1 } END { exit !found }' "$place/verify" ||
    fail "verify doesn't count right: $(cat "$place/verify")"
grep -q "$name" "$place/err" || fail "verify names no file: $(cat "$place/err")"
same "segments, before" 1 "$(ctl segments | grep -c "$name")"
asker before 5000
old=$(ctl stats generation | awk '$1 == "generation" { print $2 }')
expect 1 ctl reindex 2>"$place/err"
grep -q "the index was damaged: the daemon builds it anew from the log" "$place/err" || fail "reindex said: $(cat "$place/err")"
until_true is_anew 1
grep -q "$name is damaged" "$place/skaded.log" || fail "the log names no file"
same "the process" "$pid" "$daemon"
kill -0 "$pid" || fail "the daemon is another process"
all 30
for i in 1 25 30; do answers before "1 $(location "$i")" resolve 1 "$i"; done
same "what is failing" 0 "$(counter rebuild_failing)"

echo "- again at once: that has another cause"
damage "odd place"
expect 1 ctl reindex 2>"$place/err"
status=0
wait "$daemon" || status=$?
same "the daemon's status" 1 $status
daemon=
exec 9<&-
grep -q "only a moment ago, so the daemon stops" "$place/skaded.log" || fail "the log doesn't say why it stopped"
expect 5 ctl resolve shop.orders 25 >/dev/null 2>"$place/err" # and not from a map
start --rebuild-idle 5ms
all 30
stop
forget

echo "- commits go on meanwhile, and a merge finds it"
run_and_damage --rebuild-threshold 4 --parts-max 2
asker writer 20000
for i in $(seq 31 80); do # what was on its way is told from what never was: neither is lost, neither is there twice
    until reply=$(ask writer commit 1 "$i" "$(location "$i")") && [ "${reply%% *}" = 1 ]; do
        same "a commit" EUNREACHABLE "$reply"
    done
    [ "$i" != 70 ] || until_true is_anew 1
done
all 80
same "events" 81 "$(counter commit_seq)"
stop
forget

word() { od -An -t u8 -j 256 -N 8 "$shm"/skade.*.default.v1.ctl | tr -d ' '; }
is_logged() { grep -q "$1" "$place/skaded.log"; }
both_are_there() { [ "$(ctl clients | awk '$1 == "stress" && $6 >= 2' | wc -l)" = 2 ]; }
# found_meanwhile: the log is at work for the first, the second waits for it, and then the damage is found.
found_meanwhile() {
    run_and_damage
    asker first 20000
    asker second 20000
    asker third socket 20000
    hold_at publish.verify
    skadectl reindex >/dev/null 2>&1 & reindex=$!
    is_held publish.verify
    hold_at log.begin
    echo "drop shop.orders" >&"${ask_in[first]}"
    is_held log.begin
    echo "create shop.sales" >&"${ask_in[second]}"
    until_true both_are_there
    let_go publish.verify
    until_true is_logged "the daemon begins anew"
    expect 1 wait $reindex
    same "the generation word" 0 "$(word)"
    answers third EUNREACHABLE resolve 1 25 # though it is connected
    expect 5 ctl resolve shop.orders 25 >/dev/null 2>"$place/err"
}

echo "- what is on its way is not lost, and nothing is published any more"
found_meanwhile
hold_at takeover.alias
let_go log.begin
is_held takeover.alias
same "the generation word of the page that is replaced" 0 "$(word)"
let_go takeover.alias
read -r -t 60 -u "${ask_out[first]}" reply && same "the drop" "1 32" "${reply% }"
read -r -t 60 -u "${ask_out[second]}" reply && same "the creation" "1 33" "${reply% }"
stop
forget

echo "- an order to stop that comes meanwhile is one"
found_meanwhile
kill -TERM "$daemon"
until_true is_logged "stopping on signal"
let_go log.begin
status=0
wait "$daemon" || status=$?
same "the daemon's status" 0 $status
daemon=
exec 9<&-
