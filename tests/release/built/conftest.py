"""The files of ``make dist``, built twice by the tests of this folder; at the end, what ran, how
long it took, and the sizes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from release.wheels import ROOT
from tests.support.where_it_runs import Run, read_rows, write_rows

BUILD_TIMEOUT = 1800
KIND = re.compile(r"(?:(x86_64|aarch64|amd64|arm64)\.)?(?:tar\.)?(\w+)$")
ran: list[tuple[Run, float]] = []
"""In this session, with seconds."""


def kind_of(name: str) -> str:
    """``aarch64.pyz``, ``amd64.deb``, ``x86_64.rpm``, ``whl``, ``gz``."""
    found = KIND.search(name)
    assert found is not None
    return ".".join(part for part in found.groups() if part)


@pytest.fixture(scope="session")
def first_sums(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """SHA256SUMS of a first build, in another directory."""
    copy = tmp_path_factory.mktemp("first") / "checkout"
    subprocess.run(
        ["git", "clone", "--quiet", str(ROOT), str(copy)], check=True, timeout=BUILD_TIMEOUT
    )
    subprocess.run([sys.executable, "-m", "release"], cwd=copy, timeout=BUILD_TIMEOUT, check=True)
    yield (copy / "dist/SHA256SUMS").read_text()
    shutil.rmtree(copy)


@pytest.fixture(scope="session")
def dist() -> dict[str, Path]:
    """Kind → file in dist/, built from this checkout; NICTOP_KEEP_DIST: as they are there."""
    if not os.environ.get("NICTOP_KEEP_DIST"):
        subprocess.run(
            [sys.executable, "-m", "release"], cwd=ROOT, timeout=BUILD_TIMEOUT, check=True
        )
    return {kind_of(path.name): path for path in (ROOT / "dist").iterdir()}


@pytest.fixture
def record_run(dist: dict[str, Path]) -> Callable[[Run], None]:
    """Called by a test when a file has run; its row of the table."""
    started = time.monotonic()
    return lambda run: ran.append((run, time.monotonic() - started))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("where it ran")
    for run, seconds in sorted(ran):
        terminalreporter.write_line(f"{seconds:6.1f} s  {'  '.join(run)}")
    known = read_rows()
    for run in known:
        if run not in [one for one, _ in ran]:
            terminalreporter.write_line(f"not run  {'  '.join(run)}")
    for path in sorted((ROOT / "dist").glob("nictop[-_]*")):
        terminalreporter.write_line(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    new = [run for run, _ in ran if run not in read_rows()]
    if new and os.environ.get("NICTOP_DRAW_SCREENSHOTS"):
        write_rows([*read_rows(), *new])
    elif new and session.exitstatus == pytest.ExitCode.OK:
        print(f"\nnot in the table (NICTOP_DRAW_SCREENSHOTS=1 writes it anew): {new}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
