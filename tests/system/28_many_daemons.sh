# Twenty daemons at once on one instance: one wins, the others say who, and nothing of the winner's is touched.
. "$(dirname "$0")/lib.sh"

# what_is_there: every name with its inode, so that a replaced file shows.
what_is_there() { (cd "$shm" && stat -c '%n %i %s %a' skade.*.ctl skade.*.lock) && stat -c '%n %i' "$run/default.sock"; }

crowd() {
    local i pids=() ended=0 status gone
    rm -f "$place"/out.* "$place"/err.*
    for i in $(seq 20); do
        skaded "${options[@]}" >"$place/out.$i" 2>"$place/err.$i" &
        pids+=($!)
    done
    while [ $ended -lt "$1" ]; do
        status=0
        wait -n -p gone "${pids[@]}" || status=$?
        for i in "${!pids[@]}"; do [ "${pids[$i]}" != "$gone" ] || unset "pids[$i]"; done
        [ $status = 3 ] || fail "a daemon that came too late ended with $status: $(cat "$place"/err.*)"
        ended=$((ended + 1))
    done
    if [ "$1" = 19 ]; then
        [ ${#pids[@]} = 1 ] || fail "${#pids[@]} daemons run"
        daemon=${pids[*]}
        until_true grep -q "skaded: ready" "$place"/out.*
    fi
    same "how many said that they are ready" $((20 - $1)) "$(cat "$place"/out.* | grep -c "skaded: ready" || true)"
    grep -lq "$daemon" "$place"/err.* || fail "nobody names the holder, $daemon: $(cat "$place"/err.*)"
}

for round in 1 2 3; do
    crowd 19
    formula create 3 2>/dev/null || true
    formula commit 3 $((round * 10 - 10)) $((round * 10))
    what_is_there >"$place/before"
    crowd 20
    what_is_there | cmp "$place/before" -
    formula verify 3 $((round * 10))
    crash
done

# The same log by two instances; the same instance with other directories.
start
mkdir -p "$place/up"
ln -s "$data" "$place/up/second"
expect 3 skaded --instance second --data-dir "$place/up" --run-dir "$place/run2" --shm-dir "$shm" 2>"$place/err"
expect 3 skaded --run-dir "$place/run3" --data-dir "$place/data3" --shm-dir "$shm" 2>"$place/err"
grep -q "$daemon" "$place/err" || fail "the holder isn't named: $(cat "$place/err")"
formula verify 3 30
stop
