#!/bin/sh
# Rewrites the generated parts of docs/ and conf/ from the code; with --check says what is stale instead and fails.
#
#   <!-- table NAME -->  ... <!-- end -->    what build's docs/tables prints for NAME
#   <!-- block NAME -->  ... <!-- end -->    the block [doc:NAME] ... [end] of shared/format*.h or shared/wire.h
#
# usage: docs/refresh.sh [--check] BUILD-DIR
set -eu
check=
[ "$1" = --check ] && { check=1; shift; }
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
stale=0

block() { # from the first source that has it, without the markers' lines
    awk -v want="[doc:$1]" '
        index($0, want) { on = 1; sub(/^\/\* \[doc:[a-z_0-9]*\] */, "/* "); if ($0 ~ /^\/\* *\*\/$/) next; print; next }
        on && /^\/\* \[end\] \*\// { exit }
        on { print }' shared/format.h shared/format_part.h shared/format_tail.h shared/format_entry.h shared/format_index.h shared/wire.h
}

put() { # FILE NEW: take NEW over, or say that FILE is stale
    cmp -s "$1" "$2" && return 0
    if [ -n "$check" ]; then
        echo "$1 is stale: run make docs"
        stale=1
    else
        cp "$2" "$1"
        echo "$1 rewritten"
    fi
}

for doc in docs/*.md; do
    out=$tmp/$(basename "$doc")
    skip=
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        '<!-- table '*' -->')
            name=${line#'<!-- table '}; name=${name%' -->'}; skip=1
            printf '%s\n' "$line"; "$build/docs/tables" "$name" ;;
        '<!-- block '*' -->')
            name=${line#'<!-- block '}; name=${name%' -->'}; skip=1
            printf '%s\n```c\n' "$line"; block "$name"; printf '```\n' ;;
        '<!-- end -->') skip=; printf '%s\n' "$line" ;;
        *) [ -n "$skip" ] || printf '%s\n' "$line" ;;
        esac
    done <"$doc" >"$out"
    put "$doc" "$out"
done

for page in skadectl.1 skaded.conf.5; do
    "$build/docs/tables" $page >"$tmp/$page"
    put docs/man/$page "$tmp/$page"
done
"$build/skaded" --print-config --data-dir=/var/lib/skade --run-dir=/run/skade >"$tmp/skaded.conf"
put conf/skaded.conf "$tmp/skaded.conf"
exit $stale
