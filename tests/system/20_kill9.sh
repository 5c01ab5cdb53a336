# kill -9 of the daemon under load, again and again: nothing acknowledged is lost or made twice, no answer is wrong.
. "$(dirname "$0")/lib.sh"

cycles=50
[ -z "${SKADE_STRESS:-}" ] || cycles=1000
stress 400 kill9 "$cycles" -- "${options[@]}" --rebuild-threshold 20 --rebuild-idle 5ms --parts-max 4 2>"$place/skaded.log"
