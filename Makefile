# What people run and what CI runs is the same line.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: setup demo demo-llm bench test screenshots lint types docs figures clean help
.DEFAULT_GOAL := help

help:  ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt --upgrade pip
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.tools: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e ".[test,lint,eval,docs]"
	@touch $@

$(VENV)/.browser: $(VENV)/.tools .ci/browser
	@if .ci/browser; then touch $@; fi

setup: $(VENV)/.installed  ## make .venv and install gapo

demo: $(VENV)/.installed  ## SimPO and GAPO on the miniature lab with 20 % wrong labels
	$(BIN)/gapo train mini

demo-llm: $(VENV)/.installed  ## GAPO on a real language model, SmolLM2-135M-Instruct
	$(BIN)/gapo train quickstart

bench: $(VENV)/.tools  ## one step of TRL and of gapo: time, memory, growth; writes results/bench
	$(BIN)/gapo bench --growth

test: $(VENV)/.tools $(VENV)/.browser  ## the whole test suite
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

screenshots: $(VENV)/.tools $(VENV)/.browser  ## redraw the pictures of pages in docs/images
	HF_HUB_OFFLINE=1 GAPO_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser/test_screenshots.py

lint: $(VENV)/.tools  ## ruff: undefined names, imports, style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.tools  ## mypy, strict for objectives, anchor and perturb
	$(BIN)/mypy

docs: $(VENV)/.tools  ## the site, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet  # without the theme's notice about its successor

figures: $(VENV)/.installed  ## docs/images and the computed tables of docs and README
	$(BIN)/python -m gapo.report.method_figures docs
	$(BIN)/python -m gapo.report.consensus_figures docs
	$(BIN)/python -m gapo.runs.scaling docs/distributed.md
	$(BIN)/python -m gapo.report.front_page README.md

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
