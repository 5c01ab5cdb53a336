# Random operations on stored tables against a small model: every row of every snapshot alive, in every order, through
# compactions, collections, crashes within a change and a failing disk.
# Seeds that three divides have several threads compact.
# SKADE_SEED=N repeats a run; SKADE_STEPS makes it longer; SKADE_STRESS runs many seeds.
. "$(dirname "$0")/lib.sh"

seeds=${SKADE_SEED:-$RANDOM}
[ -z "${SKADE_STRESS:-}" ] || seeds=$(seq 1 40)
for seed in $seeds; do
    rm -rf "$data" "$run"
    more=()
    [ $((seed % 3)) != 0 ] || more=(--compact-threads 3)
    SKADE_SEED=$seed stress 100 tables "${SKADE_STEPS:-1200}" -- "${options[@]}" --gc-grace 1h \
        --rebuild-threshold 50 --rebuild-idle 20ms --parts-max 3 "${more[@]}" 2>>"$place/skaded.log"
done
