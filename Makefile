# `make demo` and `make test` are all a newcomer needs; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
# The versions that `make install` takes; with LOCK=/dev/null a new .venv takes the newest.
LOCK ?= requirements/dev.txt

.PHONY: install lock browser rclients demo docs figures test slow package format clean

install: .venv/installed

.venv/installed: pyproject.toml src/hushcov/_version.py $(LOCK)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) install --editable '.[dev]' --constraint $(LOCK)
	touch $@

# The newest versions for requirements/dev.txt, for every Python and system that hushcov supports.
lock:
	$(PYTHON) -m venv build/lock && build/lock/bin/python $(PIP) install uv
	build/lock/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev \
	  --no-annotate --custom-compile-command 'make lock' pyproject.toml \
	  --output-file requirements/dev.txt

# Tests open the pages that hushcov writes in Chromium. Elsewhere than on Debian, set CHROMIUM.
browser:
	test -n "$$CHROMIUM" || command -v chromium >/dev/null || { \
	  root=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$root apt-get update -qq && \
	  $$root apt-get install -qq -y --no-install-recommends chromium >/dev/null; }

# Tests run programs of R on what hushcov exports. Elsewhere than on Debian, install them as usual;
# without R these tests are skipped.
RCLIENTS := r-base-core r-cran-lavaan r-cran-psych r-cran-psychtools r-cran-jsonlite
rclients:
	Rscript -e 'stopifnot(requireNamespace("lavaan"), requireNamespace("psych"))' >/dev/null 2>&1 \
	|| ! command -v apt-get >/dev/null || { \
	  root=$$(test "$$(id -u)" = 0 || echo sudo); \
	  $$root apt-get update -qq && \
	  $$root apt-get install -qq -y --no-install-recommends $(RCLIENTS) >/dev/null; }

demo: install
	$(BIN)/hushcov demo

# A folder of files that need no network: open build/docs/index.html.
docs: install
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --fresh-env \
	  -d build/docs-cache docs build/docs

# Every figure of the documentation again at a small size, into build/figures.
figures: install browser
	$(BIN)/python benchmarks/figures/all.py

test: install browser rclients
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

# Tests that take long, which `make test` leaves out.
slow: install browser rclients
	$(BIN)/pytest -m slow

# Wheel and sdist in dist/, and the wheel installed into an empty environment and tried there.
package: install
	$(BIN)/python tests/distribution/building.py dist
	rm -rf build/package && $(PYTHON) -m venv build/package
	build/package/bin/python $(PIP) install dist/*.whl
	build/package/bin/python tests/distribution/smoke.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
