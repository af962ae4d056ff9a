# `make help` lists what there is. Everything runs in .venv, which `make setup` makes when it is needed.
.DEFAULT_GOAL := help
.PHONY: help setup demo up down status test check proto lock

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 demo` names another.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
PY := .venv/bin/python
# What a recipe runs takes the place of its shell, and learns who its make is, to end when that is killed.
RUN := exec env DDZ_MAKE_PID=$$PPID
# In the locale C Python cannot find the environment below a path with letters of other scripts.
ifneq ($(filter C POSIX,$(LC_ALL)),)
export LC_ALL := C.UTF-8
endif

# For the recipes below: how many hands the demo plays, with which deals; where `make up` listens; pytest's arguments.
export HANDS SEED PORT TABLE_NODES
ARGS ?=

# Whatever measures (tests/bench/bench_NAME.py), breaks things on purpose (tests/chaos/chaos_NAME.py) or simulates
# (tests/sim/sim_NAME.py) is a target.
BENCHES := $(patsubst tests/bench/bench_%.py,bench-%,$(wildcard tests/bench/bench_*.py))
CHAOS := $(patsubst tests/chaos/chaos_%.py,chaos-%,$(wildcard tests/chaos/chaos_*.py))
SIMS := $(patsubst tests/sim/sim_%.py,sim-%,$(wildcard tests/sim/sim_*.py))
.PHONY: $(BENCHES) $(CHAOS) $(SIMS)

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@for target in $(BENCHES) $(CHAOS) $(SIMS); do \
		kind=$${target%%-*}; file=tests/$$kind/$${kind}_$${target#*-}.py; \
		printf '  make %-14s %s\n' $$target "$$(sed -n '1s/^"""//; 1s/^`make [a-z-]*`: //; 1s/"""$$//; 1s/\.$$//; 1p' $$file)"; \
	done

setup: ## the environment in .venv (every other target does it when needed)
	@$(if $(PYTHON),$(RUN) $(PYTHON) deploy/local/setup.py,echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=/path/to/python3.12" >&2; exit 1)

demo: setup ## start everything, play settled hands of all three rule books, stop everything (HANDS=12 SEED=1)
	@$(RUN) $(PY) -m deploy.local demo

up: setup ## start everything and leave it running (PORT=24080 TABLE_NODES=1)
	@$(RUN) $(PY) -m deploy.local up

down: setup ## stop what `make up` started; the data stays
	@$(PY) -m deploy.local down

status: setup ## what of it runs, and where
	@$(PY) -m deploy.local status

test: setup ## all tests, against real servers that they start themselves (ARGS="-k ledger")
	@$(RUN) $(PY) -m pytest $(ARGS)

check: setup ## style, types, protos, generated code, import contracts
	@$(PY) -m deploy.local.check

proto: setup ## generate libs/ddz and the descriptors from proto/
	@$(PY) proto/generate.py
	@$(PY) proto/generate.py --image build/ddz.binpb

$(BENCHES): bench-%: setup
	@$(PY) -m tests.bench.bench_$* $(ARGS)

$(CHAOS): chaos-%: setup
	@$(PY) -m tests.chaos.chaos_$* $(ARGS)

$(SIMS): sim-%: setup
	@$(PY) -m tests.sim.sim_$* $(ARGS)

lock: ## pin all packages with their hashes in requirements.lock (needs uv: https://docs.astral.sh/uv/)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		--group stack --group dev pyproject.toml -o requirements.lock
