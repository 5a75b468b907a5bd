# Every target says what it does; `make` alone lists them.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
SECTION ?= all
SEEDS   ?= 20000
MUTATIONS ?= 10000
# Tests wait for disks and servers more than they compute: more of them at once than there are cores.
JOBS    ?= 4
# The peers of the benchmark have an environment of their own; the images need none of it.
PEERS       := .venv-bench
PEERS_STAMP := $(PEERS)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test fresh check serve bench soak lock format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "  make %-9s %s\n", $$1, $$2}'

install: $(STAMP) ## create .venv with everything the project needs

$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## run the sample collection through the preprocess pipeline and check the outcome
	$(BIN)/python samples/demo.py

serve: demo ## show the demo's results in a browser, on loopback only
	@echo "Look at http://127.0.0.1:8000/ (Ctrl-C ends it)"
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory demo-out

check: $(STAMP) ## format, lint, types, import contracts, fast tests; two minutes
	$(BIN)/ruff format --check src tests bench samples docs
	$(BIN)/ruff check src tests bench samples docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow and not service and not soak"

test: $(STAMP) ## everything CI runs
	$(BIN)/ruff format --check src tests bench samples docs
	$(BIN)/ruff check src tests bench samples docs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=25 -m "not soak" tests/faults tests/simulation tests/acceptance tests

fresh: $(STAMP) ## make test as CI runs it: empty home, empty temporary folder, nothing of your environment
	.ci/isolated make --no-print-directory test JOBS=$(JOBS)

bench: $(STAMP) $(if $(filter engine ocr_pdf queues all,$(SECTION)),$(PEERS_STAMP)) ## measure: make bench [SECTION=compute|engine|images|ingest|ocr_pdf|queues]; writes bench/results.json
	$(BIN)/python bench/run.py $(SECTION)

# When it cannot be made, the peers' rows say that they were not run; the rest is measured all the same.
$(PEERS_STAMP): requirements-bench.lock
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	-$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-bench.lock && touch $@

soak: $(STAMP) ## many seeds of the simulations, every order of the bucket's protocol, damaged files of every kind, long campaigns: make soak [SEEDS=20000] [MUTATIONS=10000]
	$(BIN)/python -m tests.simulation.flow --seeds $(SEEDS)
	$(BIN)/python -m tests.simulation.library.simulation --seeds $(SEEDS)
	$(BIN)/python -m tests.simulation.library.explorer
	$(BIN)/python -m tests.documents.mutated.campaign --files $(MUTATIONS)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m soak tests
	KILLS=50 MESSAGES=10000 LIBRARY_WORKERS=20 LIBRARY_JOBS=2000 $(BIN)/python -m pytest --timeout=3600 tests/faults/test_run_killed.py tests/faults/test_consumers.py tests/faults/test_library_killed.py
	FLIPS=500 $(BIN)/python -m pytest -n 2 --timeout=3600 tests/faults/test_flipped_bits.py tests/faults/test_flipped_pages.py tests/faults/test_flipped_messages.py

lock: $(STAMP) ## resolve the dependencies anew into requirements.lock and requirements-bench.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --group dev --generate-hashes --no-header pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --group bench --generate-hashes --no-header -o requirements-bench.lock

format: $(STAMP) ## let ruff write the code's shape
	$(BIN)/ruff format src tests bench samples docs
	$(BIN)/ruff check --fix src tests bench samples docs

clean: ## remove what the targets above made
	rm -rf $(VENV) $(PEERS) demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis bench/data
