# Everything starts from a fresh machine with Python 3.11 to 3.13: targets make their own environment with the newest.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  $$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; \
  done)
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
PEERS := .venv-peers
VISION := $(VENV)/vision
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo quick test coverage check lint bench gpu-check fuzz torture site dist clean

help:  ## these lines
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name what; do \
	  printf '  %-10s %s\n' "$$name" "$$what"; done

demo: $(READY)  ## Wang & Liu's temperature study on the embedded digits: claims in the terminal, a report to open
	$(RUN)/isotherm study temperature --scale demo --out demo/temperature

quick: $(DEV)  ## the fast tests, for every edit: about two minutes
	$(RUN)/python -m pytest -n 2 -m "not slow"

test: $(DEV) $(VISION)/.ready  ## every test, on all cores; detection where only it sees torchvision
	$(RUN)/python -m pytest -n 2
	PYTHONPATH=$(VISION) $(RUN)/python -m pytest tests/evaluate/test_detection.py tests/data/test_scenes.py

coverage: $(DEV)  ## which lines the tests reach, by folder
	$(RUN)/python -m pytest -n 2 --cov --cov-report=
	@for room in engine losses pairing temperature measures probes; do \
	  printf '%-12s ' $$room; \
	  $(RUN)/coverage report --include="src/isotherm/$$room/*,src/isotherm/$$room.py" --format=total; \
	done
	$(RUN)/coverage report --skip-covered --sort=cover | tail -n 25

check: lint test  ## what CI runs

lint: $(DEV)  ## style, types, import contracts
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

bench: $(PEERS)/.ready  ## the losses against the peers, in an environment of its own
	$(PEERS)/bin/isotherm bench losses --peers --pairs 128 1024 4096 8192 65536 --json docs/benchmarks/losses.json

gpu-check: $(DEV)  ## the fused kernels of this machine's GPU against float64, two GPUs against one, the loss benchmark, a step's profile
	$(RUN)/python -m pytest -v tests/engine/on_gpu.py
	$(RUN)/isotherm bench losses --device cuda --pairs 1024 4096 8192 --json gpu-check.json
	$(RUN)/isotherm bench step --device cuda --json gpu-check-step.json

TIME ?= 1h
fuzz: $(DEV)  ## damaged files against every reader for TIME (1h); the suite has a seeded minute of it
	PYTHONPATH=tests $(RUN)/python tests/attacks/fuzz.py --time $(TIME)

COUNT ?= 100
torture: $(DEV)  ## COUNT (100) runs, torchruns, studies and downloads killed at random moments; all must end as if nothing had been
	PYTHONPATH=src:tests:tests/attacks $(RUN)/python -W ignore tests/attacks/torture.py --count $(COUNT)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "isotherm needs Python 3.11, 3.12 or 3.13 with venv; say PYTHON=… if yours has another name"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install -c constraints.txt -e '.[lab]'
	@touch $@

$(DEV): $(READY)  # the tests also train with the libraries of sentences and on a Ray cluster
	$(RUN)/pip install -c constraints.txt -e '.[lab,ray,dev]'
	-$(RUN)/pip install -c constraints.txt triton  # without it the tests of the fused kernels skip
	@touch $@

$(VISION)/.ready: $(DEV)  # a folder apart: a torchvision that does not import breaks transformers (docs/decisions/0004)
	-$(RUN)/pip install -c constraints.txt --no-deps --upgrade --target $(VISION) torchvision pycocotools
	@mkdir -p $(VISION)  # without them the tests of detection skip
	@touch $@

$(PEERS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install -c constraints.txt -e '.[lab,peers]'
	@touch $@

site: $(DEV)  ## the docs as a site in site/, with every loss and its equation; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build
	@echo "open site/index.html, or serve it: $(RUN)/mkdocs serve"

dist: $(DEV)  ## the wheel and the source distribution, in dist/
	$(RUN)/pip install -c constraints.txt build
	$(RUN)/python -m build --outdir dist

clean:  ## away with the environments, demo/, dist/ and site/
	rm -rf $(VENV) $(PEERS) demo dist site
