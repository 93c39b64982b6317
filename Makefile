# The door to everything; '.ci/run' uses the same targets.
#
#   make demo      install what is missing, build, start three servers, say what to try
#   make demo-mysql  three servers of MySQL 9.7 in a group (experimental); needs root
#   make relay-demo  a group, a relay, a replica behind it and a reader of changes; two minutes, nothing stays
#   make check     format, lints, rules of the sources, unit tests of the core, 50 simulated groups: no server, minutes
#   make test      what every change passes: all unit tests, a sample of planted bugs, end-to-end tests with real
#                  servers; a stage that fails does not keep the others from running: make unit, make e2e, ... runs one
#   make test-all  what a release passes: make test, then all planted bugs, long faults, migrations, labs, attacks
#                  from outside, an upgrade, the servers' own suites in a short selection, Debian 13's MariaDB, MySQL
#                  as an upstream, and the pages that install on fresh machines; three hours, as root, with the network
#   make fuzz      every decoder against made-up bytes, FUZZ_SECONDS=30 each
#   make mutants   small mistakes in the core, and how many the unit tests notice; hours (MUTANTS=certify for one crate)
#   make compat    MariaDB's own Galera suites (COMPAT="--suite wsrep" for one; takes an hour or more)
#   make packages  the Debian packages; 'make check-packages' tries them (needs root and the network)
#   make check-install  the pages that install, by their own commands on fresh machines (needs root and the network)
#   make trixie    Debian 13's MariaDB in a directory: upgrade, suites, tests (needs root and the network)
#   make mysql-upstream  MySQL 9.7 in a directory: the upstream of relays, Group Replication in the lab (root, the network)
#   make mysql-group  MySQL 9.7 in a group by the plugin (experimental): faults under load, refusals (root, the network)
#   make mysql-suite  MySQL's own suite for Group Replication, with the plugin in its place (root, the network)
#   make mysql-headers  the plugin builds against the headers of MySQL 8.4 and 9.5 (root, the network)
#   make check-kubernetes  the manifests of packaging/kubernetes, by Kubernetes' own validation (needs Go and the network)
#   make performance   the tables of docs/performance.md: hours, as root, on a quiet machine
#   make certificate   acknowledged transactions lost, outages, persons needed, beside other systems: docs/certificate.md
#   make playground  a simulated group in a page, target/playground/index.html: kill, cut off and slow down its members
#   make pictures  the pictures of the dashboard in docs/images
#   make isolation every workload of testing/isolation on real servers, kills, and controls that must fail
#   make endurance HOURS=12  groups under faults for hours, whose servers may not grow (root)
#   make bench     commit latency next to Galera's library, on the same servers
#
# Options of the demo:  make demo DEMO="--dir /var/tmp/my-demo" UP="--base-port 23306"

CARGO ?= cargo
DEMO ?=
UP ?=
COMPAT ?=
MUTANTS ?=
STRANGER ?=
CERTIFY ?= --systems synod,galera
MACHINES ?=
HOURS ?= 12
SYNOD = target/quick/synod
# What runs end to end with every change; E2E=faults/crash runs one file. The others are in E2E_LONG.
E2E ?= clients faults operations relays
E2E_LONG = other_programs long_faults migrations long_relays labs
CORE = -p synod-consensus -p synod-certify -p synod-log -p synod-member -p synod-wire
TEST_STAGES = test-dependencies quick unit planted-sample monitors e2e
LONG_STAGES = all-dependencies build simulate planted monitors-long e2e-long isolation stranger compat-subset trixie mysql-upstream mysql-group mysql-suite mysql-headers packages release-files check-install mutants-sample
PURE_TARGET = wasm32-unknown-unknown
CI_STAGES = lint licences doc purity test fuzz

.PHONY: ci demo demo-mysql relay-demo check core test test-all unit simulate planted planted-sample monitors monitors-long mutants mutants-sample e2e e2e-long isolation endurance stranger fuzz compat compat-subset trixie mysql-upstream mysql-group mysql-suite mysql-headers performance bench pictures playground build quick build-lab build-next-version lint licences doc purity packages release-files check-packages check-install check-kubernetes dependencies mysql-dependencies test-dependencies all-dependencies clean certificate build-planted

demo: dependencies quick
	$(SYNOD) demo $(DEMO) up $(UP)

demo-mysql: mysql-dependencies
	scripts/demo-mysql up

relay-demo: all-dependencies quick
	$(CARGO) run --quiet -p synod-e2e --example relay_demo

# For the demo and the tests of each change: in 60 % of the time of 'make build', from the same sources.
quick:
	$(CARGO) build --profile quick -p synod-provider -p synod-cli

build:
	$(CARGO) build --release -p synod-provider -p synod-cli

build-lab:
	$(CARGO) build --release -p synod-lab

# The library with one more version of the wire and of the log, for the test of upgrades: never released. It has a
# folder of its own, since both libraries have one name. It is optimised little, to build fast.
build-next-version:
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	    $(CARGO) build --release -p synod-provider --features next-version --target-dir target/next-version

# The library that SYNOD_PLANTED makes wrong, for the test of the certificate: never released.
build-planted:
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
	    $(CARGO) build --release -p synod-provider --features planted --target-dir target/planted

# Needs no server, no root and no package but a C compiler.
check:
	scripts/run-stages lint core

core:
	$(CARGO) test -p synod-tidy $(CORE)
	$(CARGO) run -p synod-sim -- --seeds 1..50

# A stage that fails does not keep the later ones from running; the end says which failed.
test:
	scripts/run-stages $(TEST_STAGES)

test-all:
	scripts/run-stages $(TEST_STAGES) $(filter-out $(TEST_STAGES),$(LONG_STAGES))

unit:
	scripts/run-unit

# Groups from other seeds for each commit; fails also if they have not met all that can happen (expected.rs).
simulate:
	first=$$(( 0x$$(git rev-parse --short=6 HEAD) )); \
	    $(CARGO) run --release -p synod-sim -- --seeds $$first..$$((first + 1999)) --jobs 2 --complete

# Bugs put in on purpose: the simulator must find each. They are in no other build.
planted:
	$(CARGO) test -p synod-sim --features planted --test planted

# A quarter of them, another one for each commit.
planted-sample:
	SYNOD_PLANTED_SAMPLE=$$(git rev-parse HEAD) $(CARGO) test -p synod-sim --features planted --test planted

# The monitors of node and provider as they are, in orders of their threads that a scheduler chooses, and with planted
# bugs that it must find.
monitors:
	$(CARGO) test -p synod-node -p synod-provider --features synod-node/shuttle,synod-provider/shuttle --lib model::

monitors-long:
	SYNOD_SCHEDULES=5000 $(MAKE) --no-print-directory monitors

mutants:
	scripts/mutants $(MUTANTS)

# Another part each night; all in 32 nights.
mutants-sample:
	MUTANTS_SHARD=$$(($$(date +%s) / 86400 % 32))/32 scripts/mutants

# Several files at a time, each with its servers in a network of its own. The long ones test release builds.
e2e: quick
	scripts/run-e2e $(E2E)

e2e-long: build build-lab build-next-version build-planted playground
	testing/e2e/readers/install target/e2e-readers # the tests have no network
	SYNOD_E2E_BUILD=release E2E_JOBS=3 E2E_LIMIT=3600 scripts/run-e2e $(E2E_LONG)

# Which anomalies clients see; ten minutes. Galera's library is a control, if it is installed.
isolation: build
	SYNOD_E2E_BUILD=release $(CARGO) test -p synod-isolation --test servers -- --ignored --test-threads=1 --nocapture

# Appends a row to testing/endurance.tsv.
endurance: build
	$(CARGO) build -p synod-isolation -p synod-chaos
	SYNOD_E2E_BUILD=release scripts/endurance $(HOURS)

# Attacks groups of real servers from outside, by their own protocol; STRANGER=clear for one kind of group.
stranger: build
	$(CARGO) run -p synod-stranger -- $(STRANGER)

fuzz:
	scripts/fuzz

compat: all-dependencies build
	$(CARGO) run --release -p synod-compat -- $(COMPAT)

compat-subset: all-dependencies build
	$(CARGO) run -p synod-compat -- --subset --parallel 2

trixie: build
	scripts/test-trixie

mysql-upstream: build build-lab
	scripts/test-mysql-upstream

# Experimental. It builds the plugin against the headers of that MySQL.
mysql-group: mysql-dependencies
	scripts/test-mysql-group

mysql-suite: mysql-dependencies
	scripts/test-mysql-suite

mysql-headers: mysql-dependencies
	scripts/test-mysql-headers

# The tables of docs/performance.md; hours on a machine that does nothing else (root). See the script.
performance: all-dependencies build build-lab
	scripts/performance

# Faults of each system under load, and what they cost: docs/certificate.md (root, a quiet machine).
certificate: all-dependencies build build-lab
	target/release/synod-lab certify --short --out certificate $(CERTIFY)

bench: all-dependencies build
	SYNOD_E2E_BUILD=release $(CARGO) run --release -p synod-e2e --example commit_latency

# Three servers under load and a browser; look at the pictures before they are committed.
pictures: all-dependencies quick
	$(CARGO) run -p synod-e2e --example dashboard_pictures

# The simulator in a page that is one file: it opens without a server, and asks for nothing.
playground:
	rustup target add $(PURE_TARGET)
	$(CARGO) build --profile page -p synod-playground --target $(PURE_TARGET)
	mkdir -p target/playground
	gzip -9nc target/$(PURE_TARGET)/page/synod_playground.wasm | base64 -w 120 >target/playground/module
	sed -e '/^@MODULE@$$/ { r target/playground/module' -e 'd }' testing/playground/page.html \
	    >target/playground/index.html
	rm target/playground/module
	@wc -c target/$(PURE_TARGET)/page/synod_playground.wasm target/playground/index.html

# The fuzz targets are a workspace of their own, and so is its lock file: is it older than a manifest?
lint:
	$(CARGO) metadata --locked --format-version 1 --manifest-path testing/fuzz/Cargo.toml >/dev/null
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path testing/fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

licences:
	$(CARGO) test -p synod-cli --test licences

# Broken links and unclosed code in the documentation of all crates.
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

# Consensus and certification know no clock, thread, file or random device: they build for a machine
# that has none. Their clippy.toml, which 'make lint' reads, bans what would only fail when called.
purity:
	rustup target add $(PURE_TARGET)
	$(CARGO) build -p synod-consensus -p synod-certify --target $(PURE_TARGET)

# What must pass before a change is taken; .ci/run calls it.
ci:
	scripts/run-stages $(CI_STAGES)

# The Debian packages, in target/packages.
packages:
	scripts/build-packages

# The files of a release, from packages that were built twice and are equal, whatever stands in its way.
release-files:
	scripts/release build --dry-run

# Installs, upgrades and removes them in a Debian 12 and a Debian 13 in directories (root, the network).
check-packages:
	scripts/check-packages

# The pages that install, a logger, a relay and Ansible's role, on fresh machines with Debian 12 and 13 and systemd;
# MACHINES="trixie install" runs a part (root, the network, the packages).
check-install:
	scripts/check-install $(MACHINES)

# The manifests of packaging/kubernetes, by the functions of Kubernetes' API server (Go, the network).
check-kubernetes:
	scripts/check-kubernetes

# What is missing on this machine.
dependencies:
	scripts/install-packages

mysql-dependencies:
	scripts/install-packages --with-mysql

test-dependencies:
	scripts/install-packages --with-tests

all-dependencies:
	scripts/install-packages --with-all

clean:
	$(CARGO) clean
