# Appenders, scanners, getters, a compactor and a collector on one table, as fast as they can: no error, no missing row, no
# two commits mixed, no deadlock; a killed reader's lease goes with it.  SKADE_STRESS: for a minute.
. "$(dirname "$0")/lib.sh"

seconds=3
[ -z "${SKADE_STRESS:-}" ] || seconds=60

# crowd SCANNERS
crowd() {
    stress 180 crowd_tables "$seconds" 20 "$1" -- "${options[@]}" --gc-grace 1h --compact-threads 2 --rebuild-threshold 100 \
        --rebuild-idle 20ms --parts-max 3 2>>"$place/skaded.log" || fail "the crowd met an error, or didn't end"
    rm -rf "$data"
}

echo "- writers as fast as they can, beside compactions without a pause"
crowd 1
echo "- among many readers"
crowd 8
