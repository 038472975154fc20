# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTS  ?=

.PHONY: demo test lint bench docs clean help

help:
	@echo "make demo    the main job on embedded data"
	@echo "make test    ruff, mypy --strict, tests and doctests"
	@echo "make lint    ruff and mypy only"
	@echo "make bench   speed as ratios measured side by side"
	@echo "make docs    the documentation as HTML in docs/_build"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,docs]"
	@touch $(READY)

demo: $(READY)
	$(BIN)/simplexdp demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

export OPENBLAS_NUM_THREADS ?= 1

test: lint
	$(BIN)/python -m pytest -n 2 $(TESTS)

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
