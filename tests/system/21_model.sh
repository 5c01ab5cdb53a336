# Thousands of random operations and questions against a small model, to the last field of each answer, through restarts,
# crashes within a change and failing publication.  SKADE_SEED=N repeats a run; SKADE_STRESS runs many seeds.
. "$(dirname "$0")/lib.sh"

seeds=${SKADE_SEED:-$RANDOM}
[ -z "${SKADE_STRESS:-}" ] || seeds=$(seq 1 50)
for seed in $seeds; do
    rm -rf "$data" "$run"
    SKADE_SEED=$seed stress 90 model "${SKADE_STEPS:-1500}" -- "${options[@]}" \
        --rebuild-threshold 15 --rebuild-idle 10ms --parts-max 3 2>>"$place/skaded.log"
done
