# Every target makes its environment by itself when it is missing or when its lock file changed.
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
LOCKED := $(PIP) --requirement requirements
# The package itself: what it needs and what builds it are in requirements/package.txt.
ITSELF := $(PIP) --no-deps --no-build-isolation --editable .
LOCK := -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --custom-compile-command 'make lock' pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all test-extras test-gpu lint docs release lock coverage bench reproduce clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(PACKAGE_READY): pyproject.toml requirements/package.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memvec needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(LOCKED)/package.txt
	$(BIN)/python $(ITSELF)
	@touch $@

$(READY): $(PACKAGE_READY) requirements/dev.txt
	$(BIN)/python $(LOCKED)/dev.txt
	@touch $@

$(EXTRAS_READY): pyproject.toml requirements/extras.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python $(LOCKED)/extras.txt
	$(EXTRAS)/bin/python $(ITSELF)
	@touch $@

$(DOCS_READY): pyproject.toml requirements/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(LOCKED)/docs.txt
	$(DOCS)/bin/python $(ITSELF)
	@touch $@

$(BENCH_READY): $(READY) requirements/bench.txt
	$(BIN)/python $(LOCKED)/bench.txt
	@touch $@

venv: $(READY) ## Make .venv with everything development needs

demo: $(PACKAGE_READY) ## Search 34,000 real sentence embeddings and check the promise against the truth
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

coverage: $(READY) $(EXTRAS_READY) ## Lines that the fast tests and the suites of the extras run, half an hour; fails below the share in pyproject.toml
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -q -n auto -m 'not slow'
	$(EXTRAS)/bin/python -m coverage run -m pytest -q -n auto $(INTEGRATED)
	$(EXTRAS)/bin/python -m coverage run -m pytest -q tests/cluster
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

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
	$(BIN)/python $(LOCKED)/release.txt
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python $(PIP) dist/*.whl
	cd build && installed/bin/memvec demo

lock: $(READY) ## Renew the versions in requirements/, within the ranges of pyproject.toml
	$(BIN)/python $(LOCKED)/release.txt
	$(BIN)/python $(LOCK) --group dev --group build -o requirements/dev.txt
	$(BIN)/python $(LOCK) --group build --constraints requirements/dev.txt -o requirements/package.txt
	$(BIN)/python $(LOCK) --extra bench --constraints requirements/dev.txt -o requirements/bench.txt
	$(BIN)/python $(LOCK) --group release --constraints requirements/dev.txt -o requirements/release.txt
	$(BIN)/python $(LOCK) --group extras --group build -o requirements/extras.txt
	$(BIN)/python $(LOCK) --group docs --group build -o requirements/docs.txt

reproduce: $(READY) ## Recompute the paper's figures and tables, and docs/paper.md (DATA=folder of data sets)
	$(BIN)/python -m paper --scale small $(if $(DATA),--data $(DATA)) --report $(if $(DATA),,--page results/paper.md) $(if $(wildcard $(DATA)/st-lucia/images),--describe)

clean: ## Remove .venv and caches
	rm -rf $(VENV) $(EXTRAS) $(DOCS) docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
