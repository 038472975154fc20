# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TESTS  ?=
CASES  ?= 1000000
OPTIONS ?=

.PHONY: demo test quick lint house wheel size test-matrix bench utility reproduce fuzz docs pictures audit-deps licences sbom hashes clean help

help:
	@echo "make demo    the main job on embedded data"
	@echo "make test    ruff, mypy --strict, tests and doctests"
	@echo "make quick   lint of what changed, and the tests that are not marked slow"
	@echo "make lint    ruff and mypy only"
	@echo "make house   how the tree stands: modules, long parameter lists, edges of a fit, beside what is wanted"
	@echo "make wheel   build the wheel into dist/, install it in an environment of its own and use it there"
	@echo "make size    what a base installation weighs, in an environment of its own"
	@echo "make test-matrix  the tests on the oldest and the newest dependencies and Pythons"
	@echo "make bench   speed as ratios measured side by side"
	@echo "make utility loss at equal privacy, beside the other methods"
	@echo "make reproduce    the experiments of the paper; with OPTIONS=--quick in a minute or two"
	@echo "make docs    the documentation as HTML in docs/_build"
	@echo "make pictures     reports as they look in Chromium, in build/pictures"
	@echo "make fuzz    a million hostile inputs"
	@echo "make audit-deps, licences, sbom, hashes    the supply chain, into build/"

# An environment holds the path of its folder: one that was moved or copied is made again.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,docs]"
	@pwd -P > $(READY)

# Programs of the environment run as `python -m`: their first lines hold a path, which may have spaces or be too long.

demo: $(READY)
	$(BIN)/python -m simplexdp demo

lint: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

export OPENBLAS_NUM_THREADS ?= 1
export PYTHONUTF8 ?= 1

test: lint
	$(BIN)/python -m pytest -n 2 $(TESTS)

house: $(READY)
	$(BIN)/python -m tools.house

wheel: $(READY)
	$(BIN)/python -m tools.wheel

size: $(READY)
	$(BIN)/python -m tools.size

# Not part of `make test`: several environments and as many suites.
test-matrix: $(READY)
	$(BIN)/python -m tools.matrix $(OPTIONS)

# The loop while working; `make test` is complete.
quick: $(READY)
	$(BIN)/python -m tools.lint_changed
	$(BIN)/python -m pytest -n 2 -m "not slow" --hypothesis-profile quick $(or $(TESTS),tests)

bench: $(READY)
	$(BIN)/python -m benchmarks accounting sampling prediction counting

utility: $(READY)
	$(BIN)/python -m benchmarks utility

reproduce: $(READY)
	$(BIN)/python -m reproduction $(OPTIONS)

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
	$(TOOLS)/bin/python -m pip_audit --requirement constraints-hashed.txt --disable-pip --strict --progress-spinner off || \
		{ echo "audit-deps: a weakness is known (listed above), or the index of weaknesses could not be asked"; exit 1; }

licences: $(READY) $(TOOLS)/.ready
	@mkdir -p build
	$(TOOLS)/bin/python -m piplicenses --python=$(BIN)/python --format=markdown --order=license --output-file=build/licences.md

sbom: $(READY) $(TOOLS)/.ready
	@mkdir -p build
	$(TOOLS)/bin/python -m cyclonedx_py environment --pyproject pyproject.toml --output-file build/sbom.json $(BIN)/python

hashes: $(READY)
	$(BIN)/python tools/hash_constraints.py

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

pictures: $(READY)
	$(BIN)/python -m tools.pictures

clean:
	rm -rf $(VENV) docs/_build build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
