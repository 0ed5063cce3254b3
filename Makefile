PYTHON ?= python3
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: run test bench clean

.venv/.ready: pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q -c requirements-dev.txt -r requirements-dev.txt -e '.[schema,cli]'
	touch $@
