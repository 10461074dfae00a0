"""The screens over a real sshd: a key that nobody knows, a host that goes and comes back, and one
that never was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nictop.hosts.connect import connect
from nictop.hosts.specification import Host
from nictop.tui.app import NictopApp
from nictop.tui.screens.dialogs.question import QuestionScreen
from nictop.wire.source import Source
from nictop.wire.ssh.authentication import Ask
from tests.support.dialogs import press_button
from tests.support.probe import wait_until as wait_for
from tests.support.screen import WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource
from tests.support.sshd import Sshd, free_port, public_key, skip_without_sshd


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """One whose host key is not in the known hosts of this test's user."""
    skip_without_sshd()
    server = Sshd(tmp_path / "server")
    server.set_python(sys.executable)
    (tmp_path / "user" / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield server
    server.stop()


async def test_two_hosts_one_of_them_real(sshd: Sshd, tmp_path: Path) -> None:
    there = Host("there", sshd.address, sshd.user, sshd.port, identity_files=(str(sshd.key),))
    nowhere = Host("nowhere", "127.0.0.1", sshd.user, free_port(), identity_files=(str(sshd.key),))

    def source_of(host: Host, ask: Ask) -> Source:
        return connect(host, 0.2, eager=True, ask=ask)

    app = NictopApp(source_of, (there, nowhere), interval=0.2)
    async with running(app, WIDE, notifications=False) as pilot:
        screen = Screen(app, ScriptedSource(), pilot)
        await wait_until(screen, lambda: isinstance(app.screen, QuestionScreen))
        await screen.settle()
        drawn = " ".join(screen.drawn())
        assert "there: unknown host key" in drawn
        assert "SHA256:" in drawn
        await press_button(screen, "Trust")
        await wait_until(
            screen, lambda: any("Virtual interfaces ▸" in line for line in screen.lines())
        )
        known = tmp_path / "user" / ".ssh" / "known_hosts"
        assert public_key(sshd.host_key) in known.read_text()
        await wait_until(screen, lambda: "✖ nowhere" in screen.drawn()[1])

        sshd.stop()
        await wait_until(screen, lambda: "✖ there" in screen.drawn()[1])
        assert any("Virtual interfaces ▸" in line for line in screen.lines()), (
            "its last values stay"
        )
        assert app.screen.has_class("-stale")
        sshd.start()
        await wait_until(screen, lambda: "● there" in screen.drawn()[1])
        await wait_until(screen, lambda: not app.screen.has_class("-stale"))
    wait_for(lambda: not sshd.probes())
