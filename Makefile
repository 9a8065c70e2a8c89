# Every verb sets up what it needs; Python 3.11 or later, git and make are all that is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH :=
# A test run starts thousands of programs; without bytecode each of them would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test suite lint style types format torture mutants integration agents matrix suites bench proof clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "cortex-replay needs Python 3.11 or later; say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What is imported is compiled then; three quarters of what is installed never is.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable
$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	$(INSTALL) .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) '.[dev]'
	@touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime ## Record an agent, verify, replay it, and refuse a changed byte
	@$(BIN)/python -m examples.demo

# mypy keeps one core busy for a minute where it has no cache: it runs beside the tests, and the other way round.
test: style ## Lint, run the tests (long families in part, other cases with every commit), verify our own store
	@$(MAKE) --no-print-directory --jobs=2 types suite
	$(BIN)/cortex-replay verify --strict

# Parts whose own tests have to cover them, branches and all: the floor is in pyproject.toml. Some of these tests are
# elsewhere: commands that a part was made for, attacks on it, and a bucket behind it.
COVERED := tests/engine tests/redact tests/store tests/wire tests/types tests/test_canonical.py tests/test_strict_json.py \
  $(patsubst %,tests/cli/test_%.py,export index receipt repack resolve sign) $(patsubst %,tests/security/test_%.py,git marks) \
  tests/gateway/test_kept_prompts.py tests/sharing/test_reading.py
# Tests of these parts that work hard and reach nothing more: tracing doubles what they take.
UNTRACED := tests/redact/test_figures.py tests/redact/test_linear.py tests/store/git/test_living_in_git.py
REST := $(filter-out $(COVERED),$(patsubst %/,%,$(wildcard tests/*/)) $(wildcard tests/test_*.py)) $(UNTRACED)
# Once, by one process that is not traced: or each worker compiles all that it collects, at the same time. And the
# whole package, since sandboxes of tests write no bytecode.
$(VENV)/.compiled: $(VENV)/.dev
	@$(BIN)/python -m compileall -q cortex_replay
	@MAKEFLAGS= $(BIN)/pytest --collect-only -qq >/dev/null && touch $@ || true  # the suite says what is wrong

suite: $(VENV)/.compiled ## The tests alone, with the coverage of five parts
	@rm -rf $(VENV)/coverage && mkdir $(VENV)/coverage
	MAKEFLAGS= $(BIN)/coverage run -m pytest -q -n 2 --dist worksteal $(COVERED) $(UNTRACED:%=--ignore=%)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	MAKEFLAGS= $(BIN)/pytest -q -n 3 --dist worksteal $(REST) $(COVERED:%=--ignore=%)

lint: style types ## ruff and mypy, strict

style: $(VENV)/.dev ## ruff
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy --no-error-summary

format: $(VENV)/.dev ## Rewrite the code in the project's format
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

# Whatever takes a part of its cases in `make test`.
SAMPLED := tests/adapters tests/cli tests/property tests/torture tests/security tests/store tests/misses tests/run tests/pytest_plugin tests/engine/mcp \
  tests/test_workflows.py
torture: $(VENV)/.dev ## The randomised and the crash tests, at full length; 64 recorders over S3 (needs go)
	CORTEX_REPLAY_TORTURE=1 $(BIN)/pytest -n 2 $(SAMPLED)
	CORTEX_REPLAY_TORTURE=1 $(BIN)/pytest integration/remote/test_fleet.py

mutants: $(VENV)/.dev ## Plant every bug of tests/mutants, one at a time, and see that a test fails (about 15 minutes)
	$(BIN)/python -m tests.mutants

integration: $(VENV)/.dev ## The roads of newcomers; crtx-llm, Ollama, agents, other mocks, S3 servers, broken connections (needs cargo, cc, go, npm)
	$(BIN)/pytest integration --ignore=integration/suites

agents: $(VENV)/.dev ## Replay five coding agents elsewhere, and write the table of docs/agents.md (needs cc, npm; 5 minutes)
	$(BIN)/python -m integration.agents.measure

suites: $(VENV)/.dev ## Public suites, with vcrpy and moved over; the table of docs/migrating.md (takes an hour)
	$(BIN)/python -m integration.suites

matrix: $(VENV)/.dev ## Run every client by every road, and write docs/clients.md (needs cargo, go, npm; 20 minutes)
	$(BIN)/python -m integration.matrix.run

proof: $(VENV)/.dev ## Kills, power losses, flipped bits, load and more, beside others; writes docs/proof.md (needs strace, npm; 20 minutes)
	$(BIN)/python -m integration.proof

bench: $(VENV)/.dev ## Speed beside peers, and what became slower; PUBLISH=1 writes docs/benchmarks.md, BENCH="bytes full" runs some
	$(BIN)/python benchmarks/run.py $(BENCH) $(if $(PUBLISH),--publish)

clean: ## Remove what the other targets made
	rm -rf $(VENV) .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
