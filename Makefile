# What a checkout can do. `make help` lists it. Environments are made on first use and again when a lock changes.
.PHONY: help demo quick test test-whole test-openai2 test-newest test-instructor test-langchain test-tracers test-litellm test-ray
.PHONY: test-prometheus scrape llamacpp survival frameworks suites newest bench-litellm
.PHONY: coverage bench bounds streams measure lint format types pages docs wheel-smoke release-check release-ready
.PHONY: environments lock clean
.DEFAULT_GOAL := help

PY := .venv/bin/python
# Tests run on every processor, and one worker more is there while others wait for a process, a server or a time-out;
# WORKERS=0 runs them in one process, as a debugger needs it.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST = -m pytest -n $(WORKERS) --dist worksteal
# Tests start hundreds of Pythons: where none may keep its bytecode, each compiles openai and the rest again.
unexport PYTHONDONTWRITEBYTECODE
LANES := .venv/.ready .venv-demo/.ready .venv-openai2/.ready .venv-instructor/.ready .venv-tracers/.ready .venv-litellm/.ready \
    .venv-ray/.ready .venv-prometheus/.ready .venv-llamacpp/.ready .venv-docs/.ready \
    .venv-release/.ready
FRAMEWORKS := $(patsubst requirements/frameworks/%.txt,.venv-frameworks-%/.ready,$(wildcard requirements/frameworks/*.txt))
PEERS := $(patsubst requirements/peers/%.txt,.venv-peer-%/.ready,$(wildcard requirements/peers/*.txt))
BENCHES := $(patsubst requirements/bench/%.txt,.venv-bench-%/.ready,$(wildcard requirements/bench/*.txt))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: .venv-demo/.ready ## see replies validated, corrected and rejected: no key, no network
	@.venv-demo/bin/strictreply demo

# Nothing much waits here, and each worker collects all tests for itself: no more workers than processors.
quick: .venv/.ready ## run a look at every test file in a minute, for the work in between
	@$(PY) -m pytest -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal --quick --hypothesis-profile=quick $(ARGS)

# The second lane fills the gaps of the first, which waits for processes and sockets; what it prints is shown at the end.
# Every worker imports and collects all tests for itself, so the second lane has few: on two processors it is one process.
BESIDE ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) / 3)
test: .venv/.ready .venv-openai2/.ready ## run every test, a sample of the catalogue's cases, beside them what reaches an SDK on openai 2.x
	@lane=$$(mktemp); $(MAKE) --no-print-directory test-openai2 WORKERS=$(BESIDE) >$$lane 2>&1 & beside=$$!; \
	    trap 'kill $$beside; rm -f $$lane; exit 130' INT TERM; \
	    status=0; $(MAKE) --no-print-directory test-newest || status=$$?; \
	    wait $$beside || status=$$?; cat $$lane; rm -f $$lane; exit $$status

test-whole: .venv/.ready .venv-openai2/.ready ## run all tests, with what `make test` leaves out of the catalogue's laws and properties
	@$(MAKE) --no-print-directory test ARGS="--whole $(ARGS)"

test-newest: .venv/.ready ## run all tests on the newest openai
	@$(PY) $(PYTEST) $(ARGS)

test-openai2: .venv-openai2/.ready ## run the tests that reach an SDK on openai 2.x, at most four cases of each
	@.venv-openai2/bin/python $(PYTEST) --sdk-only --cases=4 $(ARGS)

test-instructor: .venv-instructor/.ready ## run the tests of instructor and of the client with instructor
	@.venv-instructor/bin/python $(PYTEST) --sdk-only tests/integrations/test_instructor*.py tests/client/test_client*.py tests/pages/test_client_page.py $(ARGS)

test-langchain: .venv-frameworks-newest/.ready ## run the pages about LangChain and the teams beside its own, where LangChain is
	@PYTHONPATH=src .venv-frameworks-newest/bin/python -m pytest -p no:xdist tests/pages/test_first_pages.py \
	    tests/integrations/test_langgraph_peers.py -k "langchain or peers" $(ARGS)

test-tracers: .venv-tracers/.ready ## run the tests of the tracers, with the real ones: none skips
	@STRICTREPLY_TRACERS_LANE=1 .venv-tracers/bin/python $(PYTEST) tests/tracers $(ARGS)

test-litellm: .venv-litellm/.ready ## run the tests of the guard in LiteLLM's proxy, with the real one: none skips
	@.venv-litellm/bin/python -m pytest tests/gateways $(ARGS)

bench-litellm: .venv-litellm/.ready ## measure what the guard adds to a request through LiteLLM's proxy
	@.venv-litellm/bin/python benchmarks/litellm_proxy.py $(ARGS)

test-ray: .venv-ray/.ready ## run the rows on a Ray cluster of two nodes, of which one is killed
	@.venv-ray/bin/python -m pytest tests/machines/test_batch_ray.py $(ARGS)

test-prometheus: .venv-prometheus/.ready ## let a real Prometheus scrape a program, and answer the dashboard: none skips
	@STRICTREPLY_PROMETHEUS_LANE=1 .venv-prometheus/bin/python -m pytest tests/prometheus $(ARGS)

scrape: .venv-prometheus/.ready .venv/.ready ## scrape that program anew, and draw docs/metrics.svg of it
	@cd tests && ../.venv-prometheus/bin/python -m support.prometheus.lane ../benchmarks/scraped.json
	@$(PY) tools/draw_charts.py

llamacpp: .venv-llamacpp/.ready ## install llama.cpp's own server, which the tests then start and talk to

survival: .venv/.ready $(PEERS) ## run the survival probe on every app of probes/, in its library's environment (ARGS=--sample)
	@$(PY) tools/probe_peers.py $(ARGS)

frameworks: .venv/.ready ## run a small program under each framework, with and without the guard (ARGS=--only=NAME,…)
	@$(PY) tools/run_frameworks.py $(ARGS)

suites: .venv/.ready ## run openai's own chat tests and LangChain's standard suites on a wrapped client (ARGS=openai)
	@$(PY) tools/run_suites.py $(ARGS)

newest: .venv/.ready .venv-uv/.ready ## run the lanes that stand on others' packages with their newest releases, unlocked (ARGS=NAME…)
	@$(PY) tools/newest.py $(ARGS)

coverage: .venv/.ready ## run the tests on the newest openai and show the branches they miss
	@$(PY) $(PYTEST) --cov $(ARGS)

bench: .venv/.ready $(BENCHES) ## measure a call beside the raw SDK and other libraries, write benchmarks/results.md (ARGS=--quick)
	@$(PY) benchmarks/bench.py $(ARGS)

bounds: .venv/.ready ## hold what judging costs to its bounds, as ratios within one run
	@$(PY) benchmarks/coordination.py

streams: .venv-streams/.ready ## print the figures of streams and of the early stop, llguidance beside them (ARGS=PREFIXES)
	@.venv-streams/bin/python benchmarks/streaming.py $(ARGS)

measure: .venv/.ready .venv-measure/.ready ## ask a small real model, and write docs/recovery.md of what fixes its bad replies (ARGS=--rows=3)
	@$(PY) benchmarks/recovery/measure.py $(ARGS)
	@$(PY) tools/write_recovery.py

lint: .venv/.ready ## check style, format and words
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) tools/lint_words.py

format: .venv/.ready ## fix what can be fixed automatically
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

types: .venv/.ready ## check types, with mypy and basedpyright
	@$(PY) -m mypy
	@$(PY) -m basedpyright --pythonpath $(PY)
	@PATH=$(dir $(abspath $(PY))):$$PATH PYTHONPATH=src python -m basedpyright --verifytypes strictreply --ignoreexternal

pages: .venv/.ready ## write anew what pages, their flows and schemas/ say of the code: codes, faults, servers, policy, keywords, dashboard
	@for tool in codes faults servers policy keywords schemas dashboard; do $(PY) tools/write_$$tool.py || exit 1; done
	@for tool in flow flows; do $(PY) tools/draw_$$tool.py || exit 1; done

docs: .venv-docs/.ready ## build the documentation site into site/, with strict links
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "Built site/; to read it with its search: python -m http.server --directory site --bind 127.0.0.1"

wheel-smoke: .venv/.ready ## build the wheel and use it in a fresh environment
	@tools/wheel_smoke.sh

release-check: .venv/.ready .venv-release/.ready ## build the distributions into dist/, and check what an index would show and install
	@rm -rf dist
	@.venv-release/bin/uv build --quiet --no-build-isolation --python $(PY)
	@.venv-release/bin/twine check --strict dist/*
	@.venv-release/bin/check-wheel-contents dist/*.whl

release-ready: .venv/.ready ## say what keeps a tag from being released (TAG=v0.2.0)
	@$(PY) tools/release.py "$$TAG"

environments: $(LANES) $(PEERS) $(FRAMEWORKS) ## make every environment but the benchmark's at once (-j2: two at a time)

lock: ## write the locks under requirements/ anew (needs uv; ARGS=--upgrade for the newest of everything)
	@tools/lock.sh $(ARGS)

clean: ## remove environments, caches and builds
	rm -rf .venv .venv-* build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage
	find src tests tools -name __pycache__ -prune -exec rm -rf {} +

.venv-uv/.ready: requirements/uv.txt tools/setup.sh
	@tools/setup.sh .venv-uv $<

.venv/.ready: requirements/dev.txt pyproject.toml tools/setup.sh | .venv-uv/.ready
	@tools/setup.sh .venv $<

.venv-peer-%/.ready: requirements/peers/%.txt pyproject.toml tools/setup.sh | .venv-uv/.ready
	@tools/setup.sh .venv-peer-$* $<

.venv-bench-strictreply/.ready: pyproject.toml
.venv-bench-%/.ready: requirements/bench/%.txt tools/setup.sh | .venv-uv/.ready
	@tools/setup.sh .venv-bench-$* $<

.venv-frameworks-%/.ready: requirements/frameworks/%.txt pyproject.toml tools/setup.sh | .venv-uv/.ready
	@tools/setup.sh .venv-frameworks-$* $<

.venv-%/.ready: requirements/%.txt pyproject.toml tools/setup.sh | .venv-uv/.ready
	@tools/setup.sh .venv-$* $<
