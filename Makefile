# Needs make and Python 3.11 or newer, nothing else: the rest goes into .venv, which is made here.

PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; done; echo $$p)
BIN := .venv/bin
SOURCES := broker workers gateway millstream tests benchmarks docs/site
TEMPLATES := millstream/new/templates
EXAMPLES := $(sort $(dir $(wildcard examples/*/README.md)) $(wildcard $(TEMPLATES)/*/))
ARGS ?=
# honcho prefers .env to what it is told, so another port is a second such file.
OTHER_PORT := $(if $(findstring command line,$(origin PORT)),PORT=$(PORT))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test lint format docs bench chaos clean model discard-venv

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

run: .venv/.stamp-run model ## install what is missing, serve the digits on port 8000 (or PORT=9000)
	@echo '$(OTHER_PORT)' >.venv/.port
	@exec env PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/honcho start --env .env,.venv/.port

test: .venv/.stamp-dev model ## install what is missing, run the tests (or some: ARGS='-k word')
	$(BIN)/python -m pytest --numprocesses auto $(ARGS)

# The examples, and what `millstream new` makes, are checked folder by folder, since the scripts of
# each bear the same names; some examples export the net of the digits.
lint: .venv/.stamp-dev ## check format, style, types, imports between packages, changelog, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --explicit-package-bases --exclude '^$(TEMPLATES)/' $(SOURCES)
	for example in $(EXAMPLES); do \
		MYPYPATH=$$example:examples/digits/ $(BIN)/mypy --explicit-package-bases $$example || exit; done
	$(BIN)/lint-imports
	$(BIN)/python .ci/check_changelog.py
	$(BIN)/python -m docs.site

format: .venv/.stamp-dev ## format the code and repair what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.stamp-dev ## build the documentation as a site, into build/docs/site
	$(BIN)/python -m docs.site

bench: .venv/.stamp-dev model ## compare with other servers, side by side on this machine
	$(BIN)/python -m benchmarks $(ARGS)

chaos: .venv/.stamp-dev ## ten minutes of load and faults (or ARGS='--seconds 60 --seed 7')
	$(BIN)/python -m tests.chaos $(ARGS)

clean: ## remove .venv, the trained model, caches and builds
	rm -rf .venv build dist *.egg-info .*_cache .hypothesis .coverage htmlcov examples/*/model
	find . -name __pycache__ -prune -exec rm -rf {} +

model: # always after a stamp
	@$(BIN)/python examples/digits/train.py --if-missing

.venv/.stamp-run: pyproject.toml constraints.txt
	@PYTHON='$(PYTHON)' .ci/install examples honcho
	@touch $@

.venv/.stamp-dev: pyproject.toml constraints.txt
	@PYTHON='$(PYTHON)' .ci/install dev
	@touch .venv/.stamp-run $@

# An environment that was copied from another folder, or whose Python is gone, is none.
ifneq ($(wildcard .venv/.stamp-*),)
ifeq ($(shell { $(BIN)/python -c '' && grep -lF '$(CURDIR)/$(BIN)/' $(BIN)/honcho; } 2>/dev/null),)
.venv/.stamp-run .venv/.stamp-dev: discard-venv
endif
endif

discard-venv:
	rm -rf .venv
