# The two commands of the README: `make demo` and `make test`. Everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo test portable slow long lint docs clean

setup: $(VENV)/installed

# The constraints pin torch to a CPU build where one is offered; bring your own with `make setup CONSTRAINTS=`.
CONSTRAINTS ?= -c constraints.txt
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(CONSTRAINTS) -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/calibsft run tiny
	@echo "The command is $(BIN)/calibsft; after 'source $(BIN)/activate' it is calibsft: try calibsft --help"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Files of tests side by side on two cores; each process keeps to one torch thread. In the order of their names the long
# ones, which start whole commands, come first, so that both cores have work until the end.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test: lint
	$(PYTEST)

# Whole runs, and processes that train together.
long: setup
	$(PYTEST) -m "long and not slow"

# Each line makes this processor round as another kind does; the last trains the tests' models under another seed,
# which changes them more than any rounding. All of them run, so that one failure does not hide another.
portable: setup
	@failed=0; for machine in \
	  "MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2" \
	  "MKL_CBWR=COMPATIBLE" \
	  "ATEN_CPU_CAPABILITY=default" \
	  "CALIBSFT_TEST_TRAINING_SEED=1"; \
	do echo "== $$machine"; env $$machine $(PYTEST) || failed=1; done; exit $$failed

slow: setup
	$(BIN)/pytest -m slow

# The documentation as a site, which no page of another host is needed for: open site/index.html. Without the variable,
# the theme prints an advertisement.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) runs site
