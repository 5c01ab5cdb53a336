#!/bin/sh
# Do all tests exist, and run, that tests/ACCEPTANCE.md names?  Says which don't, and fails.
set -eu
cd "$(dirname "$0")"
missing=0
for name in $(grep '^|' ACCEPTANCE.md | grep -o '`[0-9a-z_]*`' | tr -d '`' | sort -u); do
    case $name in
    [0-9]*) [ -f "system/$name.sh" ] ;;
    *) grep -q "START_TEST($name)" */test_*.c && grep -q "tcase_add_[a-z_]*test([a-z]*, $name[,)]" */test_*.c ;;
    esac || { echo "tests/ACCEPTANCE.md names $name, which no test is called"; missing=1; }
done
numbers=$(grep -o '^| [0-9]* |' ACCEPTANCE.md | tr -dc '0-9\n' | xargs)
[ "$numbers" = "$(seq 39 | xargs)" ] || { echo "tests/ACCEPTANCE.md: the numbers aren't 1 to 39"; missing=1; }
exit $missing
