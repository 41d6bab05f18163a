# vitbench: everything that is done by hand. Each target makes the environment first, if it is missing or out of date.
#
#   make ablations                      run the default suite, print the answer and render its report
#   make ablations SUITE=ablations/attention-ladder.toml
#   make test | bench | report | docs | lint | audit | setup | browser | latex | clean
#
# A run needs less than the tests do: `make ablations` installs requirements/run.txt, the others requirements/test.txt.

PYTHON  ?= python3
SUITE   ?= ablations/components.toml
ARGS    ?=
STUDY   ?= $(notdir $(basename $(SUITE)))$(if $(findstring --small,$(ARGS)),-small)
RESULTS ?= results/$(STUDY)
REPORT  ?= reports/$(STUDY)

BIN   := .venv/bin
RUN   := .venv/.run
TEST  := .venv/.test
AXE   := .venv/node_modules/axe-core/axe.min.js

.PHONY: ablations report test bench docs lint audit setup browser latex clean

# The report is rendered whatever the run's outcome, Ctrl-C included, and the run's exit status is the target's.
ablations: $(RUN)
	@trap : INT; status=0; $(BIN)/vitbench run $(SUITE) --results $(RESULTS) $(ARGS) || status=$$?; \
	if [ -f $(RESULTS)/study.json ]; then $(BIN)/vitbench report $(RESULTS) --out $(REPORT) || exit $$?; fi; \
	exit $$status

report: $(RUN)
	$(BIN)/vitbench report $(RESULTS) --out $(REPORT)

test: $(TEST)
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadgroup

bench: $(TEST)
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

# The docs as a site, in site/; a broken link or a name without documentation ends it.
docs: $(TEST)
	$(BIN)/mkdocs build --strict --quiet

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(TEST)

# What the tests of pages need beside Python: Chromium, from the system's packages, and axe-core, which judges whether
# everybody can read them.
browser: $(AXE)
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ apt-get update --quiet=2 && apt-get install -o DPkg::Lock::Timeout=300 --quiet=2 --yes chromium > /dev/null; }

# What the tests of tables for papers need.
latex:
	@command -v pdflatex || \
		{ apt-get update --quiet=2 && \
		apt-get install -o DPkg::Lock::Timeout=300 --no-install-recommends --quiet=2 --yes texlive-latex-recommended > /dev/null; }

$(AXE): $(TEST) requirements/npm/package-lock.json
	cp requirements/npm/package.json requirements/npm/package-lock.json .venv/
	npm ci --silent --ignore-scripts --no-audit --no-fund --prefix .venv

# Known faults of what is pinned. Where the database cannot be reached it says so, and nothing more.
audit: $(TEST)
	@$(BIN)/python -c 'import urllib.request; urllib.request.urlopen("https://pypi.org/pypi/pip/json", timeout=10).read()' \
		2> /dev/null || { echo "audit: the database of known faults cannot be reached"; exit 0; }; \
	for file in run test pip; do $(BIN)/pip-audit --require-hashes --disable-pip --progress-spinner off \
		--requirement requirements/$$file.txt || exit 1; done

# The pins are for the platform on which the tests run; elsewhere pip chooses.
PINNED := $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m))
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
EXTRAS_.run :=
EXTRAS_.test := [dev]

$(RUN) $(TEST): .venv/.%: pyproject.toml requirements/%.txt requirements/pip.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "vitbench needs Python >= 3.11; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …")'
	@echo "Installing into .venv what requirements/$*.txt names: $$(sed -n '1s/.*`; //p' requirements/$*.txt) That takes minutes, once."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
ifneq ($(PINNED),)
	$(PIP) --require-hashes --requirement requirements/pip.txt
	$(PIP) --require-hashes --requirement requirements/$*.txt
	$(PIP) --no-index --no-deps --no-build-isolation --config-settings editable_mode=compat --editable .
else
	$(PIP) --config-settings editable_mode=compat --editable ".$(EXTRAS_.$*)"
endif
	@touch $@

clean:
	rm -rf .venv build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .benchmarks .hypothesis
	find vitbench tests -name __pycache__ -type d -prune -exec rm -rf {} +
