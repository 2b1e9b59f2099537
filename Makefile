# `make demo` and `make test` need only Python 3.11 and make: they build .venv themselves.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PEERS  := $(VENV)/.installed-peers

.PHONY: demo docs test test-all lint bench mutants clean browser nginx sbom

demo: $(STAMP)
	$(BIN)/fedsift demo

# The documents as a site, build/site/index.html; nothing is loaded from elsewhere.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

test: $(STAMP) browser nginx
	$(BIN)/python -m pytest -n 2

test-all: $(STAMP) browser nginx
	$(BIN)/python -m pytest -n 2 -m "deep or not deep"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(PEERS)
	$(BIN)/python -m benchmarks

# Small faults on purpose, 100 of them: which do the tests notice? Goes on where it was stopped.
mutants: $(STAMP)
	$(BIN)/python -m benchmarks.mutation

# The browser tests drive Debian's Chromium; where there is none they are skipped, with the reason.
browser:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 \
		|| echo "there is no Chromium here and none could be installed: the browser tests are skipped"

# A test of the deployment puts Debian's nginx before a server; without it that test is skipped.
nginx:
	@command -v nginx >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends nginx-light; } \
		>/dev/null 2>&1 || echo "there is no nginx here and none could be installed: its test is skipped"

# What is installed, with licences, as a bill of materials in CycloneDX's format: build/sbom.json
sbom: $(STAMP)
	$(BIN)/python docs/dev/make_sbom.py

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Betty is no part of the extra: pip 24.1 and later refuse its metadata. Its rows are then left out.
$(PEERS): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m pip install --quiet --no-deps 'betty-ml>=0.1.1,<0.2' || echo "Betty is left out: this pip refuses it"
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info src/*.egg-info
