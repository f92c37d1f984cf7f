# Every target works from a fresh clone with Python 3.11 or newer, make and a shell.
#
#   PYTHON=python3.12   the Python that .venv is made with; naming another one makes .venv anew
#   VENV=DIR            another place for it
#   WORKERS=8           how many processes run the experiments; the tests take one more
#   SPLITS=100          how many random splits the experiments average over

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
SPLITS  ?= 20
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.set-up
VERSION := import sys; print(*sys.version_info[:2])
# Tests wait for browsers, servers and killed processes: one more than the cores fills them. Threads
# of theirs would only wait for each other.
PYTEST  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(shell expr $(WORKERS) + 1) --dist worksteal
# Compiled files are kept whatever the shell says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup browser demo check lint types test coverage theory docs screenshots bench reproduce alternatives reach truth odd fuzz release-check clean again
.DEFAULT_GOAL := help

help:                       ## what there is to make
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do \
	  printf '  make %-13s %s\n' "$$name" "$$what"; done

setup: $(STAMP)             ## .venv with everything that is needed; redone when its lists change

# A Python asked for by name is the one used: a .venv made with another is made anew. Otherwise one
# that works is kept, and one that does not (half made, its Python gone) is made anew.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) -c '$(VERSION)' 2>&1),$(shell $(BIN)/python -c '$(VERSION)' 2>/dev/null))
ANEW := yes
$(STAMP): again
endif
endif

$(STAMP): pyproject.toml constraints.txt
	@if [ -n '$(ANEW)' ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'fairmend needs Python 3.11 or newer; name one: make setup PYTHON=python3.11' >&2; \
	    exit 1; }; \
	  echo 'making $(VENV)'; $(PYTHON) -m venv --clear $(VENV); fi
	@echo 'installing what fairmend needs (a few minutes the first time)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,bench]'
	@touch $@

# Nothing else installs system packages; without a browser the tests of pages are skipped.
browser:                    ## Chromium for the tests of pages; with apt-get, as root
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	  if command -v $$name >/dev/null; then echo "there is a browser: $$name"; exit 0; fi; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'installing chromium and fonts-liberation with apt-get'; \
	  apt-get install -qq -y --no-install-recommends chromium fonts-liberation >/dev/null 2>&1 || { \
	    apt-get update -qq && \
	    apt-get install -qq -y --no-install-recommends chromium fonts-liberation >/dev/null; } || \
	  echo 'note: Chromium could not be installed; tests of pages are skipped'; \
	else \
	  echo 'note: no browser, and none is installed without root and apt-get; tests of pages are skipped'; \
	fi

demo: setup                 ## audit, explain and repair a stand-in vendor model on embedded real data
	@$(BIN)/python -m fairmend demo

lint: setup                 ## ruff: rules and layout; who may import whom
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	@$(BIN)/lint-imports --no-logo

types: setup                ## mypy, strict
	$(BIN)/python -m mypy

# Runs the tests with mypy beside them, which says what it has to say after they are done.
define tests_and_types
@log=$$(mktemp); $(BIN)/python -m mypy >$$log 2>&1 & mypy=$$!; \
echo '$(1)'; $(1); tests=$$?; \
echo 'mypy:'; wait $$mypy; types=$$?; cat $$log; rm -f $$log; exit $$((tests || types))
endef

check: lint                 ## the quick inner loop: lint, types and the fast tests
	$(call tests_and_types,$(PYTEST) -m "not slow")

test: lint                  ## everything that must hold before a change lands
	$(call tests_and_types,$(PYTEST))

coverage: setup             ## every test, and what they leave untouched, file by file
	HYPOTHESIS_PROFILE=default $(PYTEST) --cov --cov-report=term-missing:skip-covered --cov-report=html:results/coverage

theory: setup               ## the promises of the mathematics, with all their repetitions (minutes)
	FAIRMEND_REPETITIONS=full HYPOTHESIS_PROFILE=default $(PYTEST) tests/theory

docs: setup                 ## run the examples in the pages, and build them into a site in site/
	$(BIN)/python -m pytest -q tests/docs/test_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo 'open site/index.html; to search, serve it: $(BIN)/python -m http.server --directory site --bind 127.0.0.1 8000'

screenshots: setup          ## take the pictures in docs/images anew (needs Chromium)
	$(BIN)/python scripts/screenshots.py

# Runs every script of a folder, says which failed, and fails if one did; _names are no scripts.
define run_scripts
@set -- $(filter-out $(1)/_%,$(wildcard $(1)/*.py)); failed=''; \
if [ $$# -eq 0 ]; then echo 'there is no script in $(1)/' >&2; exit 1; fi; \
for script; do echo "== $$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; done; \
if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi
endef

bench: setup                ## side by side with the peers, one run a subject
	$(call run_scripts,benchmarks)

reproduce: setup            ## the paper's tables and figures, its numbers beside ours
	$(BIN)/python experiments --splits $(SPLITS) --jobs $(WORKERS)

alternatives: setup         ## less discriminatory alternatives beside retrained models and truth (an hour)
	$(BIN)/python experiments/alternatives.py --splits 20 --jobs $(WORKERS)
	$(BIN)/python experiments/_page.py results/alternatives.json

reach: setup                ## how far a blind rule can go: what is said, beside the truth (12 minutes on two cores)
	$(BIN)/python experiments/reach.py --jobs $(WORKERS)
	$(BIN)/python experiments/_page.py results/reach.json

truth: setup                ## what is said against simulated truth; renews docs/quality.md (minutes)
	$(BIN)/python experiments/truth.py --jobs $(WORKERS) --write

odd: setup                  ## odd files, models, options, artifacts and calls; renews docs/quality.md
	$(BIN)/python experiments/forged.py --jobs $(WORKERS)
	$(BIN)/python experiments/odd.py --jobs $(WORKERS) --write

fuzz: setup                 ## strangers' bytes, coverage-guided: SECONDS=60 for each target
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	$(BIN)/python scripts/fuzz.py --seconds $(or $(SECONDS),60)

release-check: setup        ## what must hold before strangers install a release (minutes)
	$(BIN)/python scripts/release_check.py

clean:                      ## remove .venv, caches and results
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache results site dist fairmend-demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
