"""The probe as a child of the program: told how it is, restarted when it fails, and never left
behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from nictop.probe.protocol.hello import hello
from nictop.probe.records import Line, Request
from nictop.wire import inbox, local
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import StartedProbe, library_directories
from nictop.wire.source import Source, SourceState
from tests.support.items import ITEM_TIMEOUT, Item, has_record, is_state, items_until
from tests.support.probe import python_parameters, wait_until

QUICK = (0.01, 0.02)
HOUR = 3600.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child is taken to hang, however little CPU it gets."""
    monkeypatch.setattr(local, "HELLO_TIMEOUT", HOUR)
    assert LocalSource.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(LocalSource.__init__.__kwdefaults__, "silence_timeout", HOUR)


GREET = (
    f"import json, os, sys, time\nhello = {hello(0.1)!r}\n"
    "hello['pid'] = os.getpid()\n"
    "def say(line): sys.stdout.write(line + '\\n'); sys.stdout.flush()\n"
    "def greet(**other): say(json.dumps({'hello': {**hello, **other}}))\n"
)


def program(code: str) -> list[str]:
    """A child that is no nictop, in place of the probe."""
    return [sys.executable, "-I", "-S", "-c", GREET + code]


@asynccontextmanager
async def following(source: LocalSource) -> AsyncIterator[AsyncIterator[Item]]:
    async with aclosing(source.items()) as items:
        yield items
        await source.close()
    assert source.pid is None


def gone(pid: int) -> bool:
    """Whether a process has ended and has been waited for."""
    return not os.path.exists(f"/proc/{pid}")


async def test_the_real_probe_from_start_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "EXIT_TIMEOUT", HOUR)  # the end of its stdin must be enough
    source = LocalSource(0.1)
    as_any_source: Source = source
    assert as_any_source.name == os.uname().nodename and not as_any_source.pids
    async with following(source) as items:
        received = await items_until(items, has_record("inventory"))
        assert received[:2] == [SourceState("connecting"), SourceState("live")]
        assert isinstance(received[2], Line) and received[2].hello is not None
        # the clock of this machine is one with ours
        clock = next(
            item.clock for item in received if isinstance(item, Line) and item.clock is not None
        )
        assert (clock.offset, clock.uncertainty) == (0.0, 0.0)
        pid = received[2].hello.pid
        assert source.pids == (pid,)
        assert os.getsid(pid) == pid  # Ctrl-C in the terminal does not reach it
        await source.request(Request(watch=(2**30,)))
        await items_until(
            items,
            lambda item: isinstance(item, Line) and item.counters and item.counters.unreadable,
        )
        await source.close()
        assert gone(pid)
        await source.close()


@pytest.mark.parametrize("python", python_parameters(["python3.10", "python3.13"]))
async def test_another_python(python: str) -> None:
    async with following(LocalSource(0.1, python=python)) as items:
        received = await items_until(items, has_record("inventory"))
    greeting = next(item.hello for item in received if isinstance(item, Line) and item.hello)
    assert os.path.basename(python) == "python" + greeting.python.rpartition(".")[0]
    inventory = received[-1]
    assert (
        isinstance(inventory, Line)
        and inventory.inventory is not None
        and inventory.inventory.links
    )


async def test_a_killed_probe_is_said_and_comes_back_with_what_was_wanted() -> None:
    async with following(source := LocalSource(0.1, retry=QUICK)) as items:
        await items_until(items, has_record("counters"))
        await source.request(Request(interval=0.2, watch=(2**30,)))
        first = source.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        received = await items_until(items, is_state("lost"))
        lost = received[-1]
        assert isinstance(lost, SourceState)
        assert (
            "SIGKILL" in lost.message
            and lost.retry_in is not None
            and 0 < lost.retry_in <= QUICK[1]
        )
        again = await items_until(items, has_record("hello"))
        assert isinstance(again[-1], Line) and again[-1].hello is not None
        assert again[-1].hello.pid != first and again[-1].hello.interval == 0.2
        await items_until(
            items,
            lambda item: (
                isinstance(item, Line) and item.counters and "driver" in item.counters.unreadable
            ),
        )


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("print('only words', file=sys.stderr); sys.exit(7)", "status 7: only words"),
        ("raise RuntimeError('broken')", "status 1: RuntimeError: broken"),
        ("for _ in range(9): say('garbage')", "too many invalid lines"),
        ("for _ in range(9): say('{}')", "the first line is not a hello"),
        (
            "greet(); [say('\\x00\\xff') for _ in range(9)]; time.sleep(60)",
            "too many invalid lines",
        ),
        (
            "greet(); say('{\"counters\": 1}')\nfor _ in range(5): say('{\"counters\": 1}')",
            "$.counters",
        ),
        ("os.write(1, b'\\xff' * 1000)", "ended with status 0"),
        ("sys.stderr.write('y' * 10**6 + '\\nlast words\\n'); sys.exit(1)", "status 1: last words"),
        ("\nwhile True: os.write(1, b'x' * 65536)", "line of more than"),
        ("os.kill(os.getpid(), 6)", "SIGABRT"),
    ],
)
async def test_a_hostile_child_is_said_in_a_sentence_and_tried_again(
    code: str, sentence: str
) -> None:
    async with following(source := LocalSource(0.1, command=program(code), retry=QUICK)) as items:
        received = await items_until(items, is_state("lost"))
        assert isinstance(received[-1], SourceState)
        assert sentence in received[-1].message
        assert len(received[-1].message) < 4000
        assert source.pid is None
        await items_until(items, is_state("connecting"))


@pytest.mark.parametrize(
    "code", ["time.sleep(60)", "greet(); time.sleep(60)", "sys.stdout.close(); time.sleep(60)"]
)
async def test_a_child_that_hangs_is_ended(code: str) -> None:
    async with following(
        LocalSource(0.1, command=program(code), retry=QUICK, silence_timeout=0.5)
    ) as items:
        received = await items_until(items, is_state("lost"))
        assert isinstance(received[-1], SourceState) and received[-1].message


async def test_a_child_that_ignores_every_friendly_end() -> None:
    code = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); greet()\nwhile True: "
        "time.sleep(1)"
    )
    source = LocalSource(0.1, command=program(code))
    async with aclosing(source.items()) as items:
        await items_until(items, has_record("hello"))
        pid = source.pid
        assert pid is not None
        await asyncio.wait_for(source.close(), ITEM_TIMEOUT)
        assert gone(pid)


async def test_another_protocol_is_not_tried_again() -> None:
    async with following(
        LocalSource(0.1, command=program("greet(protocol=99); time.sleep(60)"), retry=QUICK)
    ) as items:
        received = await items_until(items, is_state("failed"))
        assert (
            isinstance(received[-1], SourceState) and "protocol version 99" in received[-1].message
        )
        with pytest.raises(StopAsyncIteration):
            await anext(items)


async def test_a_python_that_is_not_there() -> None:
    async with following(LocalSource(python="/nowhere/python3")) as items:
        received = await items_until(items, is_state("failed"))
        assert isinstance(received[-1], SourceState) and "/nowhere/python3" in received[-1].message


async def test_a_bad_line_now_and_then_is_said_and_survived() -> None:
    code = (
        "greet()\nfor n in range(30): say('bad'); say(json.dumps({'trouble': {'time': n, "
        "'message': 'm'}}))\n"
    )
    async with following(LocalSource(0.1, command=program(code + "time.sleep(60)"))) as items:
        received = await items_until(
            items, lambda item: isinstance(item, Line) and item.trouble and item.trouble.time == 29
        )
    states = [item for item in received if isinstance(item, SourceState)]
    assert [item.state for item in states] == ["connecting"] + ["live"] * 31
    assert sum("malformed" in item.message for item in states) == 30


async def test_tries_get_rarer_and_closing_does_not_wait_for_the_next() -> None:
    source = LocalSource(0.1, command=program("sys.exit(1)"), retry=(0.02, 0.2))
    async with following(source) as items:
        delays: list[float] = []
        while len(delays) < 6:
            lost = (await items_until(items, is_state("lost")))[-1]
            assert isinstance(lost, SourceState) and lost.retry_in is not None
            delays.append(lost.retry_in)
        assert all(0.75 * 0.02 * 2**n <= delay <= 0.02 * 2**n for n, delay in enumerate(delays[:4]))
        assert max(delays) <= 0.2
    slow = LocalSource(0.1, command=program("sys.exit(1)"), retry=(HOUR, HOUR))
    async with aclosing(slow.items()) as items:
        await items_until(items, is_state("lost"))
        await slow.close()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(items), ITEM_TIMEOUT)


async def test_a_cancelled_consumer_leaves_no_process() -> None:
    """What a screen does when it is closed: its worker is cancelled in the middle of waiting."""
    source = LocalSource(60.0)
    started = asyncio.Event()

    async def follow() -> None:
        async with aclosing(source.items()) as items:
            async for item in items:
                if has_record("inventory")(item):
                    started.set()

    worker = asyncio.ensure_future(follow())
    await asyncio.wait_for(started.wait(), ITEM_TIMEOUT)
    pid = source.pid
    assert pid is not None
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert gone(pid)


async def test_closing_while_no_items_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait in an inbox with an end; a reader that is held up by it does not hold up the
    end."""
    monkeypatch.setattr(inbox, "MAX_QUEUED_BYTES", 3000)
    code = (
        "greet()\nfor n in range(10**6): say(json.dumps({'trouble': {'time': n, 'message': 'm' "
        "* 999}}))"
    )
    source = LocalSource(0.1, command=program(code))
    async with aclosing(source.items()) as items:
        await items_until(items, has_record("trouble"))
        run = source._run
        assert run is not None and source.pid is not None
        pid = source.pid
        await asyncio.to_thread(wait_until, lambda: run.inbox.is_full)
        await asyncio.wait_for(source.close(), ITEM_TIMEOUT)
        assert gone(pid)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(items), ITEM_TIMEOUT)


async def test_closing_while_the_process_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who closes then knows of no process yet: it is ended by the one who made it."""
    made: list[int] = []
    open_process = local.ProbeProcess.open

    async def slow(*arguments: Any) -> Any:
        process = await open_process(*arguments)
        made.append(process.pid)
        await source.close()
        return process

    monkeypatch.setattr(local.ProbeProcess, "open", slow)
    source = LocalSource(0.1, command=program("greet()\nsys.stdin.read()"))
    async with aclosing(source.items()) as items:
        received = await asyncio.wait_for(collect(items), ITEM_TIMEOUT)
    assert received == [SourceState("connecting")]
    assert source.pid is None and gone(made[0])


async def collect(items: AsyncIterator[Item]) -> list[Item]:
    return [item async for item in items]


async def test_a_process_that_was_started_before_is_used_once() -> None:
    command = program("greet()\nsys.stdin.readline()")
    started = StartedProbe(command)
    first = started._process
    assert first is not None
    source = LocalSource(0.1, command=command, started=started, retry=QUICK)
    async with following(source) as items:
        await items_until(items, has_record("hello"))
        assert source.pid == first.pid
        os.kill(first.pid, signal.SIGKILL)
        await items_until(items, is_state("lost"))
        await items_until(items, has_record("hello"))
        assert source.pid not in (None, first.pid)


async def test_a_process_with_another_command_line_is_ended() -> None:
    started = StartedProbe(program("sys.stdin.read()"))
    process = started._process
    assert process is not None
    source = LocalSource(0.1, command=program("greet()\nsys.stdin.read()"), started=started)
    async with following(source) as items:
        await items_until(items, has_record("hello"))
        assert source.pid != process.pid and gone(process.pid)


def test_a_process_that_is_not_used_is_ended() -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay('here')\n"
    started = StartedProbe(program(f"{code}while True: time.sleep(1)"))
    process = started._process
    assert process is not None and process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    started.close()
    assert gone(process.pid)
    started.close()


def test_a_process_that_nothing_reads_yet_is_not_held_up_by_a_large_inventory() -> None:
    """Else its second reading is not taken, and the first screen has no rates."""
    started = StartedProbe(program("sys.stdout.write('x' * 900_000)"))
    try:
        assert started._process is not None
        assert started._process.wait(ITEM_TIMEOUT) == 0
    finally:
        started.close()


def test_libraries_are_found_without_being_imported() -> None:
    places = library_directories()
    assert os.path.isfile(os.path.join(places[0], "nictop", "probe", "records", "__init__.py"))
    assert any(os.path.isdir(os.path.join(place, "jeepney")) for place in places)
    code = (
        f"import sys; sys.path += {places!r}; from nictop.wire.probe_process import "
        f"library_directories as found; found(); "
    )
    code += "print('jeepney' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
