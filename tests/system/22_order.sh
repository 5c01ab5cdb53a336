# What was true before a reply is answered by nobody after it; a release is never half visible.  Four processes, each with
# another kind of handle, ask all the time while names, tables and commits come and go.
. "$(dirname "$0")/lib.sh"

count=2000
[ -z "${SKADE_STRESS:-}" ] || count=30000
stress 240 order "$count" -- "${options[@]}" --rebuild-threshold 30 --rebuild-idle 20ms --parts-max 4 2>"$place/skaded.log"
