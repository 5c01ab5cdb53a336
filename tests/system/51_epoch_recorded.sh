# The log names the newest daemon that could have accepted a commit, before it accepts one: its successor waits when that
# one's control page is nowhere to be found, and only then.  The name is written at the start; on a full disk it can't be,
# and then the first commit writes it before itself.
. "$(dirname "$0")/lib.sh"

waits() { grep -c "control page is gone; commits wait" "$place/skaded.log" || true; }
commit() { skadectl --timeout 60 commit shop.orders "s3://lake/orders/v$1" --snapshot "$1"; }
lose_page() { rm "$shm"/skade.*.ctl; }

# begin_full [CLEAN]: a daemon whose log had no room when it started; the one before it has ended in an orderly way.
begin_full() {
    rm -rf "$data" "$run" "$shm"/skade.* "$place/skaded.log"
    start --rebuild-idle 5ms
    ctl create shop.orders --location s3://lake/orders >/dev/null
    commit 1 >/dev/null
    ctl reindex >/dev/null
    stop
    fail_at log.commit "fail 28"
    start --rebuild-idle 5ms
    fail_no_more log.commit
}

# The first commit names the daemon.  Its page is lost; a reader believes the page as long as the wait lasts, not longer.
begin_full
commit 2 >/dev/null
ctl reindex >/dev/null
asker reader 1000
answers reader "1 s3://lake/orders/v2" head 1
answers reader "1 map" from
kill -STOP "$daemon" # so that the names aren't made anew
lose_page
crash
start --rebuild-idle 5ms
same "waits for the page of who took a commit" 1 "$(waits)"
commit 3 >/dev/null
answers reader "1 s3://lake/orders/v3" head 1
stop

# killed_at N: the first commit's groups come by log.begin: that the log is in use, the name, the commit.  Killed at the Nth.
killed_at() {
    begin_full
    asker reader$1 1000
    answers reader$1 "1 s3://lake/orders/v1" head 1
    fail_at log.begin "count $(($1 - 1)) kill"
    commit 2 >"$place/seq" & sent=$!
    wait_gone "$daemon"
    daemon=
    fail_no_more log.begin
}

# sent_again: the commit whose daemon was killed has been made by this one, once.
sent_again() {
    wait $sent || fail "the commit was not made by the next daemon"
    same "its number" 3 "$(cat "$place/seq")"
    same "commits" 2 "$(ctl history shop.orders | grep -c "	commit	")"
    answers reader$1 "1 s3://lake/orders/v2" head 1
    stop
}

# Named, but its page can be retired: nobody waits.
killed_at 3
start --rebuild-idle 5ms
same "waits for a page that is there" 0 "$(waits)"
sent_again 3

# Named, and its page is lost: it might have accepted a commit.
killed_at 3
lose_page
start --rebuild-idle 5ms
same "waits for the page of who was about to commit" 1 "$(waits)"
sent_again 3

# Killed before it was named.  It can't have accepted anything, and its page can be retired.
killed_at 2
start --rebuild-idle 5ms
same "waits for who wasn't named" 0 "$(waits)"
sent_again 2

# The ordinary start writes the name itself, so that even one that accepts nothing is waited for when its page is lost.
start
kill -STOP "$daemon"
lose_page
crash
start
same "waits after an ordinary start" 1 "$(waits)"
