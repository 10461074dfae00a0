"""The files of ``make dist``, built twice by the tests of this folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from release.wheels import ROOT

BUILD_TIMEOUT = 900


def build() -> dict[str, Path]:
    """Build; return the files in dist/ by their endings."""
    subprocess.run([sys.executable, "-m", "release"], cwd=ROOT, timeout=BUILD_TIMEOUT, check=True)
    return {path.name.rpartition(".")[2]: path for path in (ROOT / "dist").iterdir()}


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
    """Ending of the name → file in dist/, built from this checkout."""
    return build()
