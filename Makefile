# SPDX-License-Identifier: MIT OR Apache-2.0
# What Consort's users run first. Each target installs and fetches what it needs (tools/setup --help).
#
#   make demo    plays real video under the stock scheduler and under Consort, and compares them
#                HOST=user: on this machine's own kernel, the players cooperating among themselves
#                CPUS=4: forty players on four CPUs, in a guest or on a machine that has as many
#   make test    runs every test, those in guests with both kernels included; make -k test goes on after failures
#   make bench   measures what docs/results holds, and judges it by its targets
#   make lint    checks formatting and style, in every language; tools/lint --fix mends what can be mended
#   make build   builds the consort command, static, and the player consort-play; prints where they are
#   make install    installs all of it: PREFIX=/usr/local, DESTDIR, SYSCONFDIR=/etc; make uninstall removes it
#   make package    makes .deb files, in target/packages
#   make desktop    builds the player with a window, from the system's FFmpeg
#   make clean   removes what was built here; what was fetched stays in ~/.cache/consort

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# Where rustup puts Rust, which not every login has on its path.
export PATH := $(PATH):$(HOME)/.cargo/bin

demo: build
	demo/run $(if $(HOST),--host $(HOST)) $(if $(CPUS),--cpus $(CPUS)) --consort $(CARGO_TARGET_DIR)/guest/consort

test: test-crates test-apps test-bench test-side-by-side test-sequences test-system

# Both want one CPU each.
test-side-by-side: build
	$(MAKE) --jobs 2 test-guest test-package

test-crates: setup
	cargo test --workspace --no-fail-fast

test-apps: build pipeline-window
	apps/play/test
	apps/pipeline/test
	apps/gstreamer/test
	client/python/test $(CARGO_TARGET_DIR)/library/small/libconsort.so

test-bench:
	python3 -m unittest discover -s bench/tests

test-guest: setup
	vm/boot-test

# The simulator's model of the kernel against recordings of it.
test-sequences: build
	CONSORT_COMMAND=$(CARGO_TARGET_DIR)/guest/consort sim/validation/compare

# Packages, installed and purged in a small Debian; the first time that is fetched, which needs root.
test-package: build
	packaging/test

test-system: build
	CONSORT_COMMAND=$(CARGO_TARGET_DIR)/guest/consort tests/run

bench: build
	bench/run

lint: setup
	tools/lint

build: setup
	cli/build-static
	$(MAKE) -C client library
	$(MAKE) -C apps/play static CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a
	$(MAKE) -C apps/pipeline static CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a
	$(MAKE) -C apps/gstreamer CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a

# What is built already is not built by root.
install:
	packaging/install

uninstall:
	packaging/install --uninstall

package: build
	packaging/package

desktop:
	$(MAKE) -C client library
	$(MAKE) -C apps/play desktop CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a
	$(MAKE) -C apps/pipeline desktop CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a

# The bench's guests have a display server.
pipeline-window:
	$(MAKE) -C client library
	$(MAKE) -C apps/pipeline window CONSORT_LIB=$(CARGO_TARGET_DIR)/library/small/libconsort.a

setup:
	tools/setup

clean:
	cargo clean
	$(MAKE) -C apps/play clean
	$(MAKE) -C apps/pipeline clean
	$(MAKE) -C apps/gstreamer clean

.DEFAULT_GOAL := build
export PREFIX DESTDIR SYSCONFDIR LIBDIR

.PHONY: demo test test-side-by-side test-crates test-apps test-bench test-guest test-sequences test-system test-package bench lint build install uninstall package desktop setup clean
