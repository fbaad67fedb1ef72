# `make demo` and `make test` are all a newcomer needs; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install browser demo docs test package format clean

install: .venv/installed

.venv/installed: pyproject.toml src/hushcov/_version.py
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# Tests open the pages that hushcov writes in Chromium. Elsewhere than on Debian, set CHROMIUM.
browser:
	test -n "$$CHROMIUM" || command -v chromium >/dev/null || { \
	  root=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$root apt-get update -qq && \
	  $$root apt-get install -qq -y --no-install-recommends chromium >/dev/null; }

demo: install
	$(BIN)/hushcov demo

# A folder of files that need no network: open build/docs/index.html.
docs: install
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --fresh-env \
	  -d build/docs-cache docs build/docs

test: install browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

# Wheel and sdist in dist/, and the wheel installed into an empty environment and tried there.
package: install
	$(BIN)/python tests/distribution/building.py dist
	rm -rf build/package && $(PYTHON) -m venv build/package
	build/package/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/package/bin/python tests/distribution/smoke.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
