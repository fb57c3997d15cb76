# `make demo` and `make test` are all that a fresh machine with Python 3.11+ and make needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
ARGS ?=

.PHONY: fuzz help demo test wheel compiled test-compiled bench-compiled test-vllm compare compare-vllm lint format docs bench soak grid clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.run-installed ## four simulated engines, two policies, one table
	@$(BIN)/warmroute demo $(ARGS)

test: $(VENV)/.dev-installed ## the whole suite
	$(BIN)/pytest -n 2 --dist loadfile $(ARGS)

test-vllm: $(VENV)/.dev-installed ## real vLLM engines (needs VLLM_KIT and VLLM_DIR)
	$(BIN)/pytest -m vllm -s --timeout 900 tests/vllm $(ARGS)

compare-vllm: $(VENV)/.dev-installed ## round robin, approximate and exact mode in front of three real vLLM engines
	$(BIN)/pytest -m vllm -s --timeout 1200 tests/vllm/test_exact_mode.py $(ARGS)

wheel: $(BIN)/python ## dist/: a wheel with the path of a request compiled to C (needs a C compiler)
	$(PIP) install -c constraints.txt build
	HATCH_BUILD_HOOKS_ENABLE=true PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build --outdir dist

COMPILED := .compiled-venv
compiled: wheel ## that wheel in an environment of its own, .compiled-venv
	@$(PYTHON) -m venv --clear $(COMPILED)
	$(COMPILED)/bin/python -m pip --disable-pip-version-check -q install -c constraints.txt "$$(ls -t dist/*.whl | head -n 1)[dev,tokenizer]"
	@$(COMPILED)/bin/python -c 'from warmroute.build import code; assert code() == "compiled", code()'

test-compiled: compiled ## what is compiled passes its tests (ARGS=tests: the whole suite)
	$(COMPILED)/bin/pytest -n 2 --dist loadfile $(or $(ARGS),tests/scheduling tests/prompts tests/gateway tests/pd tests/faults tests/telemetry)

bench-compiled: compiled ## CPU per request of the compiled build
	$(COMPILED)/bin/python -m benchmarks.side_by_side $(ARGS)

lint: $(VENV)/.dev-installed ## style, types, floors, generated pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m warmroute.config.reference --check docs/reference/settings.md
	$(BIN)/python -m warmroute.metrics_reference --check docs/metrics.md

format: $(VENV)/.dev-installed ## fix what ruff can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.dev-installed ## write the generated reference pages
	$(BIN)/python -m warmroute.config.reference docs/reference/settings.md
	$(BIN)/python -m warmroute.metrics_reference docs/metrics.md

fuzz: $(VENV)/.dev-installed ## coverage-guided fuzzing of both parsers, ARGS seconds each (60)
	$(PIP) install -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz upstream -max_total_time=$(or $(ARGS),60)
	$(BIN)/python -m tests.fuzz edge -max_total_time=$(or $(ARGS),60)

bench: $(VENV)/.dev-installed ## CPU per request beside sglang-router, memory, selection time
	$(BIN)/python -m benchmarks.side_by_side $(ARGS)

DURATION ?= 180
soak: $(VENV)/.dev-installed ## kill and restart engines under 200 clients for DURATION seconds
	$(BIN)/python -m benchmarks.soak --duration $(DURATION) $(ARGS)

grid: $(VENV)/.dev-installed ## every policy on the public traces in TRACES (ARGS=--quick: a quick look)
	$(BIN)/python -m benchmarks.grid --traces $(TRACES) $(ARGS)

compare: $(VENV)/.dev-installed ## beside sglang-router, vllm-router and smg: what clients see (TRACES=DIR: recorded traffic as well)
	$(BIN)/python -m benchmarks.compare $(if $(TRACES),--traces $(TRACES)) $(ARGS)

clean: ## remove the environments and caches
	rm -rf $(VENV) $(COMPILED) .bench-venv dist .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "could not make a virtual environment; on Debian: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.run-installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev-installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev,tokenizer]'
	@touch $@ $(VENV)/.run-installed
