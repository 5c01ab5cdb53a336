#!/bin/bash
# Installs into an empty directory and uses what is there as a user would: pkg-config, the README's program, C99, C++.
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
make --no-print-directory B="$build" PREFIX="$root/usr" install >/dev/null

# The unit starts what was installed, from the configuration that was; a second `make install` leaves that alone; DESTDIR comes
# before all of it and is in none of it.
unit=$root/usr/lib/systemd/system/skaded.service conf=$root/usr/etc/skade/skaded.conf
grep -qx "ExecStart=$root/usr/bin/skaded --config $conf" "$unit" || { echo "the unit starts something else"; exit 1; }
grep -qx "RuntimeDirectoryPreserve=yes" "$unit" || { echo "the unit removes the way to the maps"; exit 1; }
grep -q "^u skade " "$root/usr/lib/sysusers.d/skade.conf" || { echo "the user isn't installed"; exit 1; }
"$root/usr/bin/skaded" --config "$conf" --check-config >/dev/null
echo "read = *" >>"$conf"
make --no-print-directory B="$build" PREFIX="$root/usr" install >/dev/null
[ "$(tail -1 "$conf")" = "read = *" ] || { echo "a second install overwrote the configuration"; exit 1; }
make --no-print-directory B="$build" PREFIX=/usr DESTDIR="$root/package" install >/dev/null
grep -qx "ExecStart=/usr/bin/skaded --config /etc/skade/skaded.conf" "$root/package/usr/lib/systemd/system/skaded.service" &&
    [ -e "$root/package/etc/skade/skaded.conf" ] || { echo "DESTDIR isn't right"; exit 1; }

export PKG_CONFIG_PATH=$root/usr/lib/pkgconfig
flags="$(pkg-config --cflags --libs libskadeclient) -Wl,-rpath,$root/usr/lib"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$root/first.c"
[ -s "$root/first.c" ] || { echo "README.md has no first program"; exit 1; }
gcc -std=c99 -pedantic -Wall -Wextra -Werror "$root/first.c" $flags -o "$root/first"
gcc -std=c99 -Wall -Wextra -Werror "$root/first.c" -I"$root/usr/include" "$root/usr/lib/libskadeclient.a" $(pkg-config --libs libzstd) -o "$root/first-static"
printf '#include <skade.h>\nint main() { struct skade_answer a = SKADE_ANSWER(0, 0); return a.size == 0; }\n' >"$root/first.cc"
g++ -Wall -Wextra -Werror "$root/first.cc" $flags -o "$root/first-cc" && "$root/first-cc"
symbols=$(nm -D --defined-only "$root/usr/lib/libskadeclient.so" | awk '{ print $3 }' | grep -vE '^(skade_|SKADE_)' || true)
[ -z "$symbols" ] || { echo "the shared library exports more than skade_*: $symbols"; exit 1; }
symbols=$(nm -g --defined-only "$root/usr/lib/libskadeclient.a" | awk 'NF == 3 { print $3 }' | grep -vE '^skade_' || true)
[ -z "$symbols" ] || { echo "the archive exports more than skade_*: $symbols"; exit 1; }

export SKADE_RUN_DIR=$root/run SKADE_INSTANCE=install-$$
exec 9< <(exec "$root/usr/bin/skaded" --instance "$SKADE_INSTANCE" --run-dir "$root/run" --data-dir "$root/data" 2>"$root/log")
daemon=$!
trap 'kill $daemon 2>/dev/null || true; rm -rf "$root"; rm -f /dev/shm/skade.*."$SKADE_INSTANCE".v1.*' EXIT
read -r _ <&9
"$root/usr/bin/skadectl" create shop.orders --location s3://lake/orders >/dev/null
"$root/usr/bin/skadectl" commit shop.orders s3://lake/orders/v1.json --snapshot 7 >/dev/null
for program in first first-static; do
    got=$("$root/$program")
    [ "$got" = "s3://lake/orders/v1.json is snapshot 7" ] || { echo "$program printed '$got'"; exit 1; }
done
kill "$daemon"
wait "$daemon" || true
echo "installed files build and run"
