# Needs Python >= 3.11 with pip, git and make; everything else is installed into .venv from the
# versions pinned in requirements.lock.

PYTHON ?= python3
INSTANCE ?= instances/transformer-4xA100.json.gz
TIME_LIMIT ?= 60
TIMELINE ?= results/timeline.png
TORCH ?= 2.13.0
DEVICE ?= cuda
BOKEH ?= 3.9.2
PLAYWRIGHT ?= 1.65.0
CHROMIUM := $(shell command -v chromium || command -v chromium-browser)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
TORCH_VENV := .venv-torch
TORCH_READY := $(TORCH_VENV)/.ready
DOCS_VENV := .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready
REPORT_VENV := .venv-report
REPORT_READY := $(REPORT_VENV)/.ready
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
PIP := $(PYTHON) -m pip --disable-pip-version-check --no-input --python $(BIN)/python install --quiet --no-deps --no-compile

# Modules are compiled when they are first imported, and kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install plan test coverage test-torch torch-gpu test-report docs lint format bench clean

help: ## List what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(COMPILED) ## Create the environment, and compile the loops that the machine lacks

plan: $(READY) ## Plan a transformer's training step on 4 devices and draw its timeline
	@mkdir -p $(dir $(TIMELINE))
	$(BIN)/milp-plan solve $(INSTANCE) --time-limit $(TIME_LIMIT) --plot $(TIMELINE)

# Two processes of tests would each compile the loops they meet: all are compiled before. One pass:
# collecting takes each process 12 s of its processor, and as much again where nothing was collected before.
test: $(COMPILED) ## Run all tests but the slow ones
	$(PYTEST)

# Coverage doubles the time of most tests and would triple that of random problems and loops.
coverage: $(READY) ## Run the tests that are traced with branch coverage of at least 90 %
	$(PYTEST) -m 'not untraced and not slow' --cov --cov-report=term:skip-covered --cov-fail-under=90

test-torch: $(TORCH_READY) ## Install torch (CPU, 1 GB) into .venv-torch and run what needs it
	$(TORCH_VENV)/bin/python -m pytest tests/examples tests/torch

torch-gpu: $(TORCH_READY) ## Time kernels, steps and peaks of PyTorch on an accelerator, write results/torch-gpu.md
	$(TORCH_VENV)/bin/python benchmarks/torch_device.py --device $(DEVICE)

# Loops are compiled before, else notebooks spend their time limits on it.
docs: $(DOCS_READY) $(COMPILED) ## Build the documentation site into build/docs; warnings are errors
	$(DOCS_VENV)/bin/python -m sphinx -W --keep-going -q -j auto -c docs -d build/doctrees . build/docs

test-report: $(REPORT_READY) ## Install Bokeh and Playwright into .venv-report and try reports in Chromium
	@test -n "$(CHROMIUM)" || \
	  { echo "make test-report needs Chromium: apt-get install chromium (Debian), then again" >&2; exit 1; }
	$(REPORT_VENV)/bin/python -m pytest tests/page

lint: $(READY) ## Check style, format, types and who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Solve every shipped instance again and write results/overview.md
	$(BIN)/python benchmarks/overview.py

clean: ## Remove the environment and all caches
	rm -rf $(VENV) $(TORCH_VENV) $(DOCS_VENV) $(REPORT_VENV) .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage* htmlcov dist build

# pip installs from outside (--python), so the machine needs neither ensurepip nor python3-venv. It
# uses one processor, most of the time to unpack; every package is pinned, so two of them take half each.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); milp_plan needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear --without-pip $(VENV)
	awk 'NR % 2' requirements.lock > $(VENV)/odd.txt
	awk 'NR % 2 == 0' requirements.lock > $(VENV)/even.txt
	$(PIP) --requirement $(VENV)/odd.txt & odd=$$!; \
	  $(PIP) --requirement $(VENV)/even.txt; even=$$?; wait $$odd && exit $$even
	$(PIP) --no-build-isolation --editable .
	@touch $@

# Finding out that nothing is to be compiled takes ten seconds: not asked where no source changed.
$(COMPILED): $(READY) $(shell find milp_plan -name '*.py')
	$(BIN)/milp-plan compile
	@touch $@

# Beside the pinned packages, which they see.
define beside
	$(PYTHON) -m venv --clear --without-pip $(1)
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
	  > $$($(1)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/pinned.pth
endef

# torch brings others of its own.
$(TORCH_READY): $(READY)
	$(call beside,$(TORCH_VENV))
	$(subst $(BIN),$(TORCH_VENV)/bin,$(filter-out --no-deps,$(PIP))) 'torch==$(TORCH)' onnx onnxscript
	@touch $@

$(DOCS_READY): $(READY) docs/requirements.txt
	$(call beside,$(DOCS_VENV))
	$(subst $(BIN),$(DOCS_VENV)/bin,$(PIP)) --requirement docs/requirements.txt
	@touch $@

$(REPORT_READY): $(READY)
	$(call beside,$(REPORT_VENV))
	$(subst $(BIN),$(REPORT_VENV)/bin,$(filter-out --no-deps,$(PIP))) 'bokeh==$(BOKEH)' 'playwright==$(PLAYWRIGHT)'
	@touch $@
