# One word runs each thing. ./scripts/test makes the environment; another Python: make test PYTHON=/path/to/python
PYTHON ?= .venv/bin/python

.PHONY: help lint test check-native bench docs format clean environment

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

lint: environment  ## ruff and mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

test: environment  ## what needs no weights first, then the real models
	$(PYTHON) -m pytest -m "not needs_models"
	$(PYTHON) -m pytest -m needs_models

check-native:  ## the core under sanitizers, valgrind, an emulated Arm and fuzzers; SECONDS_PER_FUZZER=60
	./scripts/check_native --fuzz $(or $(SECONDS_PER_FUZZER),60)

bench: environment  ## the verify curve, then plain against speculative on the Qwen pair; a few minutes on two cores
	mkdir -p build
	$(PYTHON) -m outrider bench curve -m qwen2.5-coder-1.5b --rows 1..9,16,17,32 --prompt-rows 128 --repeat 3 --json build/bench-curve.json
	$(PYTHON) benchmarks/run_pair.py -n 96 --output build/bench-pair.json

docs: environment  ## regenerate docs/reference from the code, and the tables of docs/benchmarks.md from the result files
	$(PYTHON) scripts/generate_reference.py
	$(PYTHON) -m scripts.render_benchmarks

format: environment
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

clean:  ## caches and builds; the environment and the models stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) -c "" 2>/dev/null || { echo "error: cannot run $(PYTHON): ./scripts/test makes the environment" >&2; exit 1; }
