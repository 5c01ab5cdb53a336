# Random operations, with questions after each, against a small model, to the last field of each answer, through restarts,
# crashes within a change and failing publication.  SKADE_SEED=N repeats a run; SKADE_STRESS runs many seeds, each
# longer, for which SKADE_TEST_TIMEOUT must be raised.
# Not more than 1500 steps by default: they take 15 to 30 s, most of it restarts and crashes, and each run has another seed.
. "$(dirname "$0")/lib.sh"

seeds=${SKADE_SEED:-$RANDOM}
steps=${SKADE_STEPS:-1500}
[ -z "${SKADE_STRESS:-}" ] || { seeds=$(seq 1 50) steps=${SKADE_STEPS:-5000}; }
for seed in $seeds; do
    rm -rf "$data" "$run"
    SKADE_SEED=$seed stress $((60 + steps / 15)) model "$steps" -- "${options[@]}" \
        --rebuild-threshold 15 --rebuild-idle 10ms --parts-max 3 2>>"$place/skaded.log"
done
