# What a newcomer runs: `make run` and `make test`. Everything else is for working on the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
STAMP := $(VENV)/.installed
INSTALL := install --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(INSTALL)

# Tests start hundreds of interpreters; without bytecode each compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test check lint format docs release clean

# An agent that is killed and continues from its notes. On a terminal, the console follows until Ctrl-C.
run: $(DEMO)
	$(BIN)/retentive demo

# A third of the cases of each test; CI runs the others too. Many tests wait, so four processes are faster than three on
# two cores.
test: $(STAMP)
	@echo "A third of the cases of each test: 3 to 5 minutes on two cores. What is skipped is listed at the end."
	$(BIN)/python -m pytest -n $(or $(WORKERS),4) --dist worksteal --third --durations=20

# The long checks: `make check` lists them, `make check NAME=sample` runs one.
check: $(STAMP)
	$(BIN)/python scripts/check.py $(NAME)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The OpenAPI document, and the documentation site with the references of the library, the routes and the commands.
docs: $(STAMP)
	$(BIN)/python -m retentive.server.openapi > docs/openapi.new && mv docs/openapi.new docs/openapi.json
	$(BIN)/python scripts/documentation.py

release: $(STAMP)
	$(BIN)/python scripts/check.py release

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The demo needs an agent (anthropic), and the console; what the scripted Claude needs is part of that.
# Installing pip into the environment takes 5 s, a third of the whole, so the pip of $(PYTHON) is used if it can.
FOR_DEMO := ".[anthropic,server]"
$(DEMO): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python $(INSTALL) --editable $(FOR_DEMO) || \
		{ $(BIN)/python -m ensurepip >/dev/null && $(PIP) --editable $(FOR_DEMO); }
	touch $@

$(STAMP): $(DEMO)
	$(BIN)/python -m ensurepip >/dev/null
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".[all,claude-agent,deepagents,langchain,langgraph,openai-agents,pydantic-ai]" --group dev
	touch $@
