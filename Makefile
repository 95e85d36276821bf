# Everything a checkout needs, each target doing first what it needs itself. `make help` lists them.
# Settings: PYTHON (an interpreter >= 3.11), JAVA_HOME (a JDK 17), YGS_CACHE (where the Hadoop jars go),
# YGS_APT=0 (install nothing with apt-get), PYTEST_ARGS, HADOOP.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
MADE := .make
HADOOP ?= 3.4.2
HADOOP_TOO := 3.5.0
HADOOP_MORE := 3.4.3
SHIM_JAR := rm-shim/target/ygs-rm-shim.jar
PYTEST_ARGS ?=
SOAK_ROUNDS ?= 10
BUF := proto/node_modules/.bin/buf
# Only folders that exist: mypy refuses a name that is not there.
CHECKED := $(wildcard yarn_gpu_sched tests tools benchmarks docker rm-shim/gate.py)
SHIM_SOURCES := $(shell find rm-shim/src proto/yarn_gpu_sched -type f 2>/dev/null) $(wildcard rm-shim/pom.xml)

# JAVA_HOME is looked up only by what needs it.
WITH_JDK = export JAVA_HOME="$$(tools/java_home.sh)"; export PATH="$$JAVA_HOME/bin:$$PATH"

.PHONY: help setup demo test lint bench soak spark cleanroom stubs lock hadoop shim proto-image check-ignores clean hadoop-of-tests test-docker

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(MADE)/venv hadoop shim ## Make the environment, fetch the Hadoop jars, build the shim

demo: setup ## Show the joint on a real cluster of local processes
	@$(WITH_JDK); $(BIN)/ygs demo

test: setup hadoop-of-tests $(if $(shell command -v npm),$(BUF)) ## Run every test
	@tools/prerequisites.sh cc || echo "some tests need a C compiler, and are skipped"
	$(WITH_JDK); $(if $(strip $(PYTEST_ARGS)),$(BIN)/python -m pytest $(PYTEST_ARGS),tools/test.sh $(BIN)/python $(HADOOP) $(HADOOP_TOO))

test-docker: setup ## Build the cluster in containers, test it, remove it; starts an engine where none runs (docker/README.md)
	@docker/test.sh $(if $(IF_POSSIBLE),--if-possible) $(PYTEST_ARGS)

lint: $(MADE)/venv $(BUF) shim ## Check style, types, layers, protocol, stubs, the shim's jar
	@failed=0
	step() { echo "==> $$1"; shift; "$$@" || failed=1; }
	step "ruff check" $(BIN)/ruff check --quiet --output-format concise .
	step "ruff format" $(BIN)/ruff format --quiet --check --output-format concise .
	step "mypy" $(BIN)/mypy --no-error-summary $(CHECKED)
	step "import layers" $(BIN)/lint-imports --no-logo
	step "buf lint" $(BUF) lint proto
	step "buf breaking" $(BUF) breaking proto --against proto/image.binpb
	step "stubs as generated" $(BIN)/python tools/stubs.py --check
	step "jar holds only what it may" $(BIN)/python rm-shim/gate.py $(SHIM_JAR)
	step "ignores have reasons" $(BIN)/python tools/ignores.py
	[ "$$failed" = 0 ] || { echo "make lint: see above" >&2; exit 1; }

bench: setup ## Measure; figures and limits as JSON under build/bench/
	@$(WITH_JDK); mkdir -p build/bench; $(BIN)/python -m benchmarks --out build/bench

soak: setup hadoop-of-tests spark ## Long random runs of the engine and of the tests on real processes, SOAK_ROUNDS times; stops at a failure
	@$(WITH_JDK); export YGS_SOAK=1 YGS_RANDOM=1
	for round in $$(seq 1 $(SOAK_ROUNDS)); do
	    echo "==> round $$round of $(SOAK_ROUNDS)"
	    $(BIN)/python -m pytest -q -x -m "real or slow" --hadoop both $(PYTEST_ARGS)
	    $(BIN)/python -m pytest -q -x -p tests.service.late tests/service $(PYTEST_ARGS)
	done
	echo "==> once on Hadoop $(HADOOP_MORE)"
	$(BIN)/python -m pytest -q -x -m "real and both" --hadoop $(HADOOP_MORE) $(PYTEST_ARGS)

cleanroom: ## Demo and tests in a fresh clone inside an empty Debian 12 root
	@tools/cleanroom.sh

stubs: $(MADE)/venv ## Generate the protocol's Python stubs
	@$(BIN)/python tools/stubs.py

proto-image: $(MADE)/venv $(BUF) ## Refresh the image that `buf breaking` compares with
	@$(BIN)/python tools/proto_image.py

lock: $(MADE)/venv ## Pin the dependencies of setup.cfg again, with hashes
	@tools/lock.sh

spark: $(MADE)/venv ## Fetch Spark's Python package (400 MB), for the tests of real Spark in `make soak`
	@tools/progress.sh "real Spark, for the soak" tools/spark.sh fetch

hadoop: $(MADE)/venv $(MADE)/java
	@$(WITH_JDK); tools/progress.sh "jars of Hadoop $(HADOOP)" \
	    $(BIN)/python -c 'import sys; from yarn_gpu_sched.embedded.fetch import main; sys.exit(main())' $(HADOOP)

# The tests of real clusters run on a second line of Hadoop as well.
hadoop-of-tests: hadoop
	@$(MAKE) hadoop HADOOP=$(HADOOP_TOO)

shim: $(SHIM_JAR)

check-ignores: $(MADE)/venv
	@$(BIN)/python tools/ignores.py

clean: ## Remove what make made here; the cache of jars stays
	@rm -rf $(VENV) $(MADE) build rm-shim/target proto/node_modules

$(MADE)/python: tools/prerequisites.sh tools/python.sh
	@mkdir -p $(MADE)
	tools/prerequisites.sh venv
	touch $@

$(MADE)/java: tools/prerequisites.sh tools/java_home.sh
	@mkdir -p $(MADE)
	tools/prerequisites.sh jdk maven
	touch $@

$(MADE)/venv: requirements/dev.lock setup.cfg pyproject.toml | $(MADE)/python
	@pip="$(BIN)/python -m pip --disable-pip-version-check install"
	[ -x $(BIN)/python ] || tools/progress.sh "environment in $(VENV)" "$$(tools/python.sh)" -m venv $(VENV)
	tools/progress.sh "pinned packages" $$pip --require-hashes --no-deps -r requirements/dev.lock
	tools/progress.sh "this package, editable" $$pip --no-deps --no-build-isolation --editable .
	touch $@

$(SHIM_JAR): $(SHIM_SOURCES) | $(MADE)/java
	@$(WITH_JDK)
	tools/progress.sh "the shim's jar" flock $(MADE)/shim.lock mvn -q -B -f rm-shim/pom.xml package
	touch $@

$(BUF): proto/package-lock.json proto/package.json
	@tools/prerequisites.sh npm
	tools/progress.sh "buf, which checks the protocol" npm --prefix proto ci --no-progress
	touch $@
