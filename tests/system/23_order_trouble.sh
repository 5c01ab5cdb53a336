# The same while publication fails now and then (everybody asks the socket) and the daemon is killed now and then.
. "$(dirname "$0")/lib.sh"

count=500
[ -z "${SKADE_STRESS:-}" ] || count=20000
stress 240 order "$count" trouble -- "${options[@]}" --rebuild-threshold 30 --rebuild-idle 20ms --parts-max 4 2>"$place/skaded.log"
rm -rf "$data" "$run"
stress 240 order $((count * 3 / 5)) trouble kill -- "${options[@]}" --rebuild-threshold 30 --rebuild-idle 20ms --parts-max 4 2>"$place/skaded.log"
