#!/bin/bash
# Runs the Check suites and the system tests of build directory $1, some at a time, and ends with the count.
#
#   tests/run.sh BUILD [--system-only] [NAME]     NAME: only system tests whose file name contains it
#
# A system test is a script of its own: exit 0 passed, 77 skipped (it prints why), anything else failed.
# A test of the suites that can't run here prints one line `skipped: WHY` and passes as far as Check knows.
set -u
build=$(realpath "$1")
shift
system_only=
[ "${1:-}" = --system-only ] && { system_only=1; shift; }
only=${1:-}
here=$(dirname "$(realpath "$0")")
passed=0 failed=0 skipped=0

# run_one SCRIPT RESULT: what came of it, in words, to RESULT; its first word counts.
run_one() {
    local name log status began took
    name=$(basename "$1" .sh)
    log=$2.log
    began=$(date +%s)
    B=$build timeout -k 10 "${SKADE_TEST_TIMEOUT:-900}" bash "$1" >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    case $status in
    0) echo "ok       $name ($took s)" ;;
    77) echo "skipped  $name: $(tail -1 "$log")" ;;
    *) echo "FAILED   $name (status $status, $took s)"; sed 's/^/         | /' "$log" | tail -60 ;;
    esac >"$2"
    rm -f "$log"
    cat "$2"
}

# Several at a time: they wait for disks and for each other's processes more than they compute.
jobs=${SKADE_TEST_JOBS:-$(($(nproc) + 1))}
results=$(mktemp -d)
suites=$(mktemp)
running=0
if [ -z "$system_only" ]; then # the suites are one of the jobs
    { "$build/tests/check" >"$suites" 2>&1; echo "status $?" >>"$suites"; } &
    running=1
fi
for script in "$here"/system/[0-9]*.sh; do
    name=$(basename "$script" .sh)
    [ -z "$only" ] || [[ $name == *$only* ]] || continue
    if [ "$running" -ge "$jobs" ]; then
        wait -n
        running=$((running - 1))
    fi
    run_one "$script" "$results/$name" &
    running=$((running + 1))
done
wait
count() { cat "$results"/* 2>/dev/null | grep -c "^$1 "; }
passed=$((passed + $(count ok)))
skipped=$((skipped + $(count skipped)))
failed=$((failed + $(count FAILED)))
rm -rf "$results"

if [ -z "$system_only" ]; then
    sed '$d' "$suites"
    status=$(sed -n '$s/^status //p' "$suites")
    # Check's own count: "99%: Checks: 184, Failures: 1, Errors: 0"
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$suites" | tail -1)
    unable=$(grep -c '^skipped: ' "$suites")
    checks=$(sed -E 's/.*Checks: ([0-9]+).*/\1/' <<<"$line")
    bad=$(sed -E 's/.*Failures: ([0-9]+), Errors: ([0-9]+).*/\1 + \2/' <<<"$line")
    if [ -z "$line" ]; then
        echo "the suites did not run to their end (status $status)"
        failed=$((failed + 1))
    else
        bad=$((bad))
        [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
        failed=$((failed + bad))
        skipped=$((skipped + unable))
        passed=$((passed + checks - bad - unable))
    fi
fi
rm -f "$suites"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
