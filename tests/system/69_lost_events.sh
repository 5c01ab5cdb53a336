# Acknowledged events that are gone from the log are told of, and their numbers aren't given out again: neither after
# damage within the write-ahead log, nor when it became shorter, in either mode.
. "$(dirname "$0")/lib.sh"

wal=$data/log/skade.db-wal
size() { stat -c %s "$wal"; }
cut_to() { truncate -s "$1" "$wal"; }
flip_at() { # flip_at OFFSET: another byte there
    local byte
    byte=$(od -An -tu1 -j "$1" -N 1 "$wal")
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$wal" bs=1 seek="$1" conv=notrunc status=none
}

keep() { rm -rf "$place/kept" && cp -a "$data" "$place/kept"; }
give_back() { rm -rf "$data" && cp -a "$place/kept" "$data"; }

# refused WORDS...: the daemon says them, ends with 1, and touches nothing; so it does the next time.
refused() {
    local words before
    before=$(cat "$data"/log/* | cksum)
    for i in 1 2; do
        expect 1 skaded "${options[@]}" $mode >"$place/out" 2>"$place/said"
        for words in "$@" "restore the newest backup"; do
            grep -q -- "$words" "$place/said" || fail "skaded doesn't say '$words': $(cat "$place/said")"
        done
        [ ! -s "$place/out" ] || fail "skaded said $(cat "$place/out")"
        same "the log's bytes" "$before" "$(cat "$data"/log/* | cksum)"
    done
}

commits() { for i in $(seq "$1" "$2"); do ctl commit a.b "s3://x/$i" --snapshot "$i" >/dev/null; done; }

for mode in "--sync full" "--sync normal"; do
    rm -rf "$data"
    start $mode
    ctl create a.b --location l >/dev/null
    ctl backup "$place/backup" >/dev/null
    commits 1 19
    crash
    keep

    # ---- one bit, a third into it ----

    flip_at $(($(size) / 3))
    if [ "$mode" = "--sync full" ]; then
        refused "skade.db-wal: is damaged at byte" "events are certain"
        expect 1 skaded --check-log --data-dir "$data" 2>"$place/said"
        grep -q "is damaged at byte" "$place/said" || fail "the check said: $(cat "$place/said")"
    else
        refused "has lost its newest events" "it ends at .*, and clients were told of 20"
    fi

    # ---- it became shorter ----

    for cut in 0 1 $(($(size) / 2)) $(($(size) - 1)); do
        give_back
        cut_to "$cut"
        refused "has lost its newest events" "clients were told of 20"
    done
    grep -q "newest events (1): it ends at 19," "$place/said" || fail "said: $(cat "$place/said")"

    # ---- nothing is lost ----

    give_back
    start $mode
    same "the next event" 21 "$(ctl commit a.b s3://x/20 --snapshot 20)"
    ctl verify --full >/dev/null
    crash

    # ---- the cures: a backup, which is another log ----

    cut_to 0
    refused "clients were told of 21"
    mv "$data" "$place/damaged"
    ctl restore "$place/backup" --data-dir "$data" >/dev/null
    start $mode
    same "the next event" 2 "$(ctl commit a.b s3://y/1 --snapshot 1)"
    ctl verify --full >/dev/null

    # Crashes and clean ends of that one are as ever; and to go on without what is lost takes a decision.
    crash
    start $mode
    stop
    rm -rf "$data"
    mv "$place/damaged" "$data"
    rm -f "$place/backup"
    start $mode # the page is the other log's
    ctl create a.c --location l >/dev/null
    commits 1 3
    crash
    cut_to $(($(size) - 1))
    refused "has lost its newest events (1)"
    rm "$(sed -n 's/.*remove \(.*\.ctl\)$/\1/p' "$place/said")"
    start $mode
    ctl verify --full >/dev/null
    stop
done
