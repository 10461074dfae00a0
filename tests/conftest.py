"""Fixtures for all rooms: a network namespace of one's own, and captured hosts."""

from __future__ import annotations

import functools
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.namespaces import Namespace, why_impossible

DATA = Path(__file__).parent / "data"

# No deadline: other work may share the machine. No example database: the checkout may be another user's.
settings.register_profile("nictop", deadline=None, database=None)
settings.load_profile("nictop")

why_no_namespace = functools.lru_cache(why_impossible)


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A fresh network namespace, removed afterwards; skips with the reason where none can be made."""
    reason = why_no_namespace()
    if reason is not None:
        pytest.skip(reason)
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
