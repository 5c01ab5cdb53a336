# One committer costs one wait for the disk per commit and no more; many at a time share it.
. "$(dirname "$0")/lib.sh"

command -v strace >/dev/null || skip "needs strace"
strace -qq -o "$place/out" true 2>/dev/null || skip "strace may not trace here"
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 # it can't look while it is traced

commits=50
# Neither a generation nor a checkpoint comes in between: those wait for the disk on their own account.
start --sync full --rebuild-threshold 1000000 --rebuild-idle 1h
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/0 >/dev/null

# traced COMMAND...: how often the daemon waited for the disk meanwhile.
traced() {
    strace -f -qq -y -e signal=none -e trace=fsync,fdatasync,sync_file_range,msync,sync,syncfs -o "$place/calls" -p "$daemon" 2>"$place/strace" &
    local tracer=$!
    is_traced() { ! grep -q '^TracerPid:[[:space:]]*0$' /proc/"$daemon"/task/*/status; }
    until is_traced; do
        kill -0 $tracer 2>/dev/null || skip "strace can't look at the daemon"
    done
    "$@" >/dev/null
    kill $tracer
    wait $tracer || true
    grep -c 'sync.*(.*= 0' "$place/calls" || true
}

one_by_one() { for n in $(seq $commits); do ctl commit shop.orders "s3://lake/orders/$n"; done; }
groups() { counter groups; }

before=$(groups)
same "waits for the disk of $commits commits" $commits "$(traced one_by_one)"
same "transactions of them" $commits $(($(groups) - before))
grep -v 'skade.db-wal' "$place/calls" | grep 'sync' && fail "a commit waits for another file than the log"

# A release is one commit, however many are in it.
release() { for n in $(seq 500); do echo "{\"table\":\"shop.orders\",\"location\":\"s3://lake/released/$n\"}"; done | ctl release; }
same "waits for the disk of a release" 1 "$(traced release)"

# Reading waits for no disk.
look() { ctl head shop.orders && ctl history shop.orders --limit 50 && ctl tables && ctl resolve shop.orders 1 || true; }
same "waits for the disk of questions" 0 "$(traced look)"
stop
