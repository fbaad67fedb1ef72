# `make demo` and `make test` are all a newcomer needs; both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
# The versions that `make install` takes; with LOCK=/dev/null a new .venv takes the newest.
LOCK ?= requirements/dev.txt

.PHONY: install lock browser rclients demo docs figures test slow coverage lowest package format clean

install: .venv/installed

# What the demo needs is a small part of what the tests need, and comes first or together with it.
.venv/demo .venv/installed: pyproject.toml src/hushcov/_version.py $(LOCK)
.venv/installed: lab/pyproject.toml genotypes/pyproject.toml
.venv/demo: WANTED := '.[files,report]'
.venv/installed: WANTED := '.[dev]' --editable genotypes --editable lab
.venv/demo .venv/installed:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) install --editable $(WANTED) --constraint $(LOCK)
	touch .venv/demo $@

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv && build/uv/bin/python $(PIP) install uv

# The newest versions for requirements/dev.txt, for every Python and system that hushcov supports.
lock: build/uv/bin/uv
	build/uv/bin/uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra dev \
	  --no-annotate --custom-compile-command 'make lock' pyproject.toml \
	  --output-file requirements/dev.txt

# Tests open the pages that hushcov writes in Chromium, and run programs of R on what it exports.
# On Debian these are installed if that is permitted; elsewhere install them as usual and set CHROMIUM
# to the path of a Chromium or Chrome. Tests of what is missing are skipped.
APT = { root=$$(test "$$(id -u)" = 0 || echo sudo -n); \
  command -v apt-get >/dev/null && $$root apt-get update -qq && \
  $$root apt-get install -qq -y --no-install-recommends $(1) >/dev/null; } 2>&1 || \
  echo "$(2) cannot be installed here: its tests are skipped"

browser:
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || $(call APT,chromium,Chromium)

RCLIENTS := r-base-core r-cran-lavaan r-cran-psych r-cran-psychtools r-cran-jsonlite
rclients:
	@Rscript -e 'stopifnot(requireNamespace("lavaan"), requireNamespace("psych"))' >/dev/null 2>&1 \
	|| $(call APT,$(RCLIENTS),R)

demo: .venv/demo
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
	$(BIN)/lint-imports
	@mkdir -p build; $(BIN)/mypy >build/types.txt 2>&1 & types=$$!; \
	  $(BIN)/pytest; tests=$$?; wait $$types; wrong=$$?; \
	  echo mypy; cat build/types.txt; exit $$((tests + wrong))

# Tests that take long, which `make test` leaves out, and a search for new counterexamples.
slow: install browser rclients
	$(BIN)/pytest -m 'slow or hypothesis' --hypothesis-profile search

# Lines that tests run, in build/coverage/html. Compiled code is not seen, so tests of kernels run once
# more without the compiler, where integers that wrap around give warnings.
UNCOMPILED := bounded counts signs unit_sums
coverage: install browser rclients
	rm -rf build/coverage
	$(BIN)/coverage run -m pytest
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -W ignore::RuntimeWarning \
	  $(UNCOMPILED:%=tests/sums/test_%.py)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --fail-under 90

# The lowest versions that pyproject.toml allows, in build/lowest: the core alone, then its tests.
# Warnings that packages of different years give each other are no concern.
LOWEST := build/uv/bin/uv pip install --quiet --python build/lowest
LOWEST_TOOLS := dp-accounting|hypothesis|mpmath|pytest|pytest-xdist
LOWEST_TESTS := accounting answers cli estimators fit kernel noise postprocess release report sums tables
lowest: build/uv/bin/uv
	rm -rf build/lowest && $(PYTHON) -m venv build/lowest
	$(LOWEST) --resolution lowest-direct .
	build/lowest/bin/python tests/distribution/smoke.py
	$(LOWEST) --resolution lowest-direct \
	  --editable '.[dask,files,pandas,polars,report,signing,torch,zarr]' \
	  --editable genotypes --editable lab
	$(LOWEST) $$(grep -E '^($(LOWEST_TOOLS))==' requirements/dev.txt)
	build/lowest/bin/python -m pytest -W ignore::DeprecationWarning $(LOWEST_TESTS:%=tests/%)

# Wheels and sdists of all distributions in dist/. The wheels are installed into an empty environment,
# that of the core first, and tried there.
package: install
	$(BIN)/python tests/distribution/building.py dist
	rm -rf build/package && $(PYTHON) -m venv build/package
	build/package/bin/python $(PIP) install dist/hushcov-*.whl
	build/package/bin/python tests/distribution/smoke.py
	build/package/bin/python $(PIP) install dist/*.whl
	build/package/bin/python tests/distribution/smoke.py --all

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
