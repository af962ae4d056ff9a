# `make help` lists what there is. Everything runs in .venv, which `make setup` makes when it is needed.
.DEFAULT_GOAL := help
.PHONY: help setup demo up down backup restore operator status test check check-deploy variables golden scaling load sim fuzz proto lock

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

# Each of the many processes would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# For the recipes below: how many hands the demo plays, with which deals; where `make up` listens; pytest's arguments.
export HANDS SEED PORT TABLE_NODES BOTS TLS_INSIDE CERT CERT_KEY
ARGS ?=
# Tests wait for servers a fifth of the time: three processes of them keep two cores busy.
TEST_PROCESSES ?= 3

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

up: setup ## start everything and leave it running (PORT=24080 TABLE_NODES=1 BOTS=0 TLS_INSIDE=0 CERT= CERT_KEY=)
	@$(RUN) $(PY) -m deploy.local up

down: setup ## stop what `make up` started; the data stays
	@$(PY) -m deploy.local down

backup: setup ## write the database of `make up` to a file (FILE=ddz.dump.gz), while it runs or not
	@$(RUN) $(PY) -m deploy.local backup $(if $(FILE),"$(FILE)")

restore: setup ## make the database of `make up` what it was in FILE=ddz.dump.gz; not while it runs
	@$(if $(FILE),$(RUN) $(PY) -m deploy.local restore "$(FILE)",echo "Name the file: make restore FILE=ddz.dump.gz" >&2; exit 1)

operator: setup ## make an account of `make up` an operator's (NAME=anna, by which it logs in)
	@$(if $(NAME),$(RUN) $(PY) -m deploy.local operator "$(NAME)",echo "Name the account: make operator NAME=anna" >&2; exit 1)

status: setup ## what of it runs, and where
	@$(PY) -m deploy.local status

test: setup ## all tests, against real servers that they start themselves (ARGS="-k ledger")
	@$(RUN) $(PY) -m pytest --numprocesses=$(TEST_PROCESSES) --dist=loadscope $(ARGS)

check: setup ## style, types, protos, generated code, import contracts
	@$(PY) -m deploy.local.check

check-deploy: setup ## Compose, Dockerfile and Kubernetes files by the real tools, in an environment of their own
	@$(PY) -m deploy.check

variables: setup ## write what the services read from the environment into docs/operations.md
	@$(PY) -m deploy.local.variables

scaling: setup ## compute docs/scaling.md from its figures
	@$(PY) docs/scaling.py

golden: setup ## add what this release stores of tables and hands to tests/golden; what is there stays
	@$(PY) -m tests.golden.make

fuzz: setup ## 100,000 random messages and as many random bytes through the gateway (ARGS="--messages 1000 --seed 2")
	@$(PY) -m tests.edge.fuzz $(ARGS)

proto: setup ## generate libs/ddz, docs/api and the descriptors from proto/
	@$(PY) proto/generate.py
	@$(PY) proto/generate.py --image build/ddz.binpb
	@$(PY) -m deploy.reference

load: setup ## people of all kinds play through the gateway; a report says how it went (ARGS="--help")
	@$(RUN) $(PY) -m tests.load $(ARGS)

sim: setup ## play hands in a simulated system that fails all the time, the same again for the same SEED (SEED=1 HANDS=1000)
	@$(RUN) $(PY) -m tests.sim.system

$(BENCHES): bench-%: setup
	@$(PY) -m tests.bench.bench_$* $(ARGS)

chaos: chaos-system ## everything is broken in turn under load, for ten minutes

$(CHAOS): chaos-%: setup
	@GRPC_ENABLE_FORK_SUPPORT=false $(PY) -m tests.chaos.chaos_$* $(ARGS)

$(SIMS): sim-%: setup
	@$(PY) -m tests.sim.sim_$* $(ARGS)

COMPILE := uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11
lock: ## pin all packages with their hashes: of .venv, of the image, of check-deploy (needs uv: https://docs.astral.sh/uv/)
	$(COMPILE) --group stack --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --constraints requirements.lock pyproject.toml -o deploy/containers/requirements.lock
	$(COMPILE) --constraints requirements.lock --group deploy -o deploy/check/requirements.lock
