# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTS  ?=
CASES  ?= 1000000

.PHONY: demo test lint bench utility fuzz docs audit-deps licences sbom hashes clean help

help:
	@echo "make demo    the main job on embedded data"
	@echo "make test    ruff, mypy --strict, tests and doctests"
	@echo "make lint    ruff and mypy only"
	@echo "make bench   speed as ratios measured side by side"
	@echo "make utility loss at equal privacy, beside the other methods"
	@echo "make docs    the documentation as HTML in docs/_build"
	@echo "make fuzz    a million hostile inputs"
	@echo "make audit-deps, licences, sbom, hashes    the supply chain, into build/"

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
	$(BIN)/python -m benchmarks accounting sampling prediction counting

utility: $(READY)
	$(BIN)/python -m benchmarks utility

fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris || echo "atheris does not install here: inputs are changed at random"
	$(BIN)/python -m benchmarks fuzz --cases $(CASES)

# The tools below live in an environment of their own, so that they report on the project's and not on themselves.
TOOLS := $(VENV)/tools

$(TOOLS)/.ready:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit pip-licenses cyclonedx-bom
	@touch $@

# A package that the index does not know of is a failure, or an index out of reach would look like a clean result.
audit-deps: $(TOOLS)/.ready
	$(TOOLS)/bin/pip-audit --requirement constraints-hashed.txt --disable-pip --strict --progress-spinner off || \
		{ echo "audit-deps: a weakness is known (listed above), or the index of weaknesses could not be asked"; exit 1; }

licences: $(READY) $(TOOLS)/.ready
	@mkdir -p build
	$(TOOLS)/bin/pip-licenses --python=$(BIN)/python --format=markdown --order=license --output-file=build/licences.md

sbom: $(READY) $(TOOLS)/.ready
	@mkdir -p build
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file build/sbom.json $(BIN)/python

hashes: $(READY)
	$(BIN)/python tools/hash_constraints.py

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
