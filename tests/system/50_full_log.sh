# The log has no room: said once for an episode, not for each group; and what the write-ahead file took is room, too.
. "$(dirname "$0")/lib.sh"

said() { grep -c "$1" "$place/skaded.log" || true; }
commit() { skadectl --timeout 60 commit shop.orders s3://lake/orders/v$1 --snapshot $1; }

start
ctl create shop.orders --location s3://lake/orders >/dev/null

# Groups one after the other, each of which is refused.
groups=0
for episode in 1 2 3; do
    fail_at log.insert "fail 28"
    for n in 1 2 3 4 5; do
        expect 1 commit 99 >/dev/null 2>"$place/err"
        grep -q "no room" "$place/err" || fail "the message doesn't say why: $(cat "$place/err")"
    done
    groups=$((groups + 5))
    same "groups refused" $groups "$(counter log_full)"
    same "episodes begun" $episode "$(said "commits are refused")"
    fail_no_more log.insert
    for n in 1 2 3; do commit $((episode * 10 + n)) >/dev/null; done
    same "episodes over" $episode "$(said "commits are taken again")"
done

# The write-ahead file took the last room: folding it into the database gives it back, and nobody is refused.
fail_at log.insert "fail 28"
hold_at log.checkpoint
commit 50 >"$place/seq" & waiting=$!
timeout 60 cat "$points/log.checkpoint" || fail "the checkpoint was not tried"
fail_no_more log.insert # now there is room
let_go log.checkpoint
wait $waiting || fail "a commit was refused though the checkpoint made room"
same "groups refused" $groups "$(counter log_full)"
same "episodes" 3 "$(said "commits are refused")"
same "head" s3://lake/orders/v50 "$(ctl head shop.orders | cut -f5)"

# There was no room for the checkpoint either: refused, nothing lost, and on it goes by itself.
fail_at log.insert "fail 28"
fail_at log.checkpoint "fail 28"
expect 1 commit 99 >/dev/null 2>"$place/err"
grep -q "no room" "$place/err" || fail "the message doesn't say why: $(cat "$place/err")"
fail_no_more log.insert
fail_no_more log.checkpoint
commit 51 >/dev/null
crash
start
same "commits" 11 "$(ctl history shop.orders | grep -c "	commit	")"
stop
skaded --data-dir "$data" --check-log >/dev/null
