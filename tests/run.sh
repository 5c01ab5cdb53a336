#!/bin/bash
# Runs the Check suites and the system tests of build directory $1, some at a time, and ends with the count.
#
#   tests/run.sh BUILD                            all
#   tests/run.sh BUILD --suites-only [NAME]       only suites, only those whose name contains it
#   tests/run.sh BUILD --system-only [NAME]       only system tests, only those whose file name contains it
#
# A system test is a script of its own: exit 0 passed, 77 skipped (it prints why), anything else failed.
# A test of the suites that can't run here prints one line `skipped: WHY` and passes as far as Check knows.
set -u
build=$(realpath "$1")
shift
suites=1 system=1
case ${1:-} in
--suites-only) system= && shift ;;
--system-only) suites= && shift ;;
esac
only=${1:-}
here=$(dirname "$(realpath "$0")")
results=$(mktemp -d) # a file for each job: PASSED FAILED SKIPPED

# came_of RESULT PASSED FAILED SKIPPED WORDS LOG: what came of a job, counted and said; a log is shown when something failed.
came_of() {
    echo "$2 $3 $4" >"$1"
    {
        echo "$5"
        [ "$3" = 0 ] || sed 's/^/         | /' "$6" | tail -60
    } >"$1.said"
    cat "$1.said"
    rm -f "$1.said" "$6"
}

run_system() { # SCRIPT RESULT
    local name log=$2.log status began took
    name=$(basename "$1" .sh)
    began=$(date +%s)
    B=$build timeout -k 10 "${SKADE_TEST_TIMEOUT:-900}" bash "$1" >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    case $status in
    0) came_of "$2" 1 0 0 "ok       $name ($took s)" "$log" ;;
    77) came_of "$2" 0 0 1 "skipped  $name: $(tail -1 "$log")" "$log" ;;
    *) came_of "$2" 0 1 0 "FAILED   $name (status $status, $took s)" "$log" ;;
    esac
}

# Check's own count: "99%: Checks: 184, Failures: 1, Errors: 0"
run_suite() { # NAME RESULT
    local log=$2.log status began took line checks bad unable
    began=$(date +%s)
    "$build/tests/check" "$1" >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    line=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$log" | tail -1)
    if [ -z "$line" ]; then
        came_of "$2" 0 1 0 "FAILED   suite $1 did not run to its end (status $status, $took s)" "$log"
        return
    fi
    checks=$(sed -E 's/.*Checks: ([0-9]+).*/\1/' <<<"$line")
    bad=$(($(sed -E 's/.*Failures: ([0-9]+), Errors: ([0-9]+).*/\1 + \2/' <<<"$line")))
    unable=$(grep -c '^skipped: ' "$log")
    grep -E '^skipped: |:[FE]:' "$log"
    [ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
    if [ "$bad" = 0 ]; then
        came_of "$2" $((checks - unable)) 0 "$unable" "ok       suite $1: $checks tests ($took s)" "$log"
    else
        came_of "$2" $((checks - bad - unable)) "$bad" "$unable" "FAILED   suite $1: $line" "$log"
    fi
}

# Several at a time: they wait for disks and for each other's processes more than they compute.
jobs=${SKADE_TEST_JOBS:-$(($(nproc) + 1))}
running=0
start() { # FUNCTION WHAT RESULT
    if [ "$running" -ge "$jobs" ]; then
        wait -n
        running=$((running - 1))
    fi
    "$1" "$2" "$results/$3" &
    running=$((running + 1))
}

if [ -n "$system" ]; then
    for script in "$here"/system/[0-9]*.sh; do
        name=$(basename "$script" .sh)
        [[ $name == *$only* ]] && start run_system "$script" "$name"
    done
fi
if [ -n "$suites" ]; then
    for name in $("$build/tests/check" --list); do
        [[ $name == *$only* ]] && start run_suite "$name" "suite-$name"
    done
fi
wait
cat "$results"/* 2>/dev/null | awk '{ p += $1; f += $2; s += $3 }
    END { print p + 0 " passed, " f + 0 " failed, " s + 0 " skipped"; exit f + 0 > 0 || p + 0 == 0 }'
status=$?
rm -rf "$results"
exit $status
