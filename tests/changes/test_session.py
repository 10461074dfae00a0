"""A change session on a scripted host: its log, its progress, and the proof of a guided set-up."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from nictop.changes.audit_log import log_path, read
from nictop.changes.events import Applied, Event, GoalCheck, Prepared
from nictop.changes.job import ChangeJob
from nictop.changes.session import ChangeSession
from nictop.hosts.session import running
from nictop.probe.records import Line
from nictop.rules import Fix
from tests.changes.carrying import APPLIED, MTU, ScriptedProbe, line
from tests.support.model import lines_of, watched
from tests.support.sources import session_of

JOB = ChangeJob("kvm-guest", "set it now", "ens4", Fix("here", "set it now", (), False))


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path
