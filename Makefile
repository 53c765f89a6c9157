# `make` lists the targets. Needed beforehand: Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
LOCKED := $(VENV)/.locked
INSTALL := $(PY) -m pip install --quiet --use-pep517 --disable-pip-version-check
COMPILE = $(VENV)/bin/uv pip compile --quiet $(UPGRADE)
# Processes that share the tests which are not quick: by cores and memory (tests/side_by_side.py), or a number.
PROCESSES ?= auto
UNIT := tests/unit tests/bench tests/dev tests/documents
REST := tests/model tests/properties tests/e2e tests/faults tests/integration tests/upgrade
PACKAGE ?= quixstreams
TESTS_OF_quixstreams := tests/unit/consumer tests/integration/test_framework_reliances.py tests/faults/test_framework_lane.py tests/faults/test_state_machine.py tests/faults/test_odd_headers.py
TESTS_OF_pyspark := tests/unit/spark tests/integration/test_spark.py tests/integration/test_spark_java.py tests/integration/test_compact.py
TESTS_OF_pyiceberg := tests/unit/parts/iceberg tests/e2e/test_iceberg.py
# Where Python keeps no compiled code, each of them would compile all tests at each run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv generate sample demo demo-iceberg test test-unit test-image test-night test-newest lint lock run image release audit scan bench bench-scaling bench-replicas bench-calm bench-iceberg bench-compaction bench-self-compaction bench-many-topics chaos soak clean python

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY) ## make the virtual environment .venv (the other targets do it by themselves)

demo: python $(READY) ## run the connector on 20,000 readings: private Kafka, lake in demo-lake/, a query over it
	@$(PY) -m dev.demo

demo-iceberg: python $(READY) ## run the demo with an Iceberg table: a private REST catalog, a query by DuckDB, compaction by Spark
	@$(PY) -m dev.demo_iceberg

test-unit: python $(READY) ## run the tests that need no service, no Java and no network: under two minutes
	@$(PY) -m pytest -q -n logical -m unit $(UNIT)

test: test-unit ## run the unit tests, and try each promise once against real services
	@$(PY) -m pytest -n $(PROCESSES) -m standard $(REST) -o faulthandler_timeout=300

test-image: python $(READY) ## build the container image, and run it once with the least rights
	@$(PY) -m pytest tests/container/test_container.py::test_rows_get_from_kafka_to_s3_with_the_least_rights_and_the_rest_of_them_at_sigterm

test-night: python $(READY) ## search for the rare, for hours, and go on after a failure; PARTS="faults chaos" runs some, SEED repeats
	@SEED=$(SEED) $(PY) -m tests.night $(PARTS)

test-newest: python $(READY) ## run the tests of PACKAGE (quixstreams, pyspark or pyiceberg) with its newest release, in a separate environment
	@rm -rf .venv-newest && $(PY) -m venv .venv-newest
	@sed 's/^$(PACKAGE)\(.*\)==.*/$(PACKAGE)\1/' requirements.txt > .venv-newest/requirements.txt
	@cp requirements-dev.txt .venv-newest/
	@.venv-newest/bin/python -m pip install -q -r .venv-newest/requirements.txt -r .venv-newest/requirements-dev.txt
	@.venv-newest/bin/python -m pytest $(TESTS_OF_$(PACKAGE))

lint: $(READY) ## check style and types with ruff and mypy, and the Dockerfile with hadolint
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/hadolint Dockerfile

lock: python $(LOCKED) ## write requirements*.lock after a change of requirements*.txt; UPGRADE=--upgrade renews what they bring
	@$(COMPILE) requirements.txt --output-file requirements.lock
	@$(COMPILE) requirements-dev.txt --constraint requirements.lock --output-file requirements-dev.lock
	@$(COMPILE) requirements-sbom.txt --output-file requirements-sbom.lock

AUDITED := requirements-dev.lock requirements-sbom.lock # the first one has the packages of requirements.lock, too

audit: python $(READY) ## look for known vulnerabilities of all locked packages; fails if it finds one
	@for lock in $(AUDITED); do \
		$(PY) -m pip_audit --strict --disable-pip --vulnerability-service osv --progress-spinner off $(AUDIT) \
			--requirement $$lock || failed=1; done; exit $${failed:-0}

scan: python $(READY) ## look for known vulnerabilities in IMAGE (without it, that of `make image`); fails if a severe one has a fix
	@$(PY) -m dev.scan $(IMAGE)

generate: python $(READY) ## write what is made of the code: tables of the pages, dotenv.example, the form, the chart, the dashboard
	@$(PY) -m dev.generate
	@$(PY) -m dev.chart
	@$(PY) -m dev.dashboard

sample: $(READY) ## write the connector and its test to build/sample, in the shape of the public repository of samples
	@$(PY) -m dev.sample

run: python $(READY) ## run the connector with the settings of the environment and of .env
	@$(PY) main.py

image: $(READY) ## build the container image
	@$(PY) -m dev.image

release: python $(READY) ## build release VERSION here, and print the commands that publish it
	@$(PY) -m dev.release $(VERSION)

bench: python $(READY) ## measure messages per second, processor time and memory beside other sinks; BENCH='--help' lists options
	@$(PY) -m bench $(BENCH)

bench-scaling: python $(READY) ## measure the connector alone with more rows, partitions, folders, columns, replicas, and other stores
	@$(PY) -m bench.scaling $(BENCH)

bench-replicas: python $(READY) ## measure groups of replicas with equal shares of processor time, and while some come and go
	@$(PY) -m bench.replicas $(BENCH)

bench-calm: python $(READY) ## measure processor time with nothing to do, and the delay of 100 messages a second
	@$(PY) -m bench.calm $(BENCH)

bench-iceberg: python $(READY) ## measure commits to an Iceberg table that grows, or that several members share
	@$(PY) -m bench.iceberg_commits $(BENCH)

bench-self-compaction: python $(READY) ## measure what COMPACT takes of the connector's rate, and adds to its delay
	@$(PY) -m bench.self_compaction $(BENCH)

bench-many-topics: python $(READY) ## measure 50 small topics in one process, each with a table, beside one topic
	@$(PY) -m bench.many_topics $(BENCH)

bench-compaction: python $(READY) ## measure compact on small files in MinIO, and queries before and after it
	@$(PY) -m bench.compaction $(BENCH)

chaos: python $(READY) ## kill, freeze or cut off 50 members under load, and compare all rows; CHAOS_SEED repeats a run, CHAOS_RECORDS_A_SECOND is its load
	@CHAOS_KILLS=$${CHAOS_KILLS:-50} $(PY) -m pytest -s tests/faults/test_crash_loop.py

soak: python $(READY) ## run half an hour of load: memory, files and threads must not grow
	@SOAK_SECONDS=$${SOAK_SECONDS:-1800} $(PY) -m pytest -s tests/faults/test_soak.py

clean: ## remove .venv, demo-lake/ and everything else that was made here
	@if [ -e demo-lake/.made-by-the-demo ]; then rm -rf demo-lake; fi
	@rm -rf $(VENV) .venv-bench .venv-bench-spark .cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -path './.*' -prune -o -name __pycache__ -prune -exec rm -rf {} +

# Without a shell's error text and Python's traceback, what is missing is said in one line.
python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, $(PYTHON) is `$(PYTHON) --version 2>/dev/null || echo missing`." \
			"Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }

# The stamps are written last: an interrupted installation is taken up again. `make lock` needs the first one alone.
$(LOCKED): requirements-dev.lock | python
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments. Install what it lacks: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV): a few minutes, once" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

# Without an index nothing is installed, so this fails if somebody has added to requirements.txt alone.
$(READY): $(LOCKED) requirements.txt
	@$(INSTALL) --no-index -r requirements.txt || { \
		echo "requirements.txt asks for more than requirements-dev.lock holds. Run: make lock" >&2; exit 1; }
	@touch $@
