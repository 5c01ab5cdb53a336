# README.md word by word: what it tells a newcomer to type does what it says, one line after the other, and leaves nothing.
. "$(dirname "$0")/lib.sh"

root=$(realpath "$here/../..")
[ -e "$B/include/skade.h" ] || skip "needs the headers beside the programs"
! nm "$B/skaded" | grep -qE '__(asan|ubsan|tsan)_' || skip "a program for a sanitized library isn't the README's"

# The README builds in a folder of its own and calls that build/gcc; here it is the build that is tested.
home=$place/clone
mkdir -p "$home/build"
ln -s "$(realpath "$B")" "$home/build/gcc"
ln -s "$root/tests" "$home/tests"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$root/README.md" >"$home/first.c"

# Lines of four blanks below the two headings; an instance of its own, since its files are in the machine's /dev/shm.
awk '/^## / { on = $0 == "## A first lookup" || $0 == "## A table of rows" }
     /^```/ { code = !code }
     on && !code && /^    / { print substr($0, 5) }' "$root/README.md" |
    sed -e '/^make all/d' -e "s/\(INSTANCE=\|instance=\|)\.\)try/\1try$$/g" >"$place/typed"
grep -q '^kill %1' "$place/typed" || fail "the README doesn't end its daemon: $(cat "$place/typed")"

unset SKADE_RUN_DIR
sed -i "1i trap 'kill \$(jobs -p) 2>/dev/null && wait; rm -f /dev/shm/skade.*.try$$.*' EXIT" "$place/typed" # after a line that failed
(cd "$home" && timeout 60 bash -e "$place/typed") >"$place/said" 2>"$place/skaded.log" || fail "a line failed: $(cat "$place/said")"
grep -q ' is snapshot 3952538589859224730$' "$place/said" || fail "the first program said nothing: $(cat "$place/said")"
grep -q '{"key":"bob","value":"/item/2"}' "$place/said" || fail "no rows: $(cat "$place/said")"
left=$(ls "$home" | tr '\n' ' ')
[ "$left" = "build tests " ] || fail "it left $left"
! ls /dev/shm | grep "\.try$$\." || fail "it left shared memory"
