# `make` alone tells what there is. Every target prepares .venv by itself; a second run starts at once.

PYTHON3 ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python
ORDERCAST := $(VENV)/bin/ordercast
STAMP := $(VENV)/.installed
EXTRAS := lab,spark,cli,dashboard,dev
LOCK_VENV := $(VENV).lock

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test check format lock clean campaign mutants mutants-all mutants-fresh reproduce benchmark-simulator benchmark-pipeline benchmark-sweep benchmark-wire benchmark-live install

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-28s %s\n' "$$target" "$$text"; done

install: $(STAMP) ## only prepare .venv

demo: $(STAMP) ## the main job: a replicated bank, faults and all, then verified
	$(ORDERCAST) demo

test: $(STAMP) ## all tests, the fast ones first, then those on Spark, with two sessions
	$(PYTHON) -m pytest -n auto -m "not spark and not mutants"
	$(PYTHON) -m pytest -n 2 --dist loadfile -m spark || { test $$? -eq 3 && $(PYTHON) -m pytest -m spark; } # 3: the Java of a worker has ended

check: $(STAMP) ## lint, format, types, house rules
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest tests/test_tidy.py

format: $(STAMP) ## rewrite the code in the house format
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format

campaign: $(STAMP) ## random faults, 300 seeds per protocol
	$(ORDERCAST) simulate --campaign 300

mutants: $(STAMP) ## deliberately broken protocols must be caught
	$(PYTHON) -m pytest tests/mutants -m mutants -s

mutants-all: $(STAMP) ## every protocol and part changed by rule; OPTIONS="--module parts/consensus"
	$(PYTHON) -m tests.mutants.machine $(OPTIONS)

mutants-fresh: $(STAMP) ## fifty faults of one line, written without knowing the tests; OPTIONS="parts/link"
	$(PYTHON) -m tests.mutants.machine.fresh $(OPTIONS)

benchmark-simulator: $(STAMP) ## events per second of the simulator, beside simpy's
	$(PYTHON) benchmarks/simulator.py

benchmark-pipeline: $(STAMP) ## rows per second of the pipeline, beside pandas, Polars and DuckDB
	$(PYTHON) benchmarks/pipeline.py

benchmark-wire: $(STAMP) ## microseconds per datagram, beside bare AES-GCM
	$(PYTHON) benchmarks/wire.py

benchmark-live: $(STAMP) ## the live node beside the bare limit of sockets, and beside peers where they are
	$(PYTHON) benchmarks/live.py

benchmark-sweep: $(STAMP) ## experiments on Spark, beside multiprocessing
	$(PYTHON) benchmarks/sweep.py

reproduce: $(STAMP) ## every table and graph of the papers so far, into results/
	$(ORDERCAST) reproduce --all

lock: ## choose new versions of everything and write constraints.txt
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "make lock: needs PYTHON3=python3.11, the oldest supported Python, so that the pins fit every newer one" >&2; exit 2; }
	@echo "Resolving all dependencies anew in $(LOCK_VENV): some minutes, 500 MB to download."
	@rm -rf $(LOCK_VENV)
	@$(PYTHON3) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python -m pip install --quiet --upgrade pip
	@$(LOCK_VENV)/bin/python -m pip install --quiet --upgrade editables hatchling setuptools wheel -e ".[$(EXTRAS)]"
	@$(LOCK_VENV)/bin/python -m pip freeze --all --exclude ordercast | $(LOCK_VENV)/bin/python .ci/lock.py > constraints.txt.new
	@mv constraints.txt.new constraints.txt
	@rm -rf $(LOCK_VENV)

clean: ## remove .venv and everything generated
	rm -rf $(VENV) $(LOCK_VENV) build dist results ordercast-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .ordercast spark-warehouse artifacts
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Everything is installed by hash, and nothing that a package asks for while it is built comes from anywhere else: first
# pip and the build backends, then the rest, then this project. A .venv without a working pip is half-made: begin again.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "ordercast needs Python 3.11 or newer as $(PYTHON3); set PYTHON3=/path/to/python3" >&2; exit 2; }
	@echo "Installing ordercast and its dependencies into $(VENV): 1 to 5 minutes the first time, about 1.4 GB on disk."
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || $(PYTHON3) -m venv --clear $(VENV)
	@awk '/^[a-z]/ { wanted = /^(packaging|pip|setuptools|wheel)==/ } wanted' constraints.txt > $(VENV)/tools.txt
	@$(PYTHON) -m pip install --quiet --require-hashes -r $(VENV)/tools.txt
	@$(PYTHON) -m pip install --quiet --require-hashes --no-build-isolation -r constraints.txt
	@$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
