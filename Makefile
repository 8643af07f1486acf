# Everything a contributor runs.  `make help` lists it.
#
# Needed: GNU make, Python >= 3.11 with venv, a C++ compiler.  The rest (cmake and ninja too) is
# installed into .venv by pip.  PYTHON= and CXX= choose the interpreter and the compiler.

VENV := .venv
BIN := $(VENV)/bin
SPHINXOPTS ?= -W --keep-going
PYTEST_ARGS ?=

# -qq shows errors, the compiler's too, and nothing else.
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq

# What the installed package is made from.  Directories too: a removed file changes its directory.
SOURCES := pyproject.toml CMakeLists.txt \
           $(shell find src ! -name '__pycache__' ! -name '*.py[co]')

# A PYTHON= other than the one .venv was made with makes .venv anew.
MADE_WITH := $(shell cat $(VENV)/.stamp-python 2>/dev/null)
ifneq ($(PYTHON),)
ifneq ($(MADE_WITH),)
ifneq ($(PYTHON),$(MADE_WITH))
ANEW := anew
endif
endif
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test slow sanitize lint docs bench clean anew

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'
	@echo
	@echo "  PYTHON=python3.12 and CXX=clang++ choose the interpreter and the compiler"
	@echo "  (after a new CXX=, make clean); PYTEST_ARGS='-k certificate' passes options to pytest."

demo: $(VENV)/.stamp-lupi $(VENV)/.stamp-experiments ## set up, compare on data that ships with scikit-learn
	@rm -rf build/demo
	@$(BIN)/lupi compare --demo --out build/demo

test: lint ## set up, check style and types, run the tests
	@$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

slow: $(VENV)/.stamp-lupi $(VENV)/.stamp-test ## set up, run the tests that take long
	@$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

# The tests that reach the core, on a copy of the package that is built with the sanitizers. Python itself
# is not, so their library goes first, and libstdc++ with it, whose exceptions it looks at; what Python
# keeps until it ends is not a leak of ours.
SANITIZED := build/sanitized
SANITIZE_TESTS := core certificates references properties failures svmplus_estimator
sanitize: $(VENV)/.stamp-lupi $(VENV)/.stamp-test ## set up, test the core under Address- and UBSanitizer
	@$(PIP) --no-build-isolation --no-deps --upgrade --target $(SANITIZED) \
	    -C build-dir=build/sanitize -C cmake.define.LUPI_SANITIZE=ON .
	@PYTHONPATH=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	    UBSAN_OPTIONS=print_stacktrace=1 \
	    LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	    $(BIN)/python -m pytest -m "not slow" -k "not interrupt" --patience 20 -p no:cacheprovider \
	    $(or $(PYTEST_ARGS),$(SANITIZE_TESTS:%=tests/test_%.py))

lint: $(VENV)/.stamp-lupi $(VENV)/.stamp-test ## set up, check style and types
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || \
	    { echo "lupi: the files below are not formatted; run $(BIN)/ruff format ." >&2; \
	      $(BIN)/ruff format --check . >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary

docs: $(VENV)/.stamp-lupi $(VENV)/.stamp-docs ## set up, run the examples, build docs/_build/html
	@$(BIN)/sphinx-build -q -E -b html $(SPHINXOPTS) docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.stamp-lupi $(VENV)/.stamp-bench ## set up, run the benchmarks (takes a while)
	@$(BIN)/python benchmarks/run.py

clean: ## remove .venv and everything that was built
	@rm -rf $(VENV) build dist docs/_build docs/auto_examples docs/generated \
	    .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find src tests examples docs benchmarks tools -name '__pycache__' -type d -prune -exec rm -rf {} +

# --- Set-up.  Each stamp marks a step that is done. ----------------------------------------------

$(VENV)/.stamp-python: $(ANEW)
	@python=$$(sh tools/check_machine.sh) || exit 1; \
	echo "Setting up $(VENV) with $$python: the first time takes a minute or two."; \
	$(if $(ANEW),rm -rf $(VENV);) \
	"$$python" -m venv $(VENV) && echo "$$python" > $@

$(VENV)/.stamp-build: $(VENV)/.stamp-python pyproject.toml tools/requirements.py
	@$(BIN)/python tools/requirements.py build > $@.txt && $(PIP) -r $@.txt && touch $@

$(VENV)/.stamp-lupi: $(VENV)/.stamp-build $(SOURCES)
	@$(PIP) --no-build-isolation . && touch $@

# What an extra asks for: .stamp-experiments, .stamp-test, .stamp-docs, .stamp-bench.
$(VENV)/.stamp-%: $(VENV)/.stamp-python pyproject.toml tools/requirements.py
	@$(BIN)/python tools/requirements.py $* > $@.txt && $(PIP) -r $@.txt && touch $@
