# The log goes back under open handles: a backup is restored, or an older copy is put in its place by hand.  Every handle
# and every watch hears of it once, nobody sees the past change without a word, and a crash is never taken for it.
. "$(dirname "$0")/lib.sh"

quick="--rebuild-idle 5ms"
handles="mapped socket stale idle viewer"

open_handles() {
    asker mapped
    asker socket socket
    asker stale stale
    asker idle
    asker viewer socket
    for who in mapped socket stale; do answers $who "$1" resolve 1 3; done
    ask viewer view >/dev/null
}

# Each handle fails once, and says why; a view fails for ever for what its maps don't have, and is no trouble to the next.
all_hear() { # all_hear WHAT-THE-MESSAGE-SAYS ANSWER
    for who in mapped socket stale; do
        answers $who EREPLACED resolve 1 3
        case $(ask $who message) in *"$1"*"look tables up again"*) ;; *) fail "$who says: $(ask $who message)" ;; esac
        answers $who "$2" resolve 1 3
        answers $who 1 counter logs_replaced
    done
    answers idle EREPLACED find a.b
    answers idle "1 1" find a.b
    answers viewer EREPLACED find no.such
    answers viewer EREPLACED find no.such
    ask viewer noview >/dev/null
    answers viewer EREPLACED find a.b
    answers viewer "$2" resolve 1 3
}

close_handles() {
    for who in $handles; do
        kill "${ask_pid[$who]}" # who was started later has its ends of the pipes, too
        wait "${ask_pid[$who]}" || true
    done
}

watch() { skadectl watch --since 0 --json >"$place/watched" 2>"$place/watch-said" & watcher=$!; }
has_seen() { grep -q "\"seq\":\"$1\"" "$place/watched"; }
watch_hears() {
    local status=0
    wait $watcher || status=$?
    same "the watch's end" 1 $status
    grep -q "look tables up again" "$place/watch-said" || fail "the watch said: $(cat "$place/watch-said")"
    same "events that the watch told" "$1" "$(wc -l <"$place/watched")"
}

# ---- a backup is restored ----

start $quick
ctl create a.b --location l >/dev/null
ctl commit a.b v1 --snapshot 1 >/dev/null
ctl backup "$place/backup" >/dev/null
ctl commit a.b v2 --snapshot 2 >/dev/null
ctl commit a.b v3 --snapshot 3 >/dev/null
ctl reindex >/dev/null
open_handles "1 v3"
watch
until_true has_seen 4

# Crashes and restarts are nothing to anybody.
for i in 1 2 3; do
    crash
    start $quick
    for who in mapped socket stale; do
        answers $who "1 v3" resolve 1 3
        answers $who "1 v3" head 1
        answers $who 0 counter logs_replaced
    done
done

# Under another directory a restore disturbs nobody; one that is refused leaves nothing.
ctl restore "$place/backup" --data-dir "$place/elsewhere" >/dev/null
expect 1 ctl restore "$place/backup" --data-dir "$data" 2>"$place/said"
grep -q "stop it first" "$place/said" || fail "said: $(cat "$place/said")"
expect 1 ctl restore "$place/skaded.log" --data-dir "$place/nowhere/at/all" 2>/dev/null
[ ! -e "$place/nowhere" ] || fail "a refused restore left a directory"

stop
mv "$data" "$place/before"
ctl restore "$place/backup" --data-dir "$data" >/dev/null
start $quick
ctl commit a.b other --snapshot 3 >/dev/null # event 3 for the second time
ctl commit a.b other4 --snapshot 4 >/dev/null # as far as the handles had come
all_hear "by a backup" "1 other"
watch_hears 4
close_handles
ctl verify --full >/dev/null

# ---- an older copy, by hand ----

stop
cp -a "$data" "$place/copy"
start $quick
ctl commit a.b later --snapshot 5 >/dev/null
ctl reindex >/dev/null
open_handles "1 other"
answers mapped "1 later" head 1
watch
until_true has_seen 5
stop
rm -rf "$data"
mv "$place/copy" "$data"
# Who did it on purpose removes the page that tells of it.
expect 1 skaded "${options[@]}" 2>"$place/said"
page=$(sed -n 's/.*remove \(.*\.ctl\)$/\1/p' "$place/said")
grep -q "newest events (1)" "$place/said" && [ -e "$page" ] || fail "said: $(cat "$place/said")"
rm "$page"
start $quick
all_hear "went back, from event 5" "1 other"
watch_hears 5
close_handles

# ---- a log of before this was so ----

stop
rm -rf "$data"
mkdir -p "$data"
mkdir -m 700 "$data/log"
cp "$here/../data/golden/v1.used-log" "$data/log/skade.db"
cp "$here/../data/golden/v1.used-log-wal" "$data/log/skade.db-wal"
chmod 600 "$data"/log/*
start $quick
same "its head" "s3://lake/orders/v3" "$(ctl head shop.sales | cut -f5)"
same "the next event" 6 "$(ctl commit shop.sales s3://lake/orders/v4)"
crash
start $quick
ctl verify --full >/dev/null

# What can be looked at without a daemon is.
crash
expect 5 ctl verify >"$place/verified" 2>/dev/null
grep -q "root" "$place/verified" || fail "verify looked at no map: $(cat "$place/verified")"
