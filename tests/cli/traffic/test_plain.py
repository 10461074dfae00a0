"""The exit code of a traffic test without a screen, and what ends one by hand."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nictop.cli import arguments, terminal
from nictop.cli.commands import traffic
from nictop.cli.traffic import plain
from nictop.cli.traffic.plain import INPUT_ENDED, NOTHING_MEASURED, exit_code
from nictop.errors import NictopError
from nictop.traffic.generators.intervals import Total
from nictop.traffic.results.store import StoredRun
from tests.traffic.runs import flow, result

if TYPE_CHECKING:
    from nictop.traffic.results.result import Result


def stored(one: Result) -> StoredRun:
    return StoredRun("1", "1", one, 0.0, "1")


NOTHING = replace(flow(5.0), received=Total(False, False, 10.0, 0.0, bytes=0))


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([], 4),
        ([result(5.0)], 0),
        ([result(flows=(NOTHING,))], 4),
        ([result(flows=(flow(5.0), replace(NOTHING, sender="b", receiver="a")))], 4),
        ([result(5.0), result(flows=(NOTHING,))], 4),
    ],
)
def test_a_run_that_carried_nothing_has_failed(runs: list[Result], code: int) -> None:
    assert exit_code([stored(one) for one in runs], "") == code


class _Run:
    """A session that runs until it is stopped."""

    def __init__(self, *, is_running: bool) -> None:
        self.is_running, self.stopping = is_running, asyncio.Event()

    def stop(self) -> bool:
        if self.is_running:
            self.stopping.set()
        return self.is_running

    async def run(self) -> None:
        await self.stopping.wait()


class _Stdin:
    """Another one in place of that of the tests."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("typed", [b"", b"\n"])
def test_the_end_of_the_input_ends_a_measurement_by_hand(
    is_running: bool,
    typed: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also before it has begun: nothing would ever be read from there."""
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", _Stdin(reading))
    kind = terminal.stdin_kind()
    assert kind == "pipe"

    async def ended() -> asyncio.Task[None]:
        run = _Run(is_running=is_running)
        task = asyncio.ensure_future(run.run())
        stop = plain._Stop(run, task)  # type: ignore[arg-type]
        with plain._input_stops(run, stop, is_used=True):  # type: ignore[arg-type]
            os.write(writing, typed)
            os.close(writing)
            await asyncio.wait({task})
        stop.close()
        return task

    task = asyncio.run(ended())
    os.close(reading)
    assert task.cancelled() is not is_running
    has_said_it = INPUT_ENDED in capsys.readouterr().err
    assert has_said_it is (is_running and not typed)


def test_a_measurement_by_hand_says_that_nothing_was_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its host does not answer when the input ends."""
    reading, writing = os.pipe()
    os.write(writing, b"\n")
    os.close(writing)
    monkeypatch.setattr("sys.stdin", _Stdin(reading))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(plain, "_measure", never)
    options = arguments.parse(["traffic", "local", "--manual", "--plain"])
    with pytest.raises(NictopError, match=NOTHING_MEASURED):
        traffic.run(options)
    os.close(reading)


def test_what_ended_before_is_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a job that cron or ssh -n starts: only a signal ends a measurement."""
    reading, writing = os.pipe()
    os.close(writing)
    for descriptor in (reading, os.open(os.devnull, os.O_RDONLY)):
        monkeypatch.setattr("sys.stdin", _Stdin(descriptor))
        assert terminal.stdin_kind() == "none"
        os.close(descriptor)
    monkeypatch.setattr("sys.stdin", None)
    assert terminal.stdin_kind() == "none"
