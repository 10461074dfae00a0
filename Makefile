# make run     this host's NICs, live            make test    everything the tests need, then check and test
# make check   lint, types, import rules          make bench   speed and memory
# make test-fast   what is pure: model, rules, parsers, reports; while editing
# make dist    wheel, offline file, packages          make dist-check   build it twice and test it
# make audit   known advisories of what is bundled          make lowest, newest   tests with other dependencies
# make release-check   all that a release needs, in one table
# make screenshots   redraw screenshots/          make campaign   kills, all cases, fuzzing, hostile hosts, soak and more: before a release
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt
SOURCES = nictop release tests
ARGS   ?=
# number of test processes; tests mostly wait, so more than there are CPUs
JOBS   ?= 4
# the tests start hundreds of Python processes, each of which would compile nictop again without byte code
export PYTHONDONTWRITEBYTECODE :=

# Tests of pure code: no process, no namespace, no screen.
PURE_TESTS = tests/model tests/rules tests/report tests/test_conversions.py \
	tests/wire/test_codec.py tests/wire/test_line_reader.py tests/wire/test_record_limits.py \
	tests/wire/test_every_record_has_limits.py tests/wire/test_received_bytes.py
# of these, what starts programs
IMPURE_TESTS = tests/rules/test_typed_fixes.py tests/rules/test_fix_harm.py tests/rules/test_new_rule.py \
	tests/rules/test_profiles_with_networkmanager.py tests/rules/test_routes_with_networkmanager.py \
	tests/report/test_in_a_browser.py tests/report/test_report_command.py

.PHONY: run test test-fast check bench campaign lowest newest dist dist-check release-check audit screenshots report-pictures system clean

run: $(VENV)/.run
	@$(BIN)/nictop $(ARGS)

test: system
	@$(MAKE) --no-print-directory -j2 check $(VENV)/.bytecode
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

# One process for each of two CPUs: nothing waits.
test-fast: $(VENV)/.bytecode
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(PURE_TESTS) $(IMPURE_TESTS:%=--ignore %) $(ARGS)

check: $(VENV)/.dev
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.dev
	@$(BIN)/python -m tests.benchmarks $(ARGS)

campaign: system $(VENV)/.dev
	@$(BIN)/python -m tests.campaign $(ARGS)

# Otherwise each test process would compile all tests; later runs compile what has changed.
$(VENV)/.bytecode: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $@

# Tests of each part that a dependency carries, with the lowest version of each that pyproject.toml allows, and with the newest.
lowest newest:
	@$(PYTHON) -m venv $(VENV)/$@
	@$(PYTHON) -c 'from release.wheels import $@_versions as versions; print("\n".join(versions()))' >$(VENV)/$@/versions.txt
	@$(VENV)/$@/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
		--requirement $(VENV)/$@/versions.txt pytest pytest-asyncio pytest-timeout pytest-xdist hypothesis packaging
	@$(VENV)/$@/bin/python -m pytest -n $(JOBS) tests/tui/test_textual_private.py tests/tui/screens/test_never_blank.py tests/lab \
		tests/metrics tests/wire/ssh tests/wire/test_ssh_ends.py tests/wire/test_codec.py tests/hosts $(ARGS)

# Reproducible: the same commit gives the same files.
dist: $(VENV)/.dist
	@$(BIN)/python -m release

# The files of make dist, in roots without network: every Python, dpkg, rpm, arm64 under emulation, systemd, a container.
dist-check: $(VENV)/.dist-check
	@.ci/system-packages dist
	@$(BIN)/python -m pytest tests/release/built --timeout 3600 --durations 12 $(ARGS)

# Hours, most of them for the campaign; ARGS: names of steps. What each printed is in .venv/release-check/.
release-check: $(VENV)/.dist-check
	@$(BIN)/python -m release.check $(ARGS)

# Error 1: some are known; 3: no source was reached, and the offline list, which may be old, has none. make itself then exits with 2.
audit: $(VENV)/bin/python
	@$(BIN)/python -m release.audit

screenshots: $(VENV)/.dev
	@NICTOP_DRAW_SCREENSHOTS=1 $(BIN)/python -m pytest tests/tui/screens/test_screenshots.py \
		tests/tui/screens/test_traffic_screenshots.py tests/tui/screens/test_lab_screenshots.py tests/tui/screens/test_fix_screenshots.py \
		tests/tui/screens/test_dialog_screenshots.py tests/tui/screens/test_demo_animation.py \
		tests/test_documentation.py tests/metrics/test_catalogue.py::test_the_page_lists_every_metric

# Screenshots of the first page of the demo's report in a browser.
report-pictures: $(VENV)/.dev
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	$(BIN)/nictop report nictop/recording/demo.nictop -o $$folder/report.html && \
	for tone in 0:dark 1:light; do \
		chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir=$$folder/profile \
			--window-size=1200,1060 --blink-settings=preferredColorScheme=$${tone%%:*} \
			--screenshot=screenshots/report-$${tone#*:}.png file://$$folder/report.html || exit 1; \
	done

# Tools that the tests use: ip, ethtool, lspci, iperf3, login shells, mandoc, Chromium, and in containers NetworkManager, dbus, sshd,
# Prometheus. Installed when run as root with apt; otherwise those tests are skipped with the reason. Python 3.7 with Maven.
system:
	@.ci/system-packages
	@.ci/old-pythons $(VENV)/pythons

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml .ci/constraints.txt | $(VENV)/bin/python
	@$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml .ci/constraints.txt | $(VENV)/bin/python
	@$(PIP) "pip>=25.1"
	@$(PIP) --editable . --group dev
	@touch $@ $(VENV)/.run

$(VENV)/.dist: release/build-requirements.txt | $(VENV)/bin/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: \
		--requirement release/build-requirements.txt
	@touch $@

$(VENV)/.dist-check: pyproject.toml .ci/constraints.txt $(VENV)/.dev $(VENV)/.dist
	@$(PIP) --group packages
	@touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
