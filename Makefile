# `make` lists the targets.  Everything is installed into .venv, from the lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000

# Without compiled files each process of the tests compiles all of them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run serve test quick chaos short-chaos check lint types contracts lock wheels bench examples openapi picture demo-data vendor audit sbom

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.installed ## install, and show the demo: real digits, labels arriving live
	$(BIN)/tracker demo --port $(PORT)

serve: $(VENV)/.installed ## install, and run Tracker on its embedded database
	$(BIN)/tracker serve --port $(PORT)

TESTS := $(BIN)/python -m pytest -n 2 --dist worksteal
test: $(VENV)/.installed-dev ## install, and run the tests on SQLite and PostgreSQL
	$(TESTS) -m "not (chaos or slow)" $(PYTEST_ARGS)

quick: $(VENV)/.installed-dev ## most of them on SQLite, in under two minutes
	$(TESTS) -m "not (chaos or slow or thorough or postgresql)" $(PYTEST_ARGS)

chaos: $(VENV)/.installed-dev ## the rest: browsers, servers, kills, mutants, any request: some hours
	TRACKER_TEST_CHAOS=long $(BIN)/python -m pytest -m "chaos or slow" $(PYTEST_ARGS)

short-chaos: $(VENV)/.installed-dev ## the same in 25 minutes, as CI does
	$(TESTS) -m "slow and not chaos" $(PYTEST_ARGS)
	$(TESTS) -m chaos $(PYTEST_ARGS)

check: lint types contracts test ## what CI runs: lint, types, import contracts, tests

lint: $(VENV)/.installed-dev ## style and house rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## static types
	$(BIN)/mypy

contracts: $(VENV)/.installed-dev ## who may import whom
	$(BIN)/lint-imports

audit: $(VENV)/.installed-dev ## known vulnerabilities among the pinned packages
	$(BIN)/python scripts/audit.py

sbom: $(VENV)/.installed-dev ## build the wheel, and the list of its packages beside it
	$(BIN)/python -m build --wheel --outdir dist
	$(BIN)/python scripts/sbom.py dist/tracker_server-*.whl

wheels: $(VENV)/.installed-dev ## build the wheels of the server, the client and the intervals
	@for project in . client intervals; do $(BIN)/python -m build --wheel --outdir dist $$project || exit 1; done

bench: $(VENV)/.installed-dev ## the benchmarks, each a table with ratios
	@for file in benchmarks/*.py; do echo; $(BIN)/python $$file || exit 1; done

examples: $(VENV)/.installed-dev ## record the examples of docs/openapi.json again
	$(BIN)/python -m pytest -q tests/api/test_examples.py -k "fresh and sqlite" --write-examples
	$(BIN)/python -m tracker.api > docs/openapi.json

openapi: $(VENV)/.installed-dev ## write docs/openapi.json again
	$(BIN)/python -m tracker.api > docs/openapi.json

picture: $(VENV)/.installed-dev ## draw the README's picture again (needs Chromium)
	$(BIN)/python scripts/draw_readme.py

demo-data: $(VENV)/.installed-dev ## rebuild the demo's data (installs scikit-learn)
	$(BIN)/python -m pip install --quiet scikit-learn
	$(BIN)/python scripts/make_demo_data.py

import-fixtures: $(VENV)/.installed-dev ## write tests/files by pandas, MLflow and others (a gigabyte to install)
	$(BIN)/python scripts/make_import_fixtures.py

vendor: $(VENV)/.installed-dev ## fetch the pinned front-end files (needs npm)
	$(BIN)/python scripts/vendor_static.py

# uv writes a lock that holds on every system and names no address.
LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--no-header --no-annotate --python-version 3.11
lock: $(VENV)/.installed-dev ## pin the newest allowed packages
	$(LOCK) --upgrade --all-extras pyproject.toml --output-file requirements.txt
	$(LOCK) --upgrade --all-extras --group dev --constraint requirements.txt \
		pyproject.toml --output-file requirements-dev.txt

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tracker needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.txt pyproject.toml client/pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable . --editable client
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt client/pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable client
	@touch $@
