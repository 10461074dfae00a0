"""Work of a remote probe that fails ends the probe with the reason, at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nictop.probe.protocol.hello import hello
from nictop.probe.records import Line
from nictop.wire.budget import HostBudget
from nictop.wire.channel import STDERR_DATATYPE
from nictop.wire.errors import PermanentError, TransientError
from nictop.wire.source import SourceState
from nictop.wire.ssh.authentication import Credentials
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.remote_probe import RemoteProbe

HELLO = json.dumps({"hello": hello(1.0)}).encode() + b"\n"


class BrokenBundle:
    """Sources that cannot be made for the Python of the host."""

    first = b""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def rest_for(self, version: str, magic: str) -> bytes:
        raise self.error


def probe_with(error: Exception) -> RemoteProbe:
    bundle: Any = BrokenBundle(error)
    return RemoteProbe(
        RemoteCommand((), 0, 0, "a" * 16, "b" * 16), bundle, "vm1", Credentials(None), HostBudget()
    )


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError("3.99"), PermanentError, "internal error: KeyError: '3.99'"),
        (MemoryError(), PermanentError, "internal error: MemoryError: "),
        (ValueError("ev\x1b[2Jil"), PermanentError, "internal error: ValueError: ev [2Jil"),
        (TransientError("vm1 is busy"), TransientError, "vm1 is busy"),
    ],
)
async def test_sources_that_cannot_be_sent(
    error: Exception, kind: type[Exception], message: str
) -> None:
    probe = probe_with(error)
    probe.spawn(probe._send_rest("3.99.0", "00"))
    assert await probe.next() is None
    assert type(probe.error) is kind and str(probe.error) == message
    assert not probe._tasks


async def test_the_first_reason_is_kept_and_a_cancelled_task_is_none() -> None:
    probe = probe_with(KeyError("3.99"))
    probe._fail(TransientError("connection lost"))
    probe.spawn(probe._send_rest("3.99.0", "00"))
    probe.spawn(probe._send_pings())
    await probe.end()
    assert str(probe.error) == "connection lost"


async def test_silence_that_ended_makes_the_next_one_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guest that starts something says nothing for 7 s, and for 12 s the next time."""
    probe = probe_with(KeyError("3.99"))
    probe._is_complete, probe._noise = True, None
    for _ in range(3):
        probe._ping()
    probe.receive(b"", None)
    assert probe.slowness.factor == pytest.approx(3.0)
    assert probe._unanswered == 0


def started_probe() -> RemoteProbe:
    """Its hello has come, and 100 kB of sources are on their way."""
    probe = probe_with(KeyError("3.99"))
    probe._noise, probe._is_complete, probe._frame_bytes = None, True, 100_000
    probe.receive(HELLO, None)
    return probe


def say(probe: RemoteProbe, text: str) -> None:
    probe.receive(text.replace("MARK", f"{'b' * 16}-{'a' * 16}").encode(), STDERR_DATATYPE)


async def test_what_a_host_has_of_the_sources_is_shown() -> None:
    """It is not silent while they come; what is said to others stays on stderr."""
    probe = started_probe()
    for _ in range(2):
        item = await probe.next()
    assert isinstance(item, Line) and item.hello is not None
    probe._unanswered = 3
    say(probe, "warning: x\nMARK received 41500\n")
    item = await probe.next()
    assert item == SourceState("live", stage="probe", target="41 of 100 kB")
    assert probe._unanswered == 0 and bytes(probe._stderr) == b"warning: x\n"


async def test_when_all_sources_have_come_nothing_is_said_of_a_part() -> None:
    probe = started_probe()
    for _ in range(2):
        await probe.next()
    for count, target in ((99_000, "99 of 100 kB"), (100_000, "")):
        say(probe, f"MARK received {count}\n")
        assert await probe.next() == SourceState("live", stage="probe", target=target)


@pytest.mark.parametrize(
    "said",
    ["MARK received 100001", "MARK received 40000", "MARK received -1", "b-a received 50000"],
)
async def test_a_host_cannot_say_more_than_was_sent_or_less_than_before(said: str) -> None:
    probe = started_probe()
    probe._received_bytes = 40_000
    say(probe, f"{said}\n")
    assert probe._received_bytes == 40_000
    probe.inbox.close()
    items = [await probe.next() for _ in range(3)]
    assert not any(isinstance(item, SourceState) and item.stage for item in items)
