"""Borders that import-linter cannot see: deferred imports, and the syntax that the watched host
must understand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NICTOP = Path(__file__).parent.parent / "nictop"

LOOK = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def loaded_by(module: str) -> set[str]:
    """Top-level modules that importing `module` brings with it, in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", LOOK, module], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("nictop.report.facts.host", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.report.findings.check", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.metrics.service", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.cli.commands.metrics", {"prometheus_client", "asyncio", "msgspec", "textual"}),
        ("nictop.report.html.page", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.hosts.observe", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.traffic.run.run", {"textual", "rich", "asyncssh", "pyroute2", "psutil"}),
        ("nictop.cli.main", {"textual", "rich", "msgspec", "asyncio", "psutil"}),
        ("nictop.tui.app", {"msgspec", "psutil", "pyroute2"}),
        (
            "nictop.tui.controllers.nictop",
            {"textual", "rich", "asyncssh", "msgspec", "psutil", "pyroute2"},
        ),
        ("nictop.tui.screens.live.screen", {"psutil", "asyncssh", "pyroute2"}),
        ("nictop.wire.probe_process", {"asyncio", "msgspec", "typing"}),
        ("nictop.tui.controllers.replay", {"textual", "rich", "asyncssh", "psutil", "pyroute2"}),
        (
            "nictop.probe.__main__",
            {"textual", "rich", "msgspec", "asyncio", "pyroute2", "ctypes", "typing"},
        ),
    ],
)
def test_a_room_does_not_load_what_belongs_elsewhere(module: str, unwanted: set[str]) -> None:
    assert loaded_by(module) & unwanted == set()
