# One word runs each thing. ./scripts/test makes the environment; another Python: make test PYTHON=/path/to/python
PYTHON ?= .venv/bin/python

.PHONY: lint test check-native bench docs format clean environment

lint: environment  ## ruff and mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

test: environment  ## what needs no weights first, then the real models
	$(PYTHON) -m pytest -m "not needs_models"
	$(PYTHON) -m pytest -m needs_models

check-native:  ## the core under sanitizers, valgrind, an emulated Arm and fuzzers; SECONDS_PER_FUZZER=60
	./scripts/check_native --fuzz $(or $(SECONDS_PER_FUZZER),60)

bench: environment  ## plain against speculative on the Qwen pair, interleaved
	$(PYTHON) benchmarks/run_pair.py

docs: environment  ## regenerate docs/reference from the code
	$(PYTHON) scripts/generate_reference.py

format: environment
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

clean:  ## caches and builds; the environment and the models stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) -c "" 2>/dev/null || { echo "error: cannot run $(PYTHON): ./scripts/test makes the environment" >&2; exit 1; }
