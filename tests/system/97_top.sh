# skadectl top at a terminal: what it shows, sizes, keys, a daemon that goes and comes, and the terminal afterwards.
. "$(dirname "$0")/lib.sh"

# at_terminal ROWS COLUMNS [OPTION...]: skadectl top on a terminal of its own.  person WHAT...: tests/stress/pty.c.
at_terminal() {
    mkfifo "$place/pty.in" "$place/pty.out"
    TERM=xterm LC_ALL=C.UTF-8 "$B/stress/pty" "$1" "$2" skadectl top --interval 0.05 "${@:3}" <"$place/pty.in" >"$place/pty.out" 9<&- &
    terminal=$!
    exec {to}>"$place/pty.in" {from}<"$place/pty.out"
    rm "$place/pty.in" "$place/pty.out"
}
person() {
    local line
    echo "$*" >&"$to"
    read -r -t 120 -u "$from" line || fail "nobody is at the terminal"
    [ "$line" = ok ] || fail "$*: $line $(cat <&"$from")"
}
leave() { # a daemon that was started meanwhile has our pipes, too: that they are closed says nothing
    echo leave >&"$to"
    exec {to}>&- {from}<&-
    wait "$terminal" || fail "the terminal failed"
}

start
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl create shop.größe --location s3://lake/size >/dev/null
for n in 1 2 3; do ctl commit shop.orders s3://lake/orders/$n --snapshot $n >/dev/null; done

echo "- as text, where there is no terminal"
LC_ALL=C expect 0 ctl top --interval 0.05 >"$place/once"
same "lines" 0 "$(awk 'length > 80' "$place/once" | wc -l)"
grep -q '^skade default  alive' "$place/once" || fail "$(cat "$place/once")"
grep -q '^shop.orders .* external  *3 ' "$place/once" || fail "$(cat "$place/once")"
grep -q $'\033' "$place/once" && fail "it has escapes"
LC_ALL=C COLUMNS=40 ctl top --once --interval 0.05 | awk 'length > 40 { exit 1 }' || fail "wider than 40"
expect 2 ctl --json top --once 2>"$place/err"
grep -q 'stats --watch --json' "$place/err" || fail "$(cat "$place/err")"
expect 2 ctl top --interval 0 2>"$place/err"

echo "- a terminal that knows no escapes gets text, too"
(echo "ended 0"; echo leave) | TERM=dumb "$B/stress/pty" 24 80 skadectl top --interval 0.05 9<&- | grep -qx ok || fail "not so"

echo "- stats --watch: the sample in which a counter moved has its rate, and the total"
coproc WATCH { skadectl --json stats --watch 0.05 commits; }
watcher=$WATCH_PID
read -r -u "${WATCH[0]}" line
read -r -u "${WATCH[0]}" line
same "before" '{"name":"commits","value":3,"unit":null,"per_second":0.0}' "${line/null,\"per_second\":null/null,\"per_second\":0.0}"
ctl commit shop.orders s3://lake/orders/4 --snapshot 4 >/dev/null
until [[ $line == *'"value":4'* ]]; do read -r -t 60 -u "${WATCH[0]}" line || fail "the commit isn't seen"; done
[[ $line =~ '"per_second":'([0-9.]+) ]] && [ "${BASH_REMATCH[1]}" != 0.0 ] || fail "it has no rate: $line"
until [[ $line == *'"value":4'*'"per_second":0.0'* ]]; do read -r -t 60 -u "${WATCH[0]}" line || fail "the rate stays"; done
kill "$watcher"
wait "$watcher" || true

echo "- a screen of 80 by 24, and others"
at_terminal 24 80
person await 'skade default  alive'
person await shop.orders
person await shop.größe
person await 'q quit'
person fits
person resize 10 40
person await 'lookups'
person fits
person resize 50 132
person await 'by snapshots'
person await 'REQUESTS/S'
person fits

echo "- keys"
person key t
person await 'by newest commit'
person key t
person await 'by name'
person key c
person await 'by lag'
person key x

echo "- a commit while it looks"
ctl commit shop.orders s3://lake/orders/5 --snapshot 5 >/dev/null
person await '5 in all'

echo "- the daemon dies, and another comes"
crash
person await 'no daemon'
start
person await 'skade default  alive'
person await shop.orders

echo "- stopped from the keyboard, and let go on"
person signal TSTP
person stopped
person signal CONT
person await 'skade default  alive'

echo "- ends: q, Ctrl-C, SIGTERM, SIGHUP"
person key q
person ended 0
leave
for how in "key"$' \003' "signal TERM" "signal HUP"; do
    at_terminal 24 80
    person await 'skade default  alive'
    person "$how"
    case $how in
    *TERM) person ended 143 ;;
    *HUP) person ended 129 ;;
    *) person ended 130 ;;
    esac
    leave
done

echo "- without a daemon from the start"
stop
rm -rf "$run" "$shm"/*
expect 5 ctl top --once >"$place/once"
grep -q 'no daemon' "$place/once" || fail "$(cat "$place/once")"
at_terminal 24 80
person await 'no daemon'
person fits
start
person await 'skade default  alive'
person key q
person ended 0
leave
stop
