# What a checkout can do. `make help` lists it. Environments are made on first use and again when a lock changes.
.PHONY: help demo test test-openai2 coverage lint format types wheel-smoke lock clean
.DEFAULT_GOAL := help

PY := .venv/bin/python

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: .venv/.ready ## see replies judged, corrected and refused, without a key or a network
	@.venv/bin/strictreply demo

test: test-openai2 .venv/.ready ## run the tests on both lanes: openai 2.x, then the newest
	@$(PY) -m pytest $(ARGS)

test-openai2: .venv-openai2/.ready
	@.venv-openai2/bin/python -m pytest $(ARGS)

coverage: .venv/.ready ## run the tests on the newest openai and show the branches they miss
	@$(PY) -m pytest --cov $(ARGS)

lint: .venv/.ready ## check style and format
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check

format: .venv/.ready ## mend what can be mended by itself
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

types: .venv/.ready ## check types, with mypy and basedpyright
	@$(PY) -m mypy
	@$(PY) -m basedpyright --pythonpath $(PY)

wheel-smoke: .venv/.ready ## build the wheel and use it in a fresh environment
	@tools/wheel_smoke.sh

lock: ## write requirements/*.txt anew (needs uv; ARGS=--upgrade for the newest of everything)
	@tools/lock.sh $(ARGS)

clean: ## remove environments, caches and builds
	rm -rf .venv .venv-openai2 build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +

.venv/.ready: requirements/dev.txt pyproject.toml tools/setup.sh
	@tools/setup.sh .venv requirements/dev.txt

.venv-openai2/.ready: requirements/openai2.txt pyproject.toml tools/setup.sh
	@tools/setup.sh .venv-openai2 requirements/openai2.txt
