# make bench: lookups, commits and publication next to SQLite, LMDB and what the machine allows.
# BENCH_N=10000000 adds that many snapshots; docs/PERFORMANCE.md explains what comes out.

LIBS_BENCH := $(call pkg_libs,lmdb sqlite3 libzstd) -lm
BENCH_OBJ  := $(call obj,$(filter-out tests/bench/bench_part.c tests/bench/count_syncs.c,$(BENCH_SRC)))
BENCH_OUT  ?= build/bench

$B/bench/bench: $(BENCH_OBJ) $(SHARED) $(SO).$(SOVER)
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_LDFLAGS) $(BENCH_OBJ) $(SHARED) -L$B -lskadeclient -Wl,-rpath,'$$ORIGIN/..' $(LIBS_BENCH) -o $@

# The index alone, by instruction set, built and merged: finds the constants of part_kernel.h.
$B/bench/bench_part: $B/tests/bench/bench_part.o $(SHARED)
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_LDFLAGS) $^ $(LIBS_CLIENT) -lm -o $@

# What counts the daemon's fsyncs.
$B/bench/count_syncs.so: $B/tests/bench/count_syncs.o
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_LDFLAGS) -shared $^ -ldl -o $@

bench: ## install what is needed, build, measure; build/bench/report.md
	@$(MAKE) --no-print-directory deps-bench
	@$(MAKE) --no-print-directory bench-run
bench-run: $B/bench/bench $B/bench/count_syncs.so $B/skaded
	@mkdir -p $(BENCH_OUT)
	@$B/bench/bench $B/skaded $(BENCH_OUT)

.PHONY: bench bench-run
