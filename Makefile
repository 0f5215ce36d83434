# Every target makes .venv by itself when it is missing or when pyproject.toml changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE_READY := $(VENV)/.package-ready
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready
# Suites of the extras have needs that do not go with those of the core.
EXTRAS := .venv-extras
EXTRAS_READY := $(EXTRAS)/.ready
INTEGRATED := --ignore=tests/integrations/test_sklearn.py tests/integrations src/memvec/integrations
DOCS := .venv-docs
DOCS_READY := $(DOCS)/.ready
SERVED := -m slow tests/server
FUZZED := tests/index/test_strange_folders.py tests/collection/test_fuzz_collection.py
REPRODUCED := tests/paper/test_smoke.py tests/paper/test_described_photographs.py
PIP := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-extras test-gpu lint docs release bench reproduce clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(PACKAGE_READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memvec needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --editable .
	@touch $@

$(READY): $(PACKAGE_READY)
	$(BIN)/python $(PIP) --upgrade 'pip>=25.1'
	$(BIN)/python $(PIP) --group dev
	@touch $@

$(EXTRAS_READY): pyproject.toml
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python $(PIP) --upgrade 'pip>=25.1'
	$(EXTRAS)/bin/python $(PIP) --group extras --editable .
	@touch $@

$(DOCS_READY): pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PIP) --upgrade 'pip>=25.1'
	$(DOCS)/bin/python $(PIP) --group docs --editable .
	@touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python $(PIP) --editable '.[bench]'
	@touch $@

venv: $(READY) ## Make .venv with everything development needs

demo: $(PACKAGE_READY) ## Search 24,000 real sentence embeddings and check the promise against the truth
	$(BIN)/memvec demo --picture results/demo.svg

test: lint ## Lint and run the fast tests
	$(BIN)/python -m pytest -q -n auto -m 'not slow'

test-all: lint ## Run every test, the slow ones too
	$(BIN)/python -m pytest -q -n auto

test-extras: $(READY) $(EXTRAS_READY) ## Damaged and forged folders by the thousand; integrations, a notebook; the server under load and in a browser; all experiments at the smallest scale; shards on Ray
	$(EXTRAS)/bin/python -m pytest -q -n auto -m slow $(FUZZED)
	$(EXTRAS)/bin/python -m pytest -q -n 2 $(SERVED)
	$(EXTRAS)/bin/python -m pytest -q -n auto $(INTEGRATED)
	$(BIN)/python -m pytest -q -n auto -m slow $(REPRODUCED)
	$(EXTRAS)/bin/python -m pytest -q tests/cluster

test-gpu: $(READY) ## Every kernel on a GPU against its twin; install memvec[gpu12] or [gpu13] in .venv first
	$(BIN)/python -m pytest -q -m gpu tests/gpu

lint: $(READY) ## ruff, mypy strict on src and paper, the import rule between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

docs: $(DOCS_READY) ## Build the pages as a site, in docs/_build; a warning is an error
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --builder html docs docs/_build

bench: $(BENCH_READY) ## Measure against the peers, half an hour; prints tables (DATA=folder of data sets)
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA))

release: $(READY) ## Build wheel and sdist in dist/, check them, and run the demo from the wheel alone
	rm -rf dist
	$(BIN)/python $(PIP) --group release
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python $(PIP) dist/*.whl
	cd build && installed/bin/memvec demo

reproduce: $(READY) ## Recompute the paper's figures and tables, and docs/paper.md (DATA=folder of data sets)
	$(BIN)/python -m paper --scale small $(if $(DATA),--data $(DATA)) --report $(if $(DATA),,--page results/paper.md) $(if $(wildcard $(DATA)/st-lucia/images),--describe)

clean: ## Remove .venv and caches
	rm -rf $(VENV) $(EXTRAS) $(DOCS) docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
