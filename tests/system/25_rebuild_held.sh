# A rebuild that doesn't come to an end holds up nobody: a thousand commits, hits, misses, heads, renames and drops
# complete meanwhile, and the answers are the same before, during and after it.
. "$(dirname "$0")/lib.sh"

everything() {
    ctl tables
    ctl history lake.t00000
    ctl history lake.t00003 --limit 50
    SKADE_SHM=no ctl history lake.t00003 --limit 50
}

start --rebuild-threshold 100 --rebuild-idle 1h
formula create 5
formula commit 5 0 40
ctl reindex >/dev/null
same "all is indexed" "$(counter commit_seq)" "$(counter covered_seq)"

hold_at rebuild.begin
formula commit 5 40 60
is_held rebuild.begin
keep_held rebuild.begin
everything >"$place/before"
formula verify 5 60
everything | cmp "$place/before" -

covered=$(counter covered_seq)
formula commit 5 60 260
formula verify 5 260
same "nothing was indexed meanwhile" "$covered" "$(counter covered_seq)"

# An event that takes an answer away can't wait for the rebuild: it is published at once.
ctl create shop.orders --location s3://lake/orders >/dev/null
ctl commit shop.orders s3://lake/orders/v1 --snapshot 11 >/dev/null
asker other
answers other "1 6" find shop.orders
answers other "1 s3://lake/orders/v1" resolve 6 11
ctl rename shop.orders shop.sales >/dev/null
answers other 0 find shop.orders
answers other "1 6" find shop.sales
ctl drop shop.sales >/dev/null
answers other ENOTABLE resolve 6 11
formula verify 5 260

everything >"$place/during"
let_kept_go
ctl reindex >/dev/null
formula verify 5 260
everything | cmp "$place/during" -
same "all is indexed again" "$(counter commit_seq)" "$(counter covered_seq)"
stop
