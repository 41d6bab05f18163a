# vitbench: everything that is done by hand. Each target makes the environment first, if it is missing or out of date.
#
#   make ablations                      run the default suite and render its report
#   make ablations SUITE=ablations/attention-ladder.toml
#   make test | bench | report | lint | setup | browser | latex | clean

PYTHON  ?= python3
SUITE   ?= ablations/components.toml
ARGS    ?=
STUDY   ?= $(notdir $(basename $(SUITE)))$(if $(findstring --small,$(ARGS)),-small)
RESULTS ?= results/$(STUDY)
REPORT  ?= reports/$(STUDY)

BIN   := .venv/bin
STAMP := .venv/.installed
AXE   := .venv/node_modules/axe-core/axe.min.js

.PHONY: ablations report test bench lint setup browser latex clean

# The report is rendered whatever the run's outcome, Ctrl-C included, and the run's exit status is the target's.
ablations: $(STAMP)
	@trap : INT; status=0; $(BIN)/vitbench run $(SUITE) --results $(RESULTS) $(ARGS) || status=$$?; \
	if [ -f $(RESULTS)/study.json ]; then $(BIN)/vitbench report $(RESULTS) --out $(REPORT) || exit $$?; fi; \
	exit $$status

report: $(STAMP)
	$(BIN)/vitbench report $(RESULTS) --out $(REPORT)

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadgroup

bench: $(STAMP)
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(STAMP)

# What the tests of pages need beside Python: Chromium, from the system's packages, and axe-core, which judges whether
# everybody can read them.
browser: $(AXE)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ apt-get update --quiet=2 && apt-get install --quiet=2 --yes chromium > /dev/null; }

# What the tests of tables for papers need.
latex:
	@command -v pdflatex || \
		{ apt-get update --quiet=2 && \
		apt-get install --no-install-recommends --quiet=2 --yes texlive-latex-recommended > /dev/null; }

$(AXE): $(STAMP)
	npm install --silent --no-audit --no-fund --no-save --prefix .venv axe-core@4.14.1

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "vitbench needs Python >= 3.11; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--config-settings editable_mode=compat --editable ".[dev]"
	@touch $(STAMP)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks .hypothesis
	find vitbench tests -name __pycache__ -type d -prune -exec rm -rf {} +
