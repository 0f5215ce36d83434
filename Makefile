# Every target makes .venv by itself when it is missing or when pyproject.toml changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-all lint bench reproduce clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memvec needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --editable .
	@touch $@

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

venv: $(READY) ## Make .venv with everything development needs

demo: $(READY) ## Search 10,000 real sentence embeddings and compare with the exhaustive scan
	$(BIN)/memvec demo

test: lint ## Lint and run the fast tests
	$(BIN)/python -m pytest -q -n auto -m 'not slow'

test-all: lint ## Run every test, the slow ones too
	$(BIN)/python -m pytest -q -n auto

lint: $(READY) ## ruff, mypy strict on src, the import rule between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(BENCH_READY) ## Measure against the peers, half an hour; prints tables (DATA=folder of data sets)
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA))

reproduce: $(READY) ## Recompute the paper's figures and tables, and docs/paper.md (DATA=folder of data sets)
	$(BIN)/memvec reproduce --scale small $(if $(DATA),--data $(DATA)) --report $(if $(DATA),,--page results/paper.md) $(if $(wildcard $(DATA)/st-lucia/images),--describe)

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
