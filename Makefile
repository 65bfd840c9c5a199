# Every target makes the environment it needs, once, in .venv.
PYTHON ?= python3
# Modules are compiled when they are first imported: most of them never are.
PIP_INSTALL = .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu quick check types style layers programs format docs site bench package clean

help:  ## Show this help
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

demo: .venv/core  ## Learn from a stream of real data, search it, draw the curve
	@.venv/bin/onlinehash demo

# Three jobs at a time, because each uses one core at most, and some wait.
test:  ## Run all checks and tests
	@$(MAKE) --no-print-directory -j3 --output-sync=line programs .venv/kernels types .venv/modules style layers || { echo "make test: the checks FAILED, see above; no test was run."; exit 1; }
	@.venv/bin/python -m pytest

# In the environment at hand, which has PyTorch and CuPy; another one: make test-gpu GPU=path/of/python
GPU ?= python3
test-gpu:  ## Run what needs a GPU, and measure it; results go to build/gpu
	@if $(GPU) -c "import pytest" 2> /dev/null; then PYTHONPATH=src $(GPU) -m pytest -p no:cacheprovider -o addopts="--import-mode=importlib" -m gpu tests/test_on_device.py tests/indexes/engines/test_gpu.py; fi
	@PYTHONPATH=src $(GPU) benchmarks/bench_gpu.py --out build/gpu

quick: .venv/dev  ## Run the quick tests only, in about a minute
	@.venv/bin/python -m pytest -m "not slow"

check: types style layers  ## Lint, types and layers only

types: .venv/dev
	@.venv/bin/mypy --no-error-summary

style: .venv/dev
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --check --quiet .

layers: .venv/dev
	@.venv/bin/lint-imports --no-logo > .venv/layers.txt || { cat .venv/layers.txt; exit 1; }

# Once per environment, beside the checks, so that no test waits for it: kernels, and modules, which each process that
# runs tests would compile for itself. Matplotlib would warn while it lists the fonts.
.venv/kernels: .venv/dev
	@OPENBLAS_NUM_THREADS=1 .venv/bin/onlinehash compile 2> $@.txt || { cat $@.txt; exit 1; }
	@touch $@

.venv/modules: .venv/dev
	@.venv/bin/python -c "import matplotlib.font_manager" 2> $@.txt || { cat $@.txt; exit 1; }
	@.venv/bin/python -m pytest --collect-only -qq -n 0 > $@.txt 2>&1 || { cat $@.txt; exit 1; }
	@touch $@

# Some tests start real programs: installed where that may be done, else those tests are skipped, and never if CI=true.
# Another installation, as machines start by themselves, is waited for.
PROGRAMS = chromium redis-server nats-server
APT_GET = DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3
programs:
	@PATH="$$PATH:/usr/sbin"; missing=; for program in $(PROGRAMS); do \
	  command -v $$program > /dev/null || missing="$$missing $$program"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "Installing for the tests:$$missing ..."; \
	    log=$$(mktemp); \
	    { $(APT_GET) update && $(APT_GET) install -y --no-install-recommends $$missing; } > $$log 2>&1 || \
	      { cat $$log; echo "SKIPPING the tests that need$$missing: they could not be installed, see above."; }; \
	    rm $$log; \
	  else echo "SKIPPING the tests that need$$missing: not installed, and this user may not."; fi; fi

format: .venv/dev  ## Rewrite the code in the one style
	@.venv/bin/ruff check --quiet --fix .
	@.venv/bin/ruff format --quiet .

docs: .venv/dev  ## Write the pages that are made of code and results
	@.venv/bin/python docs/generate.py

site: .venv/dev  ## Build the site into build/site
	@.venv/bin/mkdocs build --strict

bench: .venv/dev  ## Measure speed against competitors, as ratios in one run
	@.venv/bin/python -m benchmarks

# The wheel is built from the source archive, so that both are tried.
package: .venv/dev  ## Build the wheel and the source archive; try the wheel in an empty environment
	@rm -rf dist .venv/empty
	@.venv/bin/python -m build --quiet
	@$(PYTHON) -m venv .venv/empty
	@.venv/empty/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@cd .venv/empty && bin/python -W error -c "import onlinehash" && bin/python ../../tests/smoke.py
	@ls -sh dist

clean:  ## Remove the environment and everything generated
	@rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("onlinehash needs Python 3.11 or later, this is " + sys.version.split()[0] + ". Run: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@echo "Creating .venv (once, about a minute) ..."
	@$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml
	@$(PIP_INSTALL) -e .
	@touch $@

# By uv, which takes a fraction of the time; by pip where uv cannot, such as behind a mirror that only pip knows of.
.venv/dev: .venv/bin/python pyproject.toml
	@{ $(PIP_INSTALL) uv && .venv/bin/uv pip install --quiet --python .venv -e '.[dev]'; } 2> /dev/null || $(PIP_INSTALL) -e '.[dev]'
	@touch $@ .venv/core
