"""Fixtures and options for all tests: network namespaces, captured hosts, number of kills,
Hypothesis profiles."""

from __future__ import annotations

import functools
import gc
import os
import tarfile
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.skip_budget import beyond_budget, is_checked
from tests.support import samples
from tests.support.kills import kill_parameters
from tests.support.namespaces import Namespace, why_no_namespaces

DATA = Path(__file__).parent / "data"
EXAMPLES = Path(__file__).parents[1] / ".venv" / "hypothesis"
"""Failing examples found by a campaign: the next campaign tries them first."""

# No deadline: the machine may have other load. `make test` draws the same examples every time, so
# that a failure is caused by the change under test; the campaign draws other examples every time,
# 100 instead of 50, until its time is over, and stores those that fail.
settings.register_profile(
    "test", max_examples=50, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "campaign",
    deadline=None,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(EXAMPLES),
    print_blob=True,
)
settings.load_profile("test")

why_no_namespace = functools.lru_cache(why_no_namespaces)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills",
        type=int,
        default=1,
        metavar="N",
        help="tests marked kill_matrix: kills at each stage (1; a campaign asks for 20)",
    )
    parser.addoption(
        "--every-key",
        action="store_true",
        help="test_typed_fast.py: all keys on all screens, typed twice",
    )
    parser.addoption(
        "--all-cases",
        action="store_true",
        help="all cases of the tests of which `make test` runs some (tests/support/samples.py)",
    )
    parser.addoption(
        "--every-pair",
        action="store_true",
        help="test_login_shells.py: every Python with every login shell and SSH server",
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user may write: programs of a traffic test do not run as root."""
    with tempfile.TemporaryDirectory(prefix="nictop-test-") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


LONGEST_FILES = (
    "traffic/path/test_real_paths.py",
    "tui/screens/traffic/test_form.py",
    "traffic/test_loaded_runs.py",
    "cli/test_traffic_endings.py",
    "traffic/test_run_path.py",
    "tui/screens/test_replay.py",
    "traffic/test_transaction_runs.py",
    "probe/traffic/test_generators.py",
    "probe/changes/test_changes_networkmanager.py",
    "traffic/experiment/test_experiment.py",
    "tui/screens/changes/test_fix.py",
    "traffic/test_run_firewall.py",
    "traffic/test_run_ends.py",
    "wire/test_ssh_ends.py",
    "cli/test_traffic_command.py",
    "tui/screens/live/test_screen.py",
    "tui/screens/test_several_hosts.py",
    "cli/test_fix_command.py",
    "probe/changes/test_changes_concurrent_events.py",
    "probe/changes/test_changes.py",
    "test_expressions.py",
    "traffic/run/test_run.py",
    "probe/changes/test_changes_managed.py",
    "cli/commands/test_record.py",
    "rules/test_profiles_with_networkmanager.py",
    "tui/screens/test_findings.py",
    "rules/test_typed_fixes.py",
    "traffic/run/test_path_test.py",
    "cli/test_esxi_host.py",
    "tui/screens/test_recording.py",
    "report/test_in_a_browser.py",
    "metrics/test_service.py",
    "probe/inventory/managers/test_networkmanager.py",
    "probe/changes/test_changes_killed.py",
    "tui/screens/test_frame.py",
    "tui/screens/traffic/test_path_dialog.py",
    "traffic/experiment/test_esxi_observer.py",
    "wire/test_ssh_strange.py",
    "probe/test_recheck.py",
    "tui/screens/test_screenshots.py",
    "rules/test_rule_cases.py",
    "wire/ssh/test_source.py",
    "probe/counters/on_demand/test_connections.py",
    "cli/traffic/test_hosts.py",
    "cli/test_faults.py",
    "wire/esxi/test_probe.py",
    "wire/test_local.py",
    "traffic/test_strange_iperf3.py",
    "probe/test_main.py",
    "report/redaction/test_redaction.py",
    "changes/test_real_change.py",
    "tui/screens/live/test_connections.py",
    "metrics/test_prometheus.py",
)
"""Begun first, so that none of them is left alone at the end; those that wait alternate with those
that compute."""


FIXTURES_OF_OPTIONS = {"--every-key": "every_key", "--every-pair": "every_pair"}
"""Option → fixture of the tests that are run only with it."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with `LONGEST_FILES`; deselect the tests of an option that is not given, and the cases
    that `make test` leaves out, unless tests are named."""
    place = {f"tests/{name}": number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda one: place.get(one.nodeid.partition("::")[0], len(place)))
    not_given = {
        fixture for option, fixture in FIXTURES_OF_OPTIONS.items() if not config.getoption(option)
    }
    left_out = [one for one in items if not_given.intersection(getattr(one, "fixturenames", ()))]
    named = config.getoption("-k") or any("::" in argument for argument in config.args)
    if not (named or config.getoption("--all-cases")):
        left_out += samples.left_out(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        remaining = set(items).difference(left_out)
        items[:] = [one for one in items if one in remaining]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the skips that are not expected (`tests.skip_budget`)."""
    for sentence in _unexpected_skips(terminalreporter):
        terminalreporter.write_line(f"not expected: {sentence}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run with such skips has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus == 0 and _unexpected_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexpected_skips(reporter: pytest.TerminalReporter) -> list[str]:
    if not is_checked():
        return []
    skipped = (one.longrepr for one in reporter.getreports("skipped"))
    return beyond_budget(one[2] for one in skipped if isinstance(one, tuple))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("kill_matrix"):
        names, values = kill_parameters(marker, metafunc.config.getoption("--kills"))
        metafunc.parametrize(names, values)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage collection while tests are collected; afterwards, the collected tests are excluded
    from it: thousands of objects that live until the end. Each drawn screen allocates some thousand
    objects; rarer collections save a seventh of the CPU time of the screen tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A new network namespace, removed afterwards; skips with the reason when none can be made."""
    reason = why_no_namespace()
    if reason is not None:
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture
def other(namespace: Namespace) -> Iterator[Namespace]:
    """A second network namespace."""
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``capture("guest")``: the root of the host captured in tests/data/guest.tar.gz, unpacked once
    per session."""

    @functools.lru_cache
    def unpack(name: str) -> Path:
        root = tmp_path_factory.mktemp(name)
        with tarfile.open(DATA / f"{name}.tar.gz") as tar:
            if hasattr(tarfile, "data_filter"):  # Python 3.12 and later warn without a filter
                tar.extractall(root, filter="fully_trusted")
            else:  # not in Python 3.11.2 (Debian 12)
                tar.extractall(root)
        return root

    return unpack
