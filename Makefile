# Everything from a fresh clone: `make demo` to see it work, `make test` to check it. `make` alone lists the rest.
#
# What can be set:
#   VENV=.venv         the virtual environment, made on first use
#   PYTHON=python3.12  the Python that makes it
#   WORKERS=2          processes that run the tests, and that check types
#   A=... B=...        the two documents of the demo

VENV ?= .venv
PYTHON ?=
WORKERS ?= 2
CONSTRAINTS ?= constraints.txt
PYTEST_OPTIONS ?=

DOCUMENTS := examples/documents
A ?= $(DOCUMENTS)/salt-marshes-as-sea-defence.md
B ?= $(DOCUMENTS)/letting-the-tide-back-in.md
DEMO := demo

BIN := $(VENV)/bin
COMMA := ,
DEMO_READY := $(VENV)/.ready-for-demo
TEST_READY := $(VENV)/.ready-for-test
# A thread per test process: more only wait for each other.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest $(PYTEST_OPTIONS)

# The pip of a new environment can be years old and take twice as long. Compiled on all cores at once: left to pip it
# takes twice as long, left to the first imports it slows those. What nothing imports here is left as it is.
UNUSED := /tests?/|/transformers/models/(?!(auto|bert|roberta|xlm_roberta|modernbert)/|__init__)|/(openai|nltk|pip|sqlglot)/
define install
@$(BIN)/python -m pip install -qq --disable-pip-version-check 'pip>=25' || true
@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -c $(CONSTRAINTS) -e '.[$(1)]'
@$(BIN)/python -m compileall -qq -j 0 -x '$(UNUSED)' $(VENV)/lib || true
@touch $@
endef

.DEFAULT_GOAL := help
.PHONY: help demo test lint types pytest format test-slow bench size browser clean
.NOTPARALLEL:

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(DEMO_READY) ## compare two example documents, encode all, pretrain a graph on them, and search
	@mkdir -p $(DEMO)
	@echo; echo "1. Comparing two documents about the same subject in different words ..."
	@$(BIN)/graphdoc compare "$(A)" "$(B)" --model mini --html $(DEMO)/report.html --json $(DEMO)/comparison.json
	@echo; echo "2. Encoding every document of $(DOCUMENTS) ..."
	@$(BIN)/graphdoc encode $(DOCUMENTS) --model mini --output $(DEMO)/vectors --overwrite
	@echo; echo "3. Pretraining a graph on them, in half a minute, and drawing which passages of one document it looks at ..."
	@rm -rf $(DEMO)/quickstart
	@$(BIN)/graphdoc pretrain --config quickstart corpus.source=$(DOCUMENTS) output=$(DEMO)/quickstart
	@$(BIN)/graphdoc attention "$(A)" --model $(DEMO)/quickstart/model --plot $(DEMO)/attention.png
	@echo; echo "4. Searching them: how is a storm surge kept out of a harbour ..."
	@$(BIN)/graphdoc search $(DOCUMENTS) "how is a storm surge kept out of a harbour" --model mini --top-k 3 --html $(DEMO)/hits.html
	@echo; echo "Done. Where to look:"
	@echo "  $(DEMO)/report.html      open it in a browser: both texts side by side, every passage pair to click"
	@echo "  $(DEMO)/comparison.json  the same as data: scores, matrices, passages with their places in the text"
	@echo "  $(DEMO)/vectors/         one vector per document in Parquet (id, vector), and .manifest.json"
	@echo "  $(DEMO)/attention.png    which passages the graph of the model in $(DEMO)/quickstart looks at, by section"
	@echo "  $(DEMO)/hits.html        what the search found, and why"
	@echo "Your own documents: $(BIN)/graphdoc compare YOURS.md THEIRS.html --html report.html"

# All three run, so that one run tells everything that is wrong; the tests come last.
test: $(TEST_READY) ## check everything: lint, types, tests
	@status=0; \
	for step in lint types pytest; do $(MAKE) --no-print-directory $$step || status=1; done; \
	exit $$status

lint: $(TEST_READY) ## check style, formatting, the order of layers, and the scripts of the report
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config setup.cfg --no-logo
	@if command -v npx >/dev/null 2>&1; then \
		npx --yes @biomejs/biome@2.6.8 lint --error-on-warnings; \
	else \
		echo "The report's scripts and styles are not checked: npx (Node.js) is missing"; \
	fi

types: $(TEST_READY) ## check types
	# Where the machine is busy, the processes of mypy come too late for it (status 2); alone it needs none.
	$(BIN)/mypy -n $(WORKERS) || { [ $$? = 2 ] && $(BIN)/mypy; }

pytest: $(TEST_READY) ## run the tests alone
	$(PYTEST) -n $(WORKERS) --dist loadscope --no-loadscope-reorder

format: $(TEST_READY) ## format the code and mend what can be mended
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

test-slow: $(TEST_READY) ## run the tests that take minutes
	$(PYTEST) -m slow --hypothesis-profile=search

bench: $(TEST_READY) ## run every benchmark; tables go to benchmarks/results
	@for file in $$(grep -l '^if __name__' benchmarks/*.py); do echo "$$file"; $(BIN)/python $$file || exit 1; done

size: $(TEST_READY) ## how large everything is, beside its budgets
	@$(BIN)/python benchmarks/size.py

browser: ## install Chromium for the tests of the report, where no browser is found
	@.ci/browser

clean: ## remove what was made, except the virtual environment
	rm -rf $(DEMO) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find graphdoc tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@VENV="$(VENV)" PYTHON="$(PYTHON)" .ci/environment

$(DEMO_READY): setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "Installing graphdoc into $(VENV) (2 GB or more; several minutes in which pip is silent) ..."
	$(call install,offline$(COMMA)retrieval)

$(TEST_READY): setup.cfg pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	@echo "Installing graphdoc and its tools into $(VENV) (2 GB or more; several minutes in which pip is silent) ..."
	$(call install,offline$(COMMA)ingest$(COMMA)lora$(COMMA)track$(COMMA)retrieval$(COMMA)serve$(COMMA)dev)
	@touch $(DEMO_READY)
