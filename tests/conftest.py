"""Fixtures for all rooms: a network namespace of one's own, captured hosts; how often kills and fuzzing repeat."""

from __future__ import annotations

import functools
import gc
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.support.kills import kill_parameters
from tests.support.namespaces import Namespace, why_impossible

DATA = Path(__file__).parent / "data"
EXAMPLES = Path(__file__).parents[1] / ".venv" / "hypothesis"
"""Counter-examples that a campaign has found: the next campaign tries them first."""

# No deadline: other work may share the machine. `make test` draws the same examples every time, so that a failure is
# the fault of the change that is tested; the campaign draws others every time and keeps what fails.
settings.register_profile("test", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile(
    "campaign",
    deadline=None,
    derandomize=False,
    database=DirectoryBasedExampleDatabase(EXAMPLES),
    print_blob=True,
)
settings.load_profile("test")

why_no_namespace = functools.lru_cache(why_impossible)


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What only a campaign does, see `pytest_addoption`."""
    if not config.getoption("--every-key"):
        left_out = [one for one in items if "every_key" in getattr(one, "fixturenames", ())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [one for one in items if one not in left_out]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("kill_matrix"):
        names, values = kill_parameters(marker, metafunc.config.getoption("--kills"))
        metafunc.parametrize(names, values)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: the garbage collector need not look at them again and again.
    Each drawn screen makes some thousand objects; rarer collections save a seventh of the processor time of a screen's
    tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A fresh network namespace, removed afterwards; skips with the reason where none can be made."""
    reason = why_no_namespace()
    if reason is not None:
        pytest.skip(reason)
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture
def other(namespace: Namespace) -> Iterator[Namespace]:
    """A second one, for what goes between two."""
    made = Namespace()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``capture("guest")``: the root of the host captured in tests/data/guest.tar.gz, unpacked once per session."""

    @functools.lru_cache
    def unpack(name: str) -> Path:
        root = tmp_path_factory.mktemp(name)
        with tarfile.open(DATA / f"{name}.tar.gz") as tar:
            if hasattr(tarfile, "data_filter"):  # Python 3.12 and later want a filter named
                tar.extractall(root, filter="fully_trusted")
            else:  # 3.11.2, which Debian 12 has, does not know the word
                tar.extractall(root)
        return root

    return unpack
