# What a newcomer runs: `make run` and `make test`. Everything else is for working on the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
FRAMEWORKS := $(VENV)/.frameworks
RELEASE := $(VENV)/.release
AUDIT := $(VENV)/.audit
UV := $(VENV)/.uv
STAMP := $(VENV)/.installed
INSTALL := install --quiet --disable-pip-version-check
PIP := $(BIN)/python -m pip $(INSTALL)

# Many tests wait, so four processes are faster than three on two cores. In the longer profiles, each has larger stores.
WORKERS ?= 4
test-sample test-long test-full: WORKERS = 3
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=20

# Tests start hundreds of interpreters; without bytecode each compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-sample test-long test-full test-clusters test-frameworks test-image test-file-systems \
	test-extras test-lowest test-packages newest-python lint types audit fuzz format docs bundles release \
	bench clean

# An agent that is killed and continues from its notes. On a terminal, the console follows until Ctrl-C.
run: $(DEMO)
	$(BIN)/retentive demo

test: $(STAMP)
	$(PYTEST)

# What CI runs after `make test`: the long profile without the tests that `make test` has too, except faults and
# histories.
test-sample: $(STAMP)
	$(BIN)/python -m pytest --collect-only --quiet > $(VENV)/.quick-tests
	RETENTIVE_PROFILE=long $(PYTEST) --without=$(VENV)/.quick-tests

# tests/support/profiles.py: all backends, more rounds and longer histories; some 20 minutes, and some hours.
test-long: $(STAMP)
	RETENTIVE_PROFILE=long $(PYTEST)

test-full: $(STAMP)
	RETENTIVE_PROFILE=full $(PYTEST)

# Needs Galera, Patroni, etcd and Ceph: tests/support/servers/install-clusters.sh installs them on Debian.
test-clusters: $(STAMP)
	$(BIN)/python -m pytest -m clusters

# The integrations with Google ADK and Strands, which need older versions of packages than the other frameworks do.
test-frameworks: $(FRAMEWORKS)/.installed
	$(FRAMEWORKS)/bin/python -m pytest tests/frameworks
	$(FRAMEWORKS)/bin/python -m mypy --cache-dir $(FRAMEWORKS)/.mypy_cache \
		src/retentive/integrations/adk.py src/retentive/integrations/strands.py tests/frameworks

# The image of the server, built without network. Needs root, and buildah and debootstrap of Debian.
test-image: $(STAMP)
	$(BIN)/python -m pytest -m environments tests/environments/test_image.py

# A directory of memories on ext4, XFS, Btrfs, exFAT, ZFS, tmpfs and overlays. Needs root, loop devices, and the
# packages xfsprogs, btrfs-progs, exfat-fuse, exfatprogs, dosfstools and zfs-fuse of Debian.
test-file-systems: $(STAMP)
	$(BIN)/python -m pytest -m environments tests/environments/test_file_systems.py

# Each extra alone in an environment of its own, on this Python and on 3.14; a few of them on 3.12 and 3.13.
EXTRAS = PATH="$(CURDIR)/$(UV)/bin:$$PATH" $(PYTEST) -m environments tests/environments/test_extras.py
test-extras: $(STAMP) $(UV)/.installed
	$(EXTRAS) -k "not lowest"

# The same with the lowest versions that pyproject.toml allows.
test-lowest: $(STAMP) $(UV)/.installed
	$(EXTRAS) -k "lowest or every_extra"

# The files of a release: equal builds, offline installation, each Python that is installed, uvx, and what Windows and
# macOS lack.
test-packages: $(STAMP) $(UV)/.installed
	RETENTIVE_PROFILE=long PATH="$(CURDIR)/$(UV)/bin:$$PATH" $(PYTEST) -m "environments or not clusters" \
		tests/environments/test_uvx.py tests/features/packages tests/features/platforms

# The newest Python of Debian, in .cache/python, for test-extras and test-packages. Needs root, debootstrap and patchelf.
newest-python:
	tests/environments/newest-python.sh

# Random changes of the corpus in tests/fuzz, for hours if wanted; inputs that fail are saved in fuzz-findings/.
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/run.py $(or $(TARGET),paths) $(or $(SECONDS),60) $(or $(SEED),0)

# bandit over the code, and pip-audit of the installed packages, which needs the network: without it, it says so.
audit: $(AUDIT)/.installed
	$(AUDIT)/bin/bandit --quiet --configfile pyproject.toml --recursive src
	$(AUDIT)/bin/python scripts/audit_packages.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The generated pages: the reference and the manual page of the command line, the configuration of the server, the
# reference of the library, the tables of platforms, and the OpenAPI document of the server and a page of it.
docs: $(STAMP)
	$(BIN)/python -m retentive.cli.reference > docs/cli.new && mv docs/cli.new docs/cli.md
	$(BIN)/python -m retentive.cli.manual > docs/retentive.new && mv docs/retentive.new docs/retentive.1
	$(BIN)/python -m retentive.server.options > docs/server.new && mv docs/server.new docs/server-configuration.md
	$(BIN)/python tests/docs/api.py > docs/api.new && mv docs/api.new docs/api.md
	PYTHONPATH=src:tests $(BIN)/python tests/docs/checklist.py > docs/check.new && mv docs/check.new docs/security-checklist.md
	$(BIN)/python -m retentive.server.openapi > docs/openapi.new && mv docs/openapi.new docs/openapi.json
	$(BIN)/python -m retentive.server.reference > docs/http.new && mv docs/http.new docs/http-api.md

# The documentation site, in dist/site; any server of static files can serve it.
site: $(STAMP)
	$(BIN)/python scripts/documentation.py

# The bundle for MCP clients and the entry of the MCP registry, in dist/, and the version of the plugin.
bundles:
	$(PYTHON) scripts/bundles.py

# Wheel, sdist, wheels of the image, bill of materials and checksums, in dist/. Fails if two builds differ.
release: $(RELEASE)/.installed
	$(RELEASE)/bin/python scripts/release.py

bench: $(STAMP)
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The demo needs an agent (anthropic), and the console; what the scripted Claude needs is part of that.
# Installing pip into the environment takes 5 s, a third of the whole, so the pip of $(PYTHON) is used if it can.
FOR_DEMO := ".[anthropic,console,server]"
$(DEMO): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python $(INSTALL) --editable $(FOR_DEMO) || \
		{ $(BIN)/python -m ensurepip >/dev/null && $(PIP) --editable $(FOR_DEMO); }
	touch $@

$(STAMP): $(DEMO)
	$(BIN)/python -m ensurepip >/dev/null
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".[anthropic,claude-agent,console,crypto,deepagents,guards,langchain,langgraph,mariadb,mcp,oauth,objects,openai-agents,postgres,pydantic-ai,remote,server,sync,telemetry]" --group dev
	touch $@

$(FRAMEWORKS)/.installed: pyproject.toml tests/frameworks/requirements.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip $(INSTALL) --requirement tests/frameworks/requirements.txt --editable .
	touch $@

$(UV)/.installed:
	$(PYTHON) -m venv $(UV)
	$(UV)/bin/python -m pip $(INSTALL) uv
	touch $@

$(RELEASE)/.installed: scripts/release-requirements.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip $(INSTALL) --no-deps --requirement scripts/release-requirements.txt
	touch $@

$(AUDIT)/.installed: $(STAMP)
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip $(INSTALL) "bandit>=1.9,<2" "pip-audit>=2.10,<3"
	touch $@
