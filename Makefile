# Every target works from a fresh clone with only Python 3.11+, make and a shell.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.set-up

.PHONY: setup demo check lint types test theory docs bench reproduce clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	touch $@

demo: setup                 ## audit a stand-in vendor model on embedded real data
	$(BIN)/python -m fairmend.demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: lint types           ## the quick inner loop: lint, types, fast tests
	$(BIN)/python -m pytest -q -n 2 -m "not slow"

test: lint types            ## everything
	$(BIN)/python -m pytest -q -n 2

theory: setup               ## the promises of the mathematics, with all their repetitions (minutes)
	FAIRMEND_REPETITIONS=full $(BIN)/python -m pytest -q -n 2 tests/theory

bench: setup                ## side by side with the peers, in one run
	$(BIN)/python benchmarks/audit.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache results
