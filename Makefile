# skade: one file, no recursion.  `make help` lists the targets.
#
#   make demo      see it work          make check     build everything and run all tests
#
# Variables: CC=gcc|clang  SAN=address|undefined|thread  FAIL=1 (fail points compiled in)  V=1 (show commands)

VERSION := 0.1.0
SOVER   := 0
CC      ?= cc
ifeq ($(origin CC),default)
CC      := gcc
endif
V       ?= 0
Q       := $(if $(filter 1,$V),,@)
CCNAME  := $(notdir $(firstword $(CC)))
B       ?= build/$(CCNAME)$(if $(SAN),-$(SAN))$(if $(FAIL),-fail)

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d

# Every Debian package that building and testing needs, with the reason in README.md.
PACKAGES := gcc make pkg-config libuv1-dev libsqlite3-dev libzstd-dev zlib1g-dev libxxhash-dev \
            libyajl-dev libinih-dev check libsubunit-dev strace
PACKAGES_BENCH := liblmdb-dev
PACKAGES_COVERAGE := lcov
PACKAGES_LINT  := clang clang-format clang-tidy libclang-rt-14-dev valgrind

WERROR ?= -Werror
CFLAGS ?= -O2 -g
WARN   := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-align \
          -Wwrite-strings -Wvla -Wundef $(WERROR)
ALL_CPPFLAGS = -D_GNU_SOURCE -DSKADE_VERSION='"$(VERSION)"' $(if $(FAIL),-DSKADE_FAILPOINTS) $(CPPFLAGS)
ALL_CFLAGS   = -std=c11 $(WARN) -fvisibility=hidden -fPIC -fno-omit-frame-pointer -pthread \
               $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(CFLAGS)
ALL_LDFLAGS  = -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
pkg_cflags   = $(shell pkg-config --cflags $(1) 2>/dev/null)
pkg_libs     = $(shell pkg-config --libs $(1) 2>/dev/null)

# ---- sources: the folder listing is the list ----------------------------------------------------------------
SHARED_SRC := $(wildcard shared/*.c)
CLIENT_SRC := $(wildcard libclient/*.c)
DAEMON_SRC := $(wildcard daemon/*.c)
TOOLS_SRC  := $(wildcard tools/*.c)
TESTS_SRC  := $(wildcard tests/*.c tests/support/*.c tests/shared/*.c tests/daemon/*.c tests/libclient/*.c tests/tools/*.c)
STRESS_SRC := $(wildcard tests/stress/*.c)
BENCH_SRC  := $(wildcard tests/bench/*.c)
FUZZ_SRC   := $(wildcard tests/fuzz/fuzz_*.c)
SYSTEM_SH  := $(sort $(wildcard tests/system/[0-9]*.sh))

obj = $(patsubst %.c,$B/%.o,$(1))
SHARED := $(call obj,$(SHARED_SRC))
CLIENT := $(call obj,$(CLIENT_SRC))
DAEMON := $(call obj,$(DAEMON_SRC))
TOOLS  := $(call obj,$(TOOLS_SRC))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

# ---- the include path is the architecture: what a folder may see is what it may depend on -----------------------
PUBLIC := $B/include/skade.h $B/include/skade_errors.h
$B/shared/%.o:    INC := -Ishared $(call pkg_cflags,libzstd)
$B/libclient/%.o: INC := -Ishared -Ilibclient
$B/daemon/%.o:    INC := -Ishared -Idaemon $(call pkg_cflags,libuv sqlite3)
$B/tools/%.o:     INC := -I$B/include -Itools $(call pkg_cflags,yajl libzstd zlib)
$B/tests/%.o:     INC := -Itests -Itests/support -Ishared -Ilibclient -Idaemon -Itools \
                         $(call pkg_cflags,libuv sqlite3 check yajl libzstd zlib)
$B/shared/part_avx2.o:   ARCH := -mavx2 -mbmi -mbmi2 -mpopcnt
$B/shared/part_avx512.o: ARCH := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mbmi -mbmi2 -mpopcnt

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_CPPFLAGS) $(INC) $(ALL_CFLAGS) $(ARCH) -MMD -MP -c $< -o $@

$(TOOLS): | $(PUBLIC)
$B/include/%.h: libclient/%.h
	@mkdir -p $(@D)
	$Qcp $< $@
$B/include/skade_errors.h: shared/skade_errors.h
	@mkdir -p $(@D)
	$Qcp $< $@

LIBS_CLIENT := $(call pkg_libs,libzstd)
LIBS_DAEMON := $(call pkg_libs,libuv sqlite3 libzstd inih)
LIBS_TOOLS  := $(call pkg_libs,yajl libzstd zlib)
LIBS_TESTS  := $(call pkg_libs,libuv sqlite3 libzstd zlib yajl inih check) -lrt -lm

# ---- products ----------------------------------------------------------------------------------------------
SO := $B/libskadeclient.so
$(SO).$(SOVER): $(CLIENT) $(SHARED) libclient/libskadeclient.map
	$Q$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libskadeclient.so.$(SOVER) $(if $(SAN),,-Wl,-z,defs) -Wl,-z,nodelete \
	    -Wl,--version-script=libclient/libskadeclient.map $(CLIENT) $(SHARED) $(LIBS_CLIENT) -o $@
	$Qln -sf $(@F) $(SO)

# One relocatable object with its internal names made local: a program that links the archive sees skade_* only.
$B/libskadeclient.a: $(CLIENT) $(SHARED)
	$Q$(LD) -r -o $B/libskadeclient.o $^
	$Qobjcopy --localize-hidden $B/libskadeclient.o
	@rm -f $@
	$Q$(AR) rcs $@ $B/libskadeclient.o

$B/skaded: $(DAEMON) $(SHARED)
	$Q$(CC) $(ALL_LDFLAGS) $^ $(LIBS_DAEMON) -o $@

$B/skadectl: $(TOOLS) $(SO).$(SOVER)
	$Q$(CC) $(ALL_LDFLAGS) $(TOOLS) -L$B -lskadeclient -Wl,-rpath,'$$ORIGIN' $(LIBS_TOOLS) -o $@

PRODUCTS := $(SO).$(SOVER) $B/libskadeclient.a $B/skaded $B/skadectl

all: need-build $(PRODUCTS) ## build the daemon, the client library and skadectl into build/

# ---- packages ----------------------------------------------------------------------------------------------
# With apt and root: install what is missing.  Otherwise say what is missing and stop.
define ensure
	@missing=; for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
	    echo "installing:$$missing"; \
	    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing) >build-deps.log 2>&1 \
	        && rm -f build-deps.log || { tail -5 build-deps.log; echo "could not install:$$missing"; exit 1; }; \
	elif command -v dpkg >/dev/null 2>&1; then \
	    echo "missing packages:$$missing"; echo "install them as root:  apt-get install$$missing"; exit 1; \
	else \
	    echo "skade needs these libraries and tools (Debian names):$$missing"; \
	fi
endef

deps: ## install the packages that building and testing needs (Debian, root)
	$(call ensure,$(PACKAGES))
deps-bench:
	$(call ensure,$(PACKAGES) $(PACKAGES_BENCH))
deps-lint:
	$(call ensure,$(PACKAGES) $(PACKAGES_LINT))
need-build:
	@for m in libuv sqlite3 libzstd zlib libxxhash yajl inih check; do \
	    pkg-config --exists $$m 2>/dev/null || { echo "$$m is missing: run 'make deps' as root, or install: $(PACKAGES)"; exit 1; }; done
# pkg-config answers are read while the Makefile is parsed, so what deps installs is seen by a second make only.

# ---- tests -------------------------------------------------------------------------------------------------
# The suites link everything but main(); the daemon's objects have fail points (FAIL=1), so tests run a FAIL build.
TESTBIN := $B/tests/check
DAEMON_LIB := $(filter-out $B/daemon/main.o,$(DAEMON))
TOOLS_LIB  := $(filter-out $B/tools/skadectl.o,$(TOOLS))
$(TESTBIN): $(call obj,$(TESTS_SRC)) $(DAEMON_LIB) $(TOOLS_LIB) $(CLIENT) $(SHARED)
	$Q$(CC) $(ALL_LDFLAGS) $^ $(LIBS_TESTS) -o $@
$(call obj,$(TESTS_SRC)): | $(PUBLIC)

$B/stress/%: $B/tests/stress/%.o $B/libskadeclient.a
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_LDFLAGS) $(filter %.o,$^) $B/libskadeclient.a $(LIBS_CLIENT) -o $@
$B/stress/sandbox: $B/tests/support/deny.o
$B/stress/peer $B/stress/rows_peer: $(SHARED)
STRESS := $(patsubst tests/stress/%.c,$B/stress/%,$(STRESS_SRC))

$B/demo/load: $B/tests/demo/load.o $(SO).$(SOVER)
	@mkdir -p $(@D)
	$Q$(CC) $(ALL_LDFLAGS) $< -L$B -lskadeclient -Wl,-rpath,'$$ORIGIN/..' -o $@
$B/tests/demo/load.o: | $(PUBLIC)

demo: ## see it work: install what is needed, build, import, look up, commit, kill, and clean up
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory demo-run
demo-run: all $B/demo/load
	@tests/demo/demo.sh $B

check: ## install what is needed, build, run all tests
	@$(MAKE) --no-print-directory deps
	@$(MAKE) --no-print-directory all docs-check
	@$(MAKE) --no-print-directory FAIL=1 check-run

check-run: $(PRODUCTS) $(TESTBIN) $(STRESS)
	@tests/run.sh $B

check-unit: $(PRODUCTS) $(TESTBIN) ## the Check suites alone (T=name for those whose name contains it)
	@tests/run.sh $B --suites-only $(T)

check-system: ## the system tests alone (T=name for one)
	@$(MAKE) --no-print-directory FAIL=1 check-system-run
check-system-run: $(PRODUCTS) $(STRESS)
	@tests/run.sh $B --system-only $(T)

stress: ## everything at length: 1000 kill -9 cycles, 100,000 commits, a crowd for a minute (SAN=address: under it)
	@$(MAKE) --no-print-directory FAIL=1 stress-run
stress-run: $(PRODUCTS) $(STRESS) $(TESTBIN)
	@SKADE_STRESS=1 SKADE_TEST_TIMEOUT=7200 CK_TIMEOUT_MULTIPLIER=20 tests/run.sh $B $(T)

asan: ## Check suites and system tests under AddressSanitizer
	@$(MAKE) --no-print-directory FAIL=1 SAN=address check-run
ubsan: ## the same under UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory FAIL=1 SAN=undefined check-run
tsan: ## the Check suites under ThreadSanitizer
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp $$TSAN_OPTIONS" $(MAKE) --no-print-directory FAIL=1 SAN=thread check-unit

include tests/bench/bench.mk

# ---- documentation -------------------------------------------------------------------------------------------
$B/docs/%.o: INC := -Ishared -Itools -Idaemon
$B/docs/tables: $B/docs/tables.o $(SHARED)
	$Q$(CC) $(ALL_LDFLAGS) $^ $(LIBS_CLIENT) -o $@

docs: $B/docs/tables $B/skaded ## rewrite the generated parts of docs/ and conf/
	@docs/refresh.sh $B
docs-check: $B/docs/tables $B/skaded
	@docs/refresh.sh --check $B
	@tests/acceptance.sh

# ---- fuzzing: clang's libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer ---------------------------------
FUZZ_TIME ?= 60
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SRC))
FUZZ_LIB := $(SHARED) $(CLIENT) $(TOOLS_LIB) $B/daemon/config.o
$B/fuzz/%: $B/tests/fuzz/fuzz_%.o $(FUZZ_LIB)
	@mkdir -p $(@D)
	$Q$(CC) -pthread -fsanitize=fuzzer,address,undefined $^ $(LIBS_TOOLS) $(call pkg_libs,inih) -o $@
$B/fuzz/seeds: $B/tests/fuzz/seeds.o $(SHARED)
	@mkdir -p $(@D)
	$Q$(CC) -pthread -fsanitize=address,undefined $^ $(LIBS_CLIENT) -o $@

fuzz: deps-lint ## fuzz each parser for FUZZ_TIME seconds
	@$(MAKE) --no-print-directory CC=clang SAN=fuzzer-no-link,address,undefined B=build/fuzz fuzz-run
fuzz-run: $B/fuzz/seeds $(patsubst %,$B/fuzz/%,$(FUZZ))
	$Q$B/fuzz/seeds $B/corpus
	@for t in $(FUZZ); do mkdir -p $B/corpus/$$t; \
	    $B/fuzz/$$t -max_total_time=$(FUZZ_TIME) -rss_limit_mb=2048 -max_len=65536 -timeout=10 -verbosity=1 \
	        -print_final_stats=1 -artifact_prefix=$B/ $B/corpus/$$t >$B/$$t.log 2>&1 || { tail -40 $B/$$t.log; exit 1; }; \
	    echo "$$t: $$(sed -n 's/^stat::number_of_executed_units: *//p' $B/$$t.log) inputs in $(FUZZ_TIME) s, nothing found"; done

# ---- style -----------------------------------------------------------------------------------------------------------
C_FILES := $(wildcard shared/*.[ch] daemon/*.[ch] libclient/*.[ch] tools/*.[ch] docs/*.c tests/*.[ch] tests/*/*.[ch])
format: deps-lint ## clang-format all sources
	$Qclang-format -i $(C_FILES)
lint: deps-lint $(PUBLIC) ## clang-format and clang-tidy must have nothing to say
	$Qclang-format --dry-run -Werror $(C_FILES)
	$Qtests/acceptance.sh
	$Qprintf '%s\n' $(SHARED_SRC) $(CLIENT_SRC) $(DAEMON_SRC) $(TOOLS_SRC) | grep -v part_avx | xargs -P 2 -n 1 sh -c \
	    'clang-tidy --quiet "$$@" -- -std=c11 -D_GNU_SOURCE -DSKADE_FAILPOINTS -DSKADE_VERSION=\"lint\" -Ishared -Ilibclient -Idaemon -Itools -I$B/include 2>/dev/null' sh

# ---- coverage ---------------------------------------------------------------------------------------------------------
deps-coverage:
	$(call ensure,$(PACKAGES) $(PACKAGES_COVERAGE))
coverage: deps-coverage ## lines and branches that the suites reach
	@$(MAKE) --no-print-directory B=build/coverage FAIL=1 CFLAGS='-O0 -g --coverage' LDFLAGS=--coverage build/coverage/tests/check
	@build/coverage/tests/check >/dev/null; true
	@lcov --capture --directory build/coverage --output-file build/coverage/all.info --rc lcov_branch_coverage=1 -q && \
	 lcov --extract build/coverage/all.info '*/shared/*' '*/daemon/*' '*/libclient/*' '*/tools/*' -o build/coverage/skade.info --rc lcov_branch_coverage=1 -q && \
	 lcov --list build/coverage/skade.info --rc lcov_branch_coverage=1

# ---- installing -------------------------------------------------------------------------------------------------------
install: all ## install below DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(PREFIX)/share/skade \
	    $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man3 $(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(MANDIR)/man8 \
	    $(DESTDIR)$(SYSCONFDIR)/skade $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSUSERSDIR)
	install -m 755 $B/skaded $(DESTDIR)$(PREFIX)/bin/
	$Q$(CC) $(ALL_LDFLAGS) $(TOOLS) -L$B -lskadeclient -Wl,-rpath,$(LIBDIR) $(LIBS_TOOLS) -o $(DESTDIR)$(PREFIX)/bin/skadectl
	install -m 644 $(PUBLIC) $(DESTDIR)$(INCLUDEDIR)/
	install -m 755 $(SO).$(SOVER) $(DESTDIR)$(LIBDIR)/
	ln -sf libskadeclient.so.$(SOVER) $(DESTDIR)$(LIBDIR)/libskadeclient.so
	install -m 644 $B/libskadeclient.a $(DESTDIR)$(LIBDIR)/
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' \
	    libclient/libskadeclient.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libskadeclient.pc
	install -m 644 conf/skaded.conf $(DESTDIR)$(PREFIX)/share/skade/
	[ -e $(DESTDIR)$(SYSCONFDIR)/skade/skaded.conf ] || install -m 644 conf/skaded.conf $(DESTDIR)$(SYSCONFDIR)/skade/
	sed -e 's|@PREFIX@|$(PREFIX)|; s|@SYSCONFDIR@|$(SYSCONFDIR)|' conf/skaded.service > $(DESTDIR)$(UNITDIR)/skaded.service
	install -m 644 conf/skade.sysusers $(DESTDIR)$(SYSUSERSDIR)/skade.conf
	for m in docs/man/*.[1-8]; do install -m 644 $$m $(DESTDIR)$(MANDIR)/man$${m##*.}/; done

# What is installed is enough to build and run the README's first lookup, with pkg-config, as C99 and as C++.
install-check: all
	@tests/install.sh $B

dist: ## a source archive of HEAD
	@mkdir -p build
	git archive --prefix=skade-$(VERSION)/ -o build/skade-$(VERSION).tar.gz HEAD

.PHONY: fuzz fuzz-run format lint coverage install install-check dist demo demo-run docs docs-check all deps deps-bench deps-lint need-build check check-run check-unit check-system check-system-run stress \
        stress-run asan ubsan tsan clean help

clean: ## remove everything that was built
	rm -rf build build-deps.log

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

-include $(shell find $B -name '*.d' 2>/dev/null)
