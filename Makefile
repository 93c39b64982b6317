# The door to everything; '.ci/run' uses the same targets.
#
#   make demo      install what is missing, build, start three servers, say what to try
#   make test      all tests, then the servers' own ones in a short selection (they need packages, and minutes)
#   make fuzz      every decoder against made-up bytes, FUZZ_SECONDS=30 each
#   make compat    MariaDB's own Galera suites (COMPAT="--suite wsrep" for one; takes an hour or more)
#   make bench     commit latency next to Galera's library, on the same servers
#
# Options of the demo:  make demo DEMO="--dir /var/tmp/my-demo" UP="--base-port 23306"

CARGO ?= cargo
DEMO ?=
UP ?=
COMPAT ?=
SYNOD = target/release/synod

.PHONY: demo test unit e2e fuzz compat compat-subset bench build lint licences packages test-packages compat-packages clean

demo: packages build
	$(SYNOD) demo $(DEMO) up $(UP)

build:
	$(CARGO) build --release -p synod-provider -p synod-cli

test: test-packages compat-packages build unit e2e compat-subset

# Groups of real threads wait more than they compute, so more tests run at a time than there are cores; but not so
# many that members take each other for dead.
# The bugs of the second line are in no other build: the library does not compile with them.
unit:
	RUST_TEST_THREADS=3 $(CARGO) test --workspace --exclude synod-e2e --no-fail-fast
	$(CARGO) test -p synod-sim --features planted --test planted

# One test after the other: each uses all cores. The servers and 'synod' are release builds; the tests need not be.
e2e: build
	$(CARGO) test -p synod-e2e --no-fail-fast -- --test-threads=1 --nocapture

fuzz:
	scripts/fuzz

compat: compat-packages build
	$(CARGO) run --release -p synod-compat -- $(COMPAT)

compat-subset: compat-packages build
	$(CARGO) run -p synod-compat -- --subset --parallel 2

bench: test-packages build
	$(CARGO) run --release -p synod-e2e --example commit_latency

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path testing/fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

licences:
	$(CARGO) test -p synod-cli --test licences

packages:
	scripts/install-packages

test-packages:
	scripts/install-packages --with-tests

compat-packages:
	scripts/install-packages --with-suites

clean:
	$(CARGO) clean
