"""A skip that is not expected fails the run of the project's own check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skip_budget import MAX_EXPECTED, beyond_budget
from tests.support.namespaces import ROOT


def test_features_of_the_kernel_are_expected_and_missing_tools_are_not() -> None:
    assert (
        beyond_budget(["Skipped: this kernel has no netem", "Skipped: no CAP_SYS_RESOURCE"]) == []
    )
    assert beyond_budget(["Skipped: iperf3 is not installed"] * 2) == [
        "2 skipped: iperf3 is not installed"
    ]
    assert beyond_budget(["Skipped: this kernel has no x; no iperf3, too\n"]) != []
    (sentence,) = beyond_budget(["Skipped: this kernel has no bonds"] * (MAX_EXPECTED + 1))
    assert sentence.startswith(f"{MAX_EXPECTED + 1} expected skips")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("reason", "status"), [("this kernel has no netem", 0), ("tool is not installed", 1)]
)
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "workers"])
def test_a_run_with_a_skip(
    tmp_path: Path, reason: str, status: int, workers: tuple[str, ...]
) -> None:
    """Its exit status, and the reason in its last lines."""
    file = tmp_path / "test_made.py"
    text = f"import pytest\n\ndef test_one():\n    pytest.skip({reason!r})\n"
    file.write_text(text)
    project = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *project, *workers, str(file)],
        cwd=ROOT,
        env={**os.environ, "NICTOP_SKIP_BUDGET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, done
    assert (f"1 skipped: {reason}" in done.stdout) == bool(status)
