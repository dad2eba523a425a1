# Every target does its own set-up, which needs only make and a Python >= 3.11 with the venv module.
#   make run      the main job: a chat with the built-in agent on a terminal, a scripted session elsewhere
#   make test     every test
#   make check    lint, types, stale schema files, tests
#   make test-integrations: installs the frameworks of the adapters, and tests these
#   make test-install: the wheel, and the conformance suite alone, in an empty environment of each Python; needs a package index
#   make editors: installed editors drive the agents, see docs/editors.md
#   make docs     the documentation as a site, in build/site
#   make lint-ci: the workflows of the public CI, checked
#   make test-core, make check-core: the same with the tests of the runtime alone, in two minutes
# Choose the interpreter with `make PYTHON=python3.13`.

VENV := .venv
# Windows calls the folder otherwise.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# The programs that check a release, which need other versions of libraries than the lock has.
TOOLS := $(VENV)/tools
MIKE := PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 $(BIN)/mike
LINT_CI := $(VENV)/lint-ci
# The newest official Python SDK, also before its release. It is the same distribution as the locked one.
NEWEST := $(VENV)/newest-sdk
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
NODES := $(wildcard $(addsuffix /package-lock.json,examples/web tests/interop/node tests/interop/claude tests/apps/gateway/node tests/conformance/real_world/node))
NODE_READY := $(if $(shell command -v npm),$(NODES:package-lock.json=node_modules/.ready))
# A client that drives the built-in agent with a model; only the tests of frameworks need it.
ACPX := tests/integrations/node/node_modules
# Without PYTHON: python3 if it is new enough, else the newest one.
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
ARGS ?=
# The tests start hundreds of processes. Where the environment forbids compiled modules, each of them would compile the
# whole package again.
unexport PYTHONDONTWRITEBYTECODE
# Without ARGS the tests run in parallel, each module in one process, because its tests may share costly fixtures.
SIDE_BY_SIDE := -n 6 --no-loadscope-reorder --max-worker-restart 0
# The runtime alone, with the tests that cancel it at every step; almost none of these tests starts a process.
CORE := $(addprefix tests/,wire tasks schema peer store session tools cancel agent client testing remote) --ignore-glob=*processes*

.DEFAULT_GOAL := help
.PHONY: help ready run test test-newest-sdk test-integrations test-install test-debian editors compile-tests lint format types docs schema conformance one-file build release audit lint-ci judge judge-agents docs-version diagrams unchanged storm flood mutate bench coverage check check-core test-core lock clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

run: $(READY)
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/acp-server chat $(ARGS); else $(BIN)/acp-server demo . $(ARGS); fi

test: $(READY) $(NODE_READY)
	@$(BIN)/python -m pytest $(or $(ARGS),$(SIDE_BY_SIDE))

test-core: $(READY)
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(CORE) $(ARGS)

# The frameworks are not in the lock. Once they are there, `make test` runs these tests, too.
test-integrations: $(READY) $(if $(NODE_READY),$(NODE_READY) $(ACPX)/.ready)
	@$(PIP) -r tests/integrations/requirements.txt
	@$(BIN)/python -m pytest $(or $(ARGS),tests/integrations tests/mcp tests/docs/test_integrations.py tests/docs/test_recipes.py tests/docs/test_embedding.py tests/docs/test_mcp.py)

# The tests that drive the official Python SDK, or are driven by it, with its newest version.
test-newest-sdk: $(NEWEST)/.ready
	@$(NEWEST)/bin/python -m pytest $(or $(ARGS),tests/interop tests/client/test_real_agents.py)

# Installed editors at a terminal: docs/editors.md.
editors: $(READY)
	@$(BIN)/python -m tests.editors $(ARGS)

# Concurrent processes would each rewrite the assertions of every test, which is half of a minute of CPU.
compile-tests: $(READY)
	@$(BIN)/python -m pytest --collect-only >/dev/null

test-install: $(READY)
	@$(BIN)/python -m tests.packaging

# From the sdists, on Debian of several ages: Python 3.11, 3.13 and 3.14. It needs root and debootstrap.
test-debian: build
	@tests/packaging/debian/run.sh $(ARGS)

# The environment of the other targets.
ready: $(READY) $(NODE_READY)

lint: $(READY)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs
	@$(BIN)/ruff format --check --quiet . || { echo "lint: run 'make format'" >&2; exit 1; }
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

format: $(READY)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

types: $(READY)
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/python -m tests.packaging.complete_types

# The tools for it are not in the lock. Once they are there, the build needs no network.
docs: $(READY)
	@$(PIP) -r docs/requirements.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict $(ARGS)
	@! grep -rl --include='*.html' '<p>```' build/site || { echo "docs: these pages have blocks that are not shown as code" >&2; exit 1; }
	@$(BIN)/python docs/site_links.py build/site

# The suite has a separate copy, because it is a separate distribution.
# ARGS="--against SOURCE..." compares with published schemas instead: files, packages, or npm:NAME@VERSION.
schema: $(READY)
ifneq ($(filter --against,$(ARGS)),)
	@$(BIN)/python -m tests.schema.watch $(filter-out --against,$(ARGS))
else
	@$(BIN)/acp-server schema $(ARGS) protocol_schemas
	@$(BIN)/acp-server schema --stable $(ARGS) conformance/acp_conformance/core/schemas
	@$(BIN)/python -m tests.conformance.core.published $(ARGS)
	@$(BIN)/python docs/schema_page.py $(ARGS)
	@$(BIN)/python docs/messages_page.py $(ARGS)
endif

conformance: $(READY)
	@$(BIN)/python -m acp_conformance agent --profile workspace $(ARGS) -- $(BIN)/acp-server serve --store memory
	@$(BIN)/python -m acp_conformance agent --profile workspace $(ARGS) -- $(BIN)/acp-server serve --store memory --backend trio

# The suite as one file, for people who only have an interpreter.
one-file: $(READY)
	@$(BIN)/python conformance/one_file/build.py build/acp-conformance.pyz

# Both distributions: the sdist, and the wheel from the sdist.
build: $(READY)
	@$(BIN)/python -m release.build dist

# Everything of a release except the upload: `make release VERSION=0.2.0`.
release: $(READY) $(TOOLS)/.ready
	@$(BIN)/python -m release --tools $(TOOLS)/bin $(or $(VERSION),$(error say which: make release VERSION=0.2.0))

# Known faults of the locked versions, from the index.
audit: $(TOOLS)/.ready
	@$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock $(ARGS)

# The checkers of the code host's workflows.
lint-ci: $(LINT_CI)/.ready
	@$(LINT_CI)/bin/actionlint
	@$(LINT_CI)/bin/zizmor --offline --quiet --persona pedantic .github contrib/github-action

# A public agent, installed and judged with a model of this machine: `make judge AGENT=opencode`. It fails if the verdicts
# differ from the documentation.
judge: $(READY)
	@mkdir -p build/judged
	@$(BIN)/python -m tests.conformance.public $(or $(AGENT),$(error say which: make judge AGENT=opencode)) --timeout 40 \
		--json build/judged/$(AGENT).json --html build/judged/$(AGENT).html $(ARGS) || [ -f build/judged/$(AGENT).json ]
	@$(BIN)/python -m tests.conformance.public.published $(AGENT) build/judged/$(AGENT).json

# All of them, one after the other; it fails if one of them fails.
judge-agents: $(READY)
	@failed=; for agent in $$($(BIN)/python -c 'from tests.conformance.public.agents import AGENTS; print(*AGENTS)'); do \
		$(MAKE) --no-print-directory judge AGENT=$$agent || failed="$$failed $$agent"; done; \
		[ -z "$$failed" ] || { echo "judge-agents: not as published:$$failed" >&2; exit 1; }

# The site of a version next to the others, as a commit on the local branch gh-pages: `make docs-version REF=v0.2.0` is the newest
# release, and any other REF the site `dev`. `ARGS=--push` pushes the branch.
docs-version: docs
	@case "$$REF" in \
		v*) minor=$$(expr "$$REF" : 'v\([0-9]*\.[0-9]*\)') && $(MIKE) deploy --update-aliases $(ARGS) "$$minor" latest && $(MIKE) set-default $(ARGS) latest;; \
		*) $(MIKE) deploy $(ARGS) dev;; \
	esac

# The pictures of docs/diagrams, from the texts next to them. A test fails for a stale one.
diagrams: tests/docs/node/node_modules/.ready
	@node tests/docs/node/render.js

# After `make release` of a tag: the tag had every file of the release.
unchanged:
	@git diff --exit-code

coverage: $(READY) $(NODE_READY)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

storm: $(READY)
	@$(BIN)/python -m tests.storm $(ARGS)

flood: $(READY)
	@$(BIN)/python -m tests.flood $(ARGS)

mutate: $(READY)
	@$(BIN)/python -m tests.mutation $(ARGS)

bench: $(READY) $(NODE_READY) $(NEWEST)/.ready
	@$(BIN)/python -m benchmarks $(ARGS)

check: lint types
	@$(MAKE) --no-print-directory schema ARGS=--check
	@$(MAKE) --no-print-directory test

check-core: lint types
	@$(MAKE) --no-print-directory schema ARGS=--check
	@$(MAKE) --no-print-directory test-core

# The lock names every version and every hash for all supported Pythons and systems; the index it came from is not in it.
lock: $(READY)
	@$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra chat --extra gateway --extra postgres --extra reload --extra remote --extra trio --group dev \
		--generate-hashes --no-emit-index-url --custom-compile-command "make lock" --quiet \
		-o requirements.lock $(ARGS)

clean:
	rm -rf $(VENV) build dist .coverage htmlcov .pytest_cache .ruff_cache .import_linter_cache .hypothesis $(NODES:package-lock.json=node_modules) $(ACPX) tests/docs/node/node_modules

# pip takes half of a minute. It is the fallback if uv does not find pip's index.
$(READY): requirements.lock pyproject.toml conformance/pyproject.toml
	@set -eu; python=; \
	for name in $(CANDIDATES); do \
		if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$name; break; fi; \
	done; \
	[ -n "$$python" ] || { echo "make: no Python >= 3.11 found (tried: $(CANDIDATES)); name one with 'make PYTHON=...'" >&2; exit 1; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $$python lacks the venv module (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }; \
	[ -x $(BIN)/python ] && [ -z "$(PYTHON)" ] || "$$python" -m venv --clear $(VENV); \
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(VENV)/uv.txt; \
	install='$(UV)'; \
	$(PIP) --no-deps --require-hashes -r $(VENV)/uv.txt && $$install --require-hashes -r requirements.lock \
		|| { install='$(PIP)'; $$install --require-hashes -r requirements.lock; }; \
	$$install --no-deps --no-build-isolation -e . -e ./conformance; \
	$(BIN)/python -m compileall -q acp_server conformance/acp_conformance
	@touch $@

$(LINT_CI)/.ready: .github/requirements.txt $(READY)
	@$(BIN)/python -m venv --clear $(LINT_CI)
	@$(LINT_CI)/bin/python -m pip install -qq --disable-pip-version-check -r .github/requirements.txt
	@touch $@

# Everything else is locked: packages installed here come first.
$(NEWEST)/.ready: $(READY)
	@$(BIN)/python -m venv --clear $(NEWEST)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		>"$$($(NEWEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lock.pth"
	@$(NEWEST)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --pre --upgrade agent-client-protocol -e .
	@touch $@

$(TOOLS)/.ready: release/requirements.txt $(READY)
	@$(BIN)/python -m venv --clear $(TOOLS)
	@$(TOOLS)/bin/python -m pip install -qq --disable-pip-version-check -r release/requirements.txt
	@touch $@

%/node_modules/.ready: %/package-lock.json
	@cd $(<D) && npm ci --loglevel=error --no-audit --no-fund --no-update-notifier >/dev/null
	@touch $@
