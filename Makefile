# `make` lists the targets; each can be repeated safely.
VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(name)),$(name))))
EXTRAS := demo,postgres,redis,s3,delta,dev
STAMP  := $(VENV)/.installed
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup run ui test lint types bench bench-gpu clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## .venv with everything that is needed

# uv, itself from pip, installs in seconds what pip needs minutes for. It is told where pip looks; where it cannot
# find its way, pip does it.
$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: no python3 found; install Python 3.11 to 3.13"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	  || { echo "make: $(PYTHON) is $$($(PYTHON) -V 2>&1); Python 3.11 to 3.13 is needed (make PYTHON=...)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "make: $(PYTHON) cannot make a virtual environment; install its venv package"; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@UV_FIND_LINKS="$$PIP_FIND_LINKS" UV_DEFAULT_INDEX="$$PIP_INDEX_URL" $(BIN)/uv pip install --python $(BIN)/python \
	  --compile-bytecode --constraint constraints.txt --editable '.[$(EXTRAS)]' 2>&1 | grep -v '^ [+~-] ' \
	  && $(BIN)/python -c 'import dagster, torch' 2>/dev/null \
	  || $(BIN)/python -m pip install --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

run: $(STAMP) ## prepare the demo, train, score three days through Dagster, show the result
	@profile-assets quickstart

ui: $(STAMP) ## the Dagster UI on the same state, at http://127.0.0.1:3000
	@mkdir -p data
	@dagster dev --host 127.0.0.1 --port $(or $(PORT),3000)

test: $(STAMP) lint types ## the whole test suite, with linters and types
	@python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

lint: $(STAMP) ## ruff and import-linter
	@ruff check .
	@ruff format --check .
	@lint-imports --no-cache >/dev/null || lint-imports --no-cache

bench: $(STAMP) ## measure beside pandas, Ray and Spark (USERS=, ROUNDS=); writes benchmarks/RESULTS.md
	@python -m benchmarks all --users $(or $(USERS),2000000) --rounds $(or $(ROUNDS),3)

bench-gpu: $(STAMP) ## the same on one CUDA device
	@mkdir -p data/bench && python -m benchmarks.gpu | tee data/bench/gpu.md

types: $(STAMP) ## mypy
	@mypy

clean: ## remove the data and the demo's calendar; .venv stays
	rm -rf data
