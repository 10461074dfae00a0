"""Why a host is not reached, in a few words; the seconds behind it are never cut."""

from __future__ import annotations

import errno
import socket

import pytest

from nictop.hosts.brief_reason import MAX_CELLS, SHORTEST_CELLS, brief_reasons
from nictop.hosts.session import MAX_BRIEF_CELLS, HostSession
from nictop.hosts.specification import Host
from nictop.model.facts import width
from nictop.wire.errors import error_text, unreachable_error
from nictop.wire.source import SourceState


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "not resolved"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "refused"),
        (TimeoutError(), "no answer"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "unreachable"),
        (ConnectionResetError(), "connection closed"),
    ],
)
def test_each_reason_of_an_attempt_has_its_words(error: OSError, words: str) -> None:
    reason = error_text(unreachable_error(error, "vm1.example"))
    assert brief_reasons(reason)[0] == words


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "vm1: the agent of this machine has no key that it takes; try ssh",
        "x" * 300,
        "a" * 30 + " b",
        "\x1b[2J",
    ],
)
def test_other_reasons_end_with_whole_words(reason: str) -> None:
    shown, _ = brief_reasons(reason)
    assert width(shown) <= MAX_CELLS and "\x1b" not in shown
    assert bool(shown) == bool(reason)
    words = reason.replace(":", " ").split(" ")
    if len(words) > 1 and len(words[0]) < MAX_CELLS:
        assert shown.rstrip("…").rpartition(" ")[2] in words


@pytest.mark.parametrize(
    "reason",
    [
        "connection to a-host-with-a-name lost",
        "connection to vm1 lost: Broken pipe",
        "vm1: its ProxyCommand has ended",
        "vm1 refuses to run commands: denied by policy",
        "vm1: no data from the probe within 15 s",
        "vm1: Python did not start within 15 s",
        "vm1: container web was not entered within 15 s",
        "vm1: container web is not running: stopped",
        "vm1: container web is paused: frozen",
        "vm1: the login ended before nictop's command was run: x",
        "vm1: the login shell did not run nictop's command within 15 s",
        "vm1 sends too much data",
        "internal error: KeyError: 'x'",
    ],
)
def test_a_reason_that_has_no_room_has_fewer_words_not_half_ones(reason: str) -> None:
    brief, shortest = brief_reasons(reason)
    assert "…" not in brief + shortest
    assert width(brief) <= MAX_CELLS and width(shortest) <= SHORTEST_CELLS


@pytest.mark.parametrize("cells", [MAX_BRIEF_CELLS, 30, 24])
def test_the_seconds_stay_whole(cells: int) -> None:
    host = HostSession(Host("pve", "pve.example"), None)
    host.process(
        SourceState("lost", "jump host cannot reach pve: closed; try ssh from the jump host", 14.0),
        100.0,
    )
    assert host.has_failed
    text = host.brief_text(100.0, 1.0, cells)
    assert width(text) <= cells and text.endswith(", retry in 14 s")
    for now in (113.6, 114.0, 116.0):
        text = host.brief_text(now, 1.0, cells)
        assert width(text) <= cells and text.endswith(", retrying"), "no countdown at 0"
    host.process(SourceState("connecting"), 114.0)
    host.process(SourceState("connecting", stage="connect", target="192.0.2.1"), 120.0)
    text = host.brief_text(127.0, 1.0, cells)
    ends = ("; attempt 1, 13 s", "; attempt 1")
    assert host.has_failed and width(text) <= cells and text.endswith(ends)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("vm2: SSH handshake not completed in 20 s", "handshake; attempt 5"),
        ("vm2 is unreachable", "no route; attempt 5, 8 s"),
        ("connection refused", "refused; attempt 5, 8 s"),
        ("vm2: some thing that is long happened", "some…; attempt 5, 8 s"),
    ],
)
def test_narrow_column_has_fewer_words_and_no_cut_one(reason: str, words: str) -> None:
    """``handshak…; attempt 5, 2 s`` was in the table of hosts of 80 columns."""
    host = HostSession(Host("vm2", "vm2.example"), None)
    for time in range(5):
        host.process(SourceState("lost", reason, 1.0), time)
        host.process(SourceState("connecting"), time)
    host.process(SourceState("connecting", stage="connect", target="192.0.2.1"), 10.0)
    assert host.brief_text(12.0, 1.0, 24) == words
    host.process(SourceState("failed", "vm2: permission denied for root"), 13.0)
    assert host.brief_text(13.0, 1.0, 16) == "failed: denied"
    assert host.brief_text(13.0, 1.0, 10) == "failed"


def test_the_first_attempt_has_no_reason() -> None:
    host = HostSession(Host("pve", "pve.example"), None)
    host.process(SourceState("connecting"), 100.0)
    host.process(SourceState("connecting", stage="login", target="root"), 100.0)
    assert not host.has_failed and host.brief_text(104.0, 1.0) == "logging in, 4 s"
    host.process(
        SourceState("failed", "pve.example port 22: permission denied for root; try ssh"), 105.0
    )
    assert host.brief_text(106.0, 1.0) == "failed: permission denied"
