"""Servers that behave like no sshd: each is given up with a message, and their texts do not control
the terminal."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
import resource
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
from asyncssh.constants import (
    MSG_CHANNEL_DATA,
    MSG_DEBUG,
    MSG_GLOBAL_REQUEST,
    MSG_IGNORE,
    MSG_UNIMPLEMENTED,
)
from asyncssh.packet import Boolean, String, UInt32

from nictop.probe.protocol.hello import hello
from nictop.probe.records import Line
from nictop.wire import budget, inbox
from nictop.wire.source import WAITS_FOR_ANSWER, SourceState
from nictop.wire.ssh import receive_limit, remote_probe
from nictop.wire.ssh.authentication import Question
from nictop.wire.ssh.channel import CHANNEL_WINDOW_BYTES
from nictop.wire.ssh.source import SshSource, SshTarget
from tests.support.items import ITEM_TIMEOUT, Item, has_record, items_until, next_state
from tests.support.lines import inventory
from tests.support.sshd import children_are_known_to_have_ended, disable_ssh_timeouts

QUICK = (0.01, 0.05)
HOUR_SECONDS = 3600.0
Process = Any
Act = Callable[[Process], Awaitable[None]]


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    disable_ssh_timeouts(monkeypatch)


class AcceptAll(asyncssh.SSHServer):
    """Accepts every user."""

    def begin_auth(self, username: str) -> bool:
        return False


class PasswordServer(asyncssh.SSHServer):
    """The password is "secret"; the banner contains terminal control sequences."""

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        self._connection.send_auth_banner("\x1b[2J\x1b]0;owned\x07 welcome\r\n" * 1000)
        return True

    def kbdint_auth_supported(self) -> bool:
        return False

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return password == "secret"


class PromptServer(asyncssh.SSHServer):
    """Keyboard-interactive: a password and a code that differs each time."""

    code = 100

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "two\x1b[31m", "factors", "", [("Password: ", False), ("Code: ", True)]

    def validate_kbdint_response(self, username: str, responses: Any) -> bool:
        PromptServer.code += 1
        return list(responses) == ["secret", str(PromptServer.code)]


class RejectAll(asyncssh.SSHServer):
    """Rejects every key."""

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True


@asynccontextmanager
async def serving(
    folder: Path, act: Act, server: type[asyncssh.SSHServer] = AcceptAll, **options: Any
) -> AsyncIterator[SshTarget]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    running: set[asyncio.Task[None]] = set()

    def handle(process: Process) -> None:
        task = asyncio.ensure_future(act(process))
        running.add(task)

    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=server,
        server_host_keys=[key],
        process_factory=handle,
        encoding=None,
        **options,
    )
    try:
        yield target(folder, listener.get_port(), key)
    finally:
        listener.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await listener.wait_closed()


def target(folder: Path, port: int, key: asyncssh.SSHKey | None = None) -> SshTarget:
    known = f"[127.0.0.1]:{port} {key.export_public_key().decode()}" if key is not None else ""
    (folder / "known_hosts").write_text(known)
    (folder / "config").write_text(
        f"UserKnownHostsFile {folder / 'known_hosts'}\nIdentityAgent none\n"
    )
    return SshTarget(
        "127.0.0.1",
        getpass.getuser(),
        port,
        identity_files=(str(folder / "no"),),
        config=(str(folder / "config"),),
    )


def mark(process: Process) -> bytes:
    """The marker that the command expects."""
    text = shlex.split(process.command)
    return f"\n{text[8]}-{text[7]} ready 3.11.2\n".encode()


def hello_line(**other: object) -> bytes:
    return json.dumps({"hello": {**hello(1.0), **other}}).encode() + b"\n"


def sends(*parts: bytes, then: bytes = b"", status: int | None = None) -> Act:
    """Send marker, hello and `parts`; then `then` endlessly, or the exit status, or nothing
    more."""

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        for part in parts:
            process.stdout.write(part)
        while then:
            process.stdout.write(then)
            await process.stdout.drain()
        if status is not None:
            process.exit(status)

    return act


async def failure(source: SshSource, name: str = "lost") -> str:
    async with aclosing(source.items()) as items:
        failed = await next_state(items, name)
        await source.close()
    assert failed.message.isprintable() and len(failed.message) < 2000
    return failed.message


# ----------------------------------------------------------------------------------- authentication


class User:
    def __init__(self, answer: Callable[[Question], str | None]) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> str | None:
        self.questions.append(question)
        assert question.text.isprintable()
        return self.answer(question)


async def test_passwords_are_stored_until_they_are_rejected(tmp_path: Path) -> None:
    async with serving(tmp_path, sends(status=1), PasswordServer) as there:
        assert "permission denied for" in await failure(SshSource(there), "failed")
        person = User(lambda question: "wrong")
        assert "permission denied for" in await failure(SshSource(there, ask=person), "failed")
        assert [question.kind for question in person.questions] == ["password"] * 3
        assert "permission denied for" in await failure(
            SshSource(there, ask=User(lambda question: None)), "failed"
        )
        person = User(lambda question: "secret")
        source = SshSource(there, ask=person, retry=QUICK)
        async with aclosing(source.items()) as items:
            for _ in range(3):
                await items_until(items, has_record("hello"))
                await next_state(items, "lost")
            await source.close()
        assert len(person.questions) == 1 and person.questions[0].secret


async def test_one_time_codes_are_never_stored(tmp_path: Path) -> None:
    def answer(question: Question) -> str:
        assert question.kind == "prompt" and question.host == "127.0.0.1"
        return "secret" if question.secret else str(PromptServer.code + 1)

    person = User(answer)
    async with serving(tmp_path, sends(status=1), PromptServer) as there:
        source = SshSource(there, ask=person, retry=QUICK)
        async with aclosing(source.items()) as items:
            for _ in range(3):
                await items_until(items, has_record("hello"))
                await next_state(items, "lost")
            await source.close()
    assert [question.text.rpartition(": ")[2] for question in person.questions] == [
        "Password:",
        "Code:",
        "Code:",
        "Code:",
    ]


async def test_all_keys_rejected(tmp_path: Path) -> None:
    async with serving(tmp_path, sends(), RejectAll) as there:
        assert "permission denied for" in await failure(
            SshSource(there, ask=User(lambda question: "x")), "failed"
        )


async def test_time_for_an_answer_does_not_count_for_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit applies to machines, not to users. The clock of the event loop is advanced
    during a question."""
    loop, thought = asyncio.get_running_loop(), 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + thought)

    async def ask(question: Question) -> str:
        nonlocal thought
        while thought < 70.0:
            thought += 1.0
            for _ in range(5):  # iterations of the event loop in which all tasks check the clock
                await asyncio.sleep(0)
        return "secret"

    async with serving(tmp_path, sends(), PasswordServer) as there:
        source = SshSource(there, ask=ask, timeout=60.0)
        async with aclosing(source.items()) as items:
            received = await items_until(items, has_record("hello"), HOUR_SECONDS)
            states = [
                item.state
                for item in received
                if isinstance(item, SourceState) and item.stage is None
            ]
            assert states == ["connecting", "live"]
            await source.close()


async def test_a_question_for_the_host_key_says_so_until_the_answer(tmp_path: Path) -> None:
    """Its connection is closed while the user is asked."""
    answered = asyncio.Event()

    async def ask(question: Question) -> str:
        await answered.wait()
        return "secret" if question.kind == "password" else "yes"

    async with serving(tmp_path, sends(), PasswordServer) as there:
        (tmp_path / "known_hosts").write_text("")
        source = SshSource(there, ask=ask)
        targets: list[str] = []
        async with aclosing(source.items()) as items:
            async for item in items:
                if isinstance(item, SourceState) and item.stage == "host_key":
                    targets.append(item.target)
                if targets[-1:] == [WAITS_FOR_ANSWER]:
                    answered.set()
                if isinstance(item, SourceState) and item.state == "live":
                    break
            await source.close()
        assert targets == [targets[0], WAITS_FOR_ANSWER, targets[0]]


async def test_a_stage_in_which_the_user_is_asked_says_so_until_the_answer(tmp_path: Path) -> None:
    """It was "SSH handshake, 37 s" while a question of another host was on the screen."""
    answered = asyncio.Event()

    async def ask(question: Question) -> str:
        await answered.wait()
        return "secret"

    async with serving(tmp_path, sends(), PasswordServer) as there:
        source = SshSource(there, ask=ask)
        targets: list[str] = []
        async with aclosing(source.items()) as items:
            async for item in items:
                if isinstance(item, SourceState) and item.stage == "login":
                    targets.append(item.target)
                if targets[-1:] == [WAITS_FOR_ANSWER]:
                    answered.set()
                if isinstance(item, SourceState) and item.state == "live":
                    break
            await source.close()
        assert targets[1:] in ([WAITS_FOR_ANSWER], [WAITS_FOR_ANSWER, targets[0]])


# -------------------------------------------------------------------------------------- not an sshd


@asynccontextmanager
async def listening(
    folder: Path, act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await act(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield target(folder, server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()


async def test_silent_port(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    async with listening(tmp_path, silent) as there:
        reason = await failure(SshSource(there, timeout=0.5))
        assert "SSH handshake not completed within 0.5 s" in reason, "the login has not begun"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b"", "lost"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "lost"),
        (b"SSH-1.5-old\r\n", "failed"),
        (b"SSH-2.0-\x1b[2Jx\r\n" + b"\xff" * 5000, "failed"),
        (b"x" * 100_000, "failed"),
        (b"banner\r\n" * 5000, "failed"),
    ],
)
async def test_port_of_another_protocol(tmp_path: Path, text: bytes, name: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        await reader.read(10)

    async with listening(tmp_path, talk) as there:
        assert await failure(SshSource(there), name)


# -------------------------------------------------------------------------------------- not a probe


@pytest.mark.parametrize(
    ("act", "text", "name"),
    [
        (sends(status=0), "ended with status 0", "lost"),
        (sends(b"garbage\n" * 9), "too many invalid lines", "lost"),
        (sends(b"\xff\x00\x1b[2J" * 5 + b"\n", b"{}{}\n" * 9), "too many invalid lines", "lost"),
        (sends(hello_line(protocol=99)), "protocol version 99", "failed"),
        (sends(hello_line(version="\x1b[31m", protocol=98)), "protocol version 98", "failed"),
        (sends(then=b"x" * 65536), "line of more than", "lost"),
    ],
)
async def test_invalid_probe_output_closes_the_connection(
    tmp_path: Path, act: Act, text: str, name: str
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serving(tmp_path, act) as there:
        assert text in await failure(SshSource(there, retry=QUICK), name)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000
    )  # KiB: of both ends


def disable_budget_refill(monkeypatch: pytest.MonkeyPatch) -> float:
    """Hosts gain no CPU budget by waiting, which on a busy machine is all that this process does.
    Returns the usual share."""
    share = budget.TOTAL_CPU_SHARE
    monkeypatch.setattr(budget, "TOTAL_CPU_SHARE", 1e-9)
    monkeypatch.setattr(budget, "MIN_CPU_SHARE", 1e-9)
    return share


@pytest.mark.parametrize(
    "line",
    [
        b'{"trouble": {"time": 1, "message": "%s"}}\n' % (b"m" * 400) * 2000,
        b'{"unknown": "' + b"x" * 2**20 + b'"}\n',
        b'{"counters": {"time": 1, "links": {%s}, "cpus": {}}}\n'
        % b", ".join(b'"%d": []' % n for n in range(4000)),
    ],
    ids=["many lines", "large lines", "many links"],
)
async def test_a_host_that_sends_too_much_is_overloaded_until_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    """Nothing is lost, nothing accumulates here, and the connection stays open."""
    monkeypatch.setattr(budget, "TOTAL_BURST_SECONDS", 0.0)
    share = disable_budget_refill(monkeypatch)
    stop = asyncio.Event()

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        while not stop.is_set():
            process.stdout.write(line)
            await process.stdout.drain()
        process.stdout.write(b'{"trouble": {"time": 2, "message": "last"}}\n')
        await asyncio.Event().wait()

    def says_overloaded(wanted: bool) -> Callable[[Item], bool]:
        return lambda item: isinstance(item, SourceState) and item.overloaded is wanted

    async with serving(tmp_path, act) as there:
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            await items_until(items, says_overloaded(True))
            monkeypatch.setattr(budget, "TOTAL_CPU_SHARE", share)
            stop.set()
            received = await items_until(items, says_overloaded(False))
            assert [
                one.trouble.message for one in received if isinstance(one, Line) and one.trouble
            ][-1] == "last"
            assert not [
                one for one in received if isinstance(one, SourceState) and one.state != "live"
            ]
            await source.close()


async def test_closing_does_not_wait_for_an_overloaded_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TOTAL_BURST_SECONDS", 0.0)
    monkeypatch.setattr(budget, "OVERLOADED_PAUSE_FACTOR", 1e9)  # it never gets its next turn
    disable_budget_refill(monkeypatch)

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        while True:
            process.stdout.write(b'{"trouble": {"time": 1, "message": "m"}}\n' * 2000)
            await process.stdout.drain()

    async with serving(tmp_path, act) as there:
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            await items_until(items, lambda item: isinstance(item, SourceState) and item.overloaded)
            waiting = asyncio.ensure_future(items_until(items, has_record("pong")))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.wait_for(source.close(), ITEM_TIMEOUT)


async def test_failing_shell_reports_its_stderr(tmp_path: Path) -> None:
    async def act(process: Process) -> None:
        process.stderr.write(b"\x1b[31mrbash: exec: \x07restricted\x1b[0m\n")
        process.exit(1)

    async with serving(tmp_path, act) as there:
        message = await failure(SshSource(there), "failed")
        assert "before nictop's command was run" in message and "restricted shell" in message


async def test_account_without_shell(tmp_path: Path) -> None:
    async def act(process: Process) -> None:
        process.stdout.write(b"This account is currently not available.\n")
        process.exit(1)

    async with serving(tmp_path, act) as there:
        assert "This account is currently not available." in await failure(
            SshSource(there), "failed"
        )


async def test_hanging_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit ends after its stderr was received."""

    class Clock:
        @staticmethod
        def monotonic() -> float:
            probe = source._probe
            return 115.1 if isinstance(probe, remote_probe.RemoteProbe) and probe._stderr else 100.0

    monkeypatch.setattr(remote_probe, "STARTUP_TIMEOUT", 15.0)
    monkeypatch.setattr(remote_probe, "LATE_END_TIMEOUT", 0.0)
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.1)
    monkeypatch.setattr(remote_probe, "time", Clock)

    async def act(process: Process) -> None:
        process.stderr.write(b"waiting for a lock\n")

    async with serving(tmp_path, act) as there:
        source = SshSource(there)
        message = await failure(source)
        assert (
            "the login shell did not run nictop's command within 15 s" in message
            and "waiting for a lock" in message
        )


async def test_silent_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    monkeypatch.setattr(remote_probe, "MAX_UNANSWERED_PINGS", 4)
    async with serving(tmp_path, sends()) as there:
        assert "no more data from" in await failure(SshSource(there))


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_host_that_is_too_slow_to_be_read_gets_more_time_at_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """Else it would be started again and again, for ever."""
    monkeypatch.setattr(remote_probe, "PING_SECONDS", 0.05)
    monkeypatch.setattr(remote_probe, "MAX_UNANSWERED_PINGS", 4)
    read = msgspec.json.encode({"inventory": inventory().inventory}) + b"\n"
    lines = (read,) if is_read else ()
    async with serving(tmp_path, sends(*lines)) as there:
        source = SshSource(there, retry=(0.0, 0.0))
        waited: list[str] = []
        async with aclosing(source.items()) as items:
            while len(waited) < 4:
                lost = await next_state(items, "lost")
                waited.append(re.findall(r"for (\S+) s", lost.message)[0])
            await source.close()
    assert waited == (["0.2"] * 4 if is_read else ["0.2", "0.4", "0.8", "0.8"])


async def test_half_closed_channel(tmp_path: Path) -> None:
    """The silence of the server is not waited for: its timeout is endless here
    (`long_timeouts`)."""

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        process.stdout.write_eof()

    async with serving(tmp_path, act) as there:
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            await items_until(items, has_record("hello"))
            lost = await next_state(items, "lost")
            assert "127.0.0.1" in lost.message
            await source.close()


async def test_server_that_runs_no_commands(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=AcceptAll, server_host_keys=[key]
    )
    try:
        assert "refuses to run commands" in await failure(
            SshSource(target(tmp_path, listener.get_port(), key)), "failed"
        )
    finally:
        listener.close()
        await listener.wait_closed()


async def test_unrequested_clocks_and_pongs_are_ignored(tmp_path: Path) -> None:
    lies = (
        b'{"pong": {"sequence": 77, "monotonic": 1e300}}\n{"clock": {"time": 1, "offset": 2, '
        b'"uncertainty": 0}}\n'
    )
    async with serving(
        tmp_path, sends(lies, b'{"trouble": {"time": 1, "message": "last"}}\n')
    ) as there:
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            received = await items_until(items, has_record("trouble"))
            await source.close()
        assert not [
            item for item in received if isinstance(item, Line) and (item.clock or item.pong)
        ]
        assert source.clock is None


RELAY = """
import os, socket, sys, threading
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def send():
    while data := os.read(0, 65536):
        there.sendall(data)
threading.Thread(target=send, daemon=True).start()
while data := there.recv(65536):
    os.write(1, data)
"""


@pytest.mark.parametrize("proxy", [False, True], ids=["socket", "ProxyCommand"])
async def test_the_connection_is_held_when_items_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: bool
) -> None:
    monkeypatch.setattr(inbox, "MAX_QUEUED_BYTES", 32_000)
    monkeypatch.setattr(inbox, "RESUME_QUEUED_BYTES", 8000)
    total, sent = 3000, 0

    async def act(process: Process) -> None:
        nonlocal sent
        process.stdout.write(mark(process) + hello_line())
        for number in range(total):
            message = {"trouble": {"time": number, "message": "x" * 4000}}
            process.stdout.write(json.dumps(message).encode() + b"\n")
            await process.stdout.drain()
            sent = number

    async with serving(tmp_path, act) as there:
        if proxy:
            (tmp_path / "relay").write_text(RELAY)
            with (tmp_path / "config").open("a") as config:
                config.write(f"ProxyCommand {sys.executable} {tmp_path / 'relay'} %h %p\n")
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            await items_until(items, has_record("hello"))
            reached, turns = sent, 0
            while turns < 500:  # iterations of the event loop without progress; both ends run in it
                await asyncio.sleep(0)
                reached, turns = (sent, turns + 1) if reached == sent else (sent, 0)
            assert isinstance(source._probe, remote_probe.RemoteProbe)
            waits = source._probe.inbox.size
            assert (
                sent < total - 1 and 32_000 <= waits < 32_000 + CHANNEL_WINDOW_BYTES
            )  # sent before it is read
            received = await items_until(
                items,
                lambda item: (
                    isinstance(item, Line) and item.trouble and item.trouble.time == total - 1
                ),
            )
            times = [
                item.trouble.time for item in received if isinstance(item, Line) and item.trouble
            ]
            assert times == list(range(total))
            await source.close()
    await children_are_known_to_have_ended()


# ---------------------------------------------------------------------------- messages without data


def messages(kind: int, *fields: bytes) -> Act:
    """Send the hello, then SSH messages of this kind endlessly."""

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        connection = process.get_extra_info("connection")
        while not connection.is_closed():
            for _ in range(100):
                connection.send_packet(kind, *fields)
            await asyncio.sleep(0)

    return act


async def empty_data(process: Process) -> None:
    """Messages of the channel that hold nothing."""
    process.stdout.write(mark(process) + hello_line())
    channel, connection = process.channel, process.get_extra_info("connection")
    while not connection.is_closed():
        for _ in range(100):
            channel.send_packet(MSG_CHANNEL_DATA, String(b""))
        await asyncio.sleep(0)


async def other_command(process: Process) -> None:
    """Endless output of the command that looks for the end of a probe."""
    if process.command.startswith("exec "):
        process.stdout.write(mark(process) + hello_line(pid=77))
        process.exit_with_signal("KILL")
        return
    while not process.get_extra_info("connection").is_closed():
        process.stdout.write(b"x" * 65536)
        await process.stdout.drain()


@pytest.mark.parametrize(
    "act",
    [
        messages(MSG_IGNORE, String(b"x")),
        messages(MSG_IGNORE, String(b"x" * 10_000)),
        messages(MSG_DEBUG, Boolean(False), String(b"x"), String(b"")),
        messages(MSG_UNIMPLEMENTED, UInt32(0)),
        messages(MSG_GLOBAL_REQUEST, String(b"x"), Boolean(False)),
        empty_data,
    ],
    ids=["ignore", "large ignore", "debug", "unimplemented", "requests", "empty data"],
)
async def test_messages_without_data_end_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Act
) -> None:
    monkeypatch.setattr(receive_limit, "LOGIN_CPU_SECONDS", 0.0)
    async with serving(tmp_path, act) as there:
        source = SshSource(there, retry=QUICK)
        charged = charges_of(source, monkeypatch)
        assert "sends too many SSH messages without data" in await failure(source)
        assert sum(charged) > 0.001


def charges_of(source: SshSource, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """CPU seconds that will be charged to the host."""
    found: list[float] = []
    usual = source._budget.charge

    def charge(seconds: float, elapsed: float = 0.0) -> None:
        found.append(seconds)
        usual(seconds, elapsed)

    monkeypatch.setattr(source._budget, "charge", charge)
    return found


async def test_output_of_a_command_that_nobody_reads_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_probe, "KERNEL_LOG_TIMEOUT", HOUR_SECONDS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serving(tmp_path, other_command) as there:
        assert "was killed by KILL" in await failure(SshSource(there, retry=QUICK))
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    )  # KiB: of both ends


async def test_messages_during_a_question_end_the_connection(tmp_path: Path) -> None:
    """asyncssh stores them until there is an answer."""

    class Flood(PasswordServer):
        def begin_auth(self, username: str) -> bool:
            self._task = asyncio.ensure_future(self._flood())
            return True

        async def _flood(self) -> None:
            while not self._connection.is_closed():
                self._connection.send_packet(MSG_IGNORE, String(b"x" * 30_000))
                await asyncio.sleep(0)

    async def ask(question: Question) -> str | None:
        await asyncio.Event().wait()
        return None

    async with serving(tmp_path, sends(), Flood) as there:
        assert "sends too many SSH messages without data" in await failure(
            SshSource(there, ask=ask, retry=QUICK)
        )


async def test_many_small_messages_with_data_do_not_end_the_connection(tmp_path: Path) -> None:
    line = b'{"trouble": {"time": 1, "message": "m"}}\n'
    total = 400

    async def act(process: Process) -> None:
        process.stdout.write(mark(process) + hello_line())
        connection = process.get_extra_info("connection")
        for _ in range(total):
            for byte in line:
                process.stdout.write(bytes([byte]))
            connection.send_packet(MSG_IGNORE, String(b""))
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    async with serving(tmp_path, act) as there:
        source = SshSource(there)
        async with aclosing(source.items()) as items:
            found = 0
            while found < total:
                item = await asyncio.wait_for(anext(items), ITEM_TIMEOUT)
                found += isinstance(item, Line) and item.trouble is not None
                assert not isinstance(item, SourceState) or item.state != "lost"
            await source.close()


async def test_compression_is_not_accepted(tmp_path: Path) -> None:
    """asyncssh decompresses without a limit."""
    async with serving(tmp_path, sends(), compression_algs=["zlib@openssh.com"]) as there:
        assert "No matching compression algorithm found" in await failure(
            SshSource(there), "failed"
        )


async def test_a_flood_before_the_hello_is_not_said_to_be_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "TOTAL_BURST_SECONDS", 0.0)
    monkeypatch.setattr(budget, "MIN_BURST_SECONDS", 0.0)
    monkeypatch.setattr(receive_limit, "LOGIN_CPU_SECONDS", 0.0)

    async def act(process: Process) -> None:
        for _ in range(3000):
            process.stderr.write(b"x")
            await asyncio.sleep(0)
        process.exit(1)

    async with serving(tmp_path, act) as there:
        source = SshSource(there, retry=QUICK)
        async with aclosing(source.items()) as items:
            received = await items_until(
                items, lambda item: isinstance(item, SourceState) and item.state == "failed"
            )
            await source.close()
    assert {item.state for item in received if isinstance(item, SourceState)} == {
        "connecting",
        "failed",
    }


# -------------------------------------------------------------------------- what a host may ask for


async def test_a_host_that_takes_one_byte_at_a_time_is_given_up(tmp_path: Path) -> None:
    """The library would make a packet of each byte of the probe, all at once: that takes
    minutes."""
    async with serving(tmp_path, sends(), max_pktsize=1) as there:
        assert "takes packets of at most 1 B" in await failure(SshSource(there), "failed")


async def test_a_jump_host_that_takes_one_byte_at_a_time_is_given_up(tmp_path: Path) -> None:
    class Jump(AcceptAll):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._connection = conn

        def connection_requested(
            self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
        ) -> Any:
            channel: asyncssh.SSHTCPChannel[bytes] = self._connection.create_tcp_channel(
                max_pktsize=1
            )
            return channel, self._connection.forward_connection(dest_host, dest_port)

    (tmp_path / "jump").mkdir()
    async with (
        serving(tmp_path, sends()) as there,
        serving(tmp_path / "jump", sends(), Jump) as jump,
    ):
        known = [(folder / "known_hosts").read_text() for folder in (tmp_path, tmp_path / "jump")]
        (tmp_path / "known_hosts").write_text("\n".join(known) + "\n")
        with (tmp_path / "config").open("a") as config:
            config.write(f"Host far\nHostName 127.0.0.1\nPort {there.port}\n")
            config.write(f"ProxyJump {getpass.getuser()}@127.0.0.1:{jump.port}\n")
        text = await failure(SshSource(replace(there, host="far", port=None)), "failed")
    assert text.startswith("the jump host to far takes packets of at most 1 B")


async def test_a_prime_number_of_the_host_is_not_tested(tmp_path: Path) -> None:
    """It would be before the host key is, and for more than a minute."""
    async with serving(
        tmp_path, sends(), kex_algs=["diffie-hellman-group-exchange-sha256"]
    ) as there:
        assert "No matching key exchange algorithm found" in await failure(
            SshSource(there), "failed"
        )
