"""The probe over a real sshd: received items, authentication, host keys, and what is left on the
host."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import Line, Request
from nictop.wire.source import Source, SourceState
from nictop.wire.ssh import remote_probe
from nictop.wire.ssh.authentication import Credentials, Question
from nictop.wire.ssh.connection import Connection, connect
from nictop.wire.ssh.source import SshSource, SshTarget
from tests.support.items import ITEM_TIMEOUT, Item, has_record, is_state, items_until, next_state
from tests.support.probe import PYTHONS, is_alive, python_parameters, wait_until
from tests.support.sshd import (
    Sshd,
    command_line,
    disable_ssh_timeouts,
    free_port,
    generate_key,
    public_key,
    skip_without_sshd,
)

QUICK_RETRY = (0.01, 0.05)
BELOW_HEARTBEAT_SECONDS = 50.0
"""Seconds: less than the heartbeat after which the probe would end by itself
(`disable_ssh_timeouts`)."""


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    skip_without_sshd()
    server = Sshd(tmp_path)
    server.set_python(sys.executable)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    disable_ssh_timeouts(monkeypatch)


class User:
    """Answers questions, one after the other; the last answer is repeated."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    async def __call__(self, question: Question) -> str | None:
        self.questions.append(question)
        await asyncio.sleep(0)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@asynccontextmanager
async def following(source: SshSource) -> AsyncIterator[AsyncIterator[Item]]:
    async with aclosing(source.items()) as items:
        yield items
        await source.close()


def run(*command: str) -> str:
    """Standard output of a command."""
    return subprocess.run(
        command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout


async def failure(source: SshSource) -> str:
    """The message of the state ``failed``, which must be the last item."""
    async with following(source) as items:
        failed = await next_state(items, "failed")
        with pytest.raises(StopAsyncIteration):
            await anext(items)
    assert failed.message.isprintable()
    return failed.message


async def wait_until_live(source: SshSource) -> None:
    async with following(source) as items:
        received = await items_until(items, has_record("counters"))
    assert not [
        item
        for item in received
        if isinstance(item, SourceState) and item.state in ("lost", "failed")
    ]


# ----------------------------------------------------------------------------------- received items


async def test_the_real_probe_from_start_to_end(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        remote_probe, "REMOTE_END_TIMEOUT", 3600.0
    )  # the end of its stdin must suffice
    begin = time.monotonic()
    source = SshSource(replace(sshd.target(), label="vm1"), 0.1, eager=True)
    as_any_source: Source = source
    assert as_any_source.name == "vm1" and source.pids == ()
    before = file_names(sshd.home)
    async with following(source) as items:
        received = await items_until(items, has_record("inventory"))
        states = [item for item in received if isinstance(item, SourceState)]
        assert states[0] == SourceState("connecting") and states[-1] == SourceState("live")
        assert [(item.state, item.stage, item.target) for item in states[1:-1]] == [
            ("connecting", "resolve", sshd.address),
            ("connecting", "connect", f"{sshd.address} port {sshd.port}"),
            ("connecting", "host_key", "vm1"),
            ("connecting", "login", sshd.user),
            ("connecting", "probe", ""),
        ]
        first, second = received[len(states) : len(states) + 2]
        assert isinstance(first, Line) and first.hello is not None
        assert isinstance(second, Line) and second.counters is not None
        assert first.hello.interval == 0.1
        pid = first.hello.pid
        assert sshd.probes()[0] == pid
        shells = [command_line(one).split(b"\0")[0].decode() for one in sshd.sessions()]
        assert len(shells) >= 2 and not [shell for shell in shells if shell.endswith("sh")], shells
        await source.request(Request(watch=(2**30,)))
        await items_until(
            items,
            lambda item: isinstance(item, Line) and item.counters and item.counters.unreadable,
        )
        clock = (await items_until(items, has_record("clock")))[-1]
        assert isinstance(clock, Line) and clock.clock is not None and source.clock is not None
        # both ends have the same clock
        assert abs(source.clock.offset) <= source.clock.uncertainty <= time.monotonic() - begin
        await asyncio.wait_for(source.close(), BELOW_HEARTBEAT_SECONDS)
        wait_until(lambda: not is_alive(pid))
        await source.close()
    wait_until(lambda: not sshd.sessions())
    assert file_names(sshd.home) == before == []


def file_names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
async def test_every_python_on_the_remote_host(sshd: Sshd, python: str) -> None:
    sshd.set_python(python)
    async with following(SshSource(sshd.target(), 0.1)) as items:
        received = await items_until(items, has_record("inventory"))
    hello = next(item.hello for item in received if isinstance(item, Line) and item.hello)
    assert f"python{hello.python.rpartition('.')[0]}" == os.path.basename(python)
    assert not [item.trouble for item in received if isinstance(item, Line) and item.trouble]


async def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    skip_without_sshd()
    server = Sshd(tmp_path, path=str(tmp_path / "tools"))
    try:
        (server.tools / "sh").symlink_to("/bin/sh")
        assert "python3 not found on the host" in await failure(SshSource(server.target(), 0.1))
        server.install_script(
            "python", '#!/bin/sh\ntest "$*" = -V || exit 2; echo "Python 2.7.5" >&2\n'
        )
        message = await failure(SshSource(server.target(), 0.1))
        assert (
            "Python 2.7.5 on the host is too old: nictop needs Python 3.6 or newer there" in message
        )
        assert "`apt install python3`" in message
    finally:
        server.stop()


async def test_login_shells_with_output(sshd: Sshd) -> None:
    """Start files print before every command; the output must not be mistaken for the probe, and
    its length is limited."""
    (sshd.home / ".bashrc").write_text(
        "echo motd; echo '{\"hello\": 1}'; printf 'no newline'; echo oops >&2\n"
    )
    await wait_until_live(SshSource(sshd.target(), 0.1))
    (sshd.home / ".bashrc").write_text("head -c 200000 /dev/zero\n")
    source = SshSource(sshd.target(), 0.1)
    if "bash" not in os.path.basename(os.environ.get("SHELL", "bash")):
        pytest.skip("the login shell reads no .bashrc")
    assert "printed more than" in await failure(source)


async def test_requests_are_repeated_after_a_reconnect(sshd: Sshd) -> None:
    source = SshSource(sshd.target(), 0.1, retry=QUICK_RETRY)
    async with following(source) as items:
        await items_until(items, has_record("counters"))
        await source.request(Request(interval=0.2, watch=(2**30,)))
        first = sshd.probes()[0]
        os.kill(first, 9)
        lost = await next_state(items, "lost")
        assert (
            "KILL" in lost.message and lost.retry_in is not None and lost.retry_in <= QUICK_RETRY[1]
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


async def test_many_connections_closed_at_any_time(sshd: Sshd) -> None:
    async def briefly(seconds: float) -> None:
        source = SshSource(sshd.target(), 0.1)

        async def follow() -> None:
            async with aclosing(source.items()) as items:
                async for _ in items:
                    pass

        task = asyncio.ensure_future(follow())
        await asyncio.wait({task}, timeout=seconds)
        await source.close()
        await asyncio.wait_for(task, ITEM_TIMEOUT)

    await asyncio.gather(*(briefly(0.12 * number) for number in range(8)))
    wait_until(lambda: not sshd.sessions())


async def test_closed_between_connection_and_probe_start(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SshSource(sshd.target(), 0.1)
    closing: list[asyncio.Future[None]] = []

    async def connected(*arguments: Any, **options: Any) -> Connection:
        connection = await connect(*arguments, **options)
        closing.append(asyncio.ensure_future(source.close()))
        return connection

    monkeypatch.setattr("nictop.wire.ssh.source.connect", connected)
    async with following(source) as items:
        assert {item.state async for item in items if isinstance(item, SourceState)} == {
            "connecting"
        }
    await asyncio.gather(*closing)
    wait_until(lambda: not sshd.sessions())


@pytest.mark.parametrize("late", [False, True], ids=["at that moment", "although it was cancelled"])
async def test_a_connection_that_opens_after_close_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    asyncssh = pytest.importorskip("asyncssh")
    aborted: list[bool] = []

    class Arrived:
        def abort(self) -> None:
            aborted.append(True)

    async def wait_until_live(**options: object) -> Arrived:
        connecting.cancel()
        if late:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return Arrived()

    async def no_socket(*arguments: object) -> None:
        return None

    monkeypatch.setattr("nictop.wire.ssh.connection.open_socket", no_socket)
    monkeypatch.setattr(asyncssh, "connect", wait_until_live)
    target = SshTarget("192.0.2.1", "me", config=(str(tmp_path / "none"),))
    connecting = asyncio.ensure_future(connect(target, Credentials(None), "refuse"))
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert aborted == [True]


async def test_cancelling_the_consumer_ends_everything(sshd: Sshd) -> None:
    source = SshSource(sshd.target(), 0.1)
    seen = asyncio.Event()

    async def follow() -> None:
        async with aclosing(source.items()) as items:
            async for item in items:
                if isinstance(item, Line):
                    seen.set()

    task = asyncio.ensure_future(follow())
    await asyncio.wait_for(seen.wait(), ITEM_TIMEOUT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_until(lambda: not sshd.sessions())


def test_asyncssh_is_loaded_only_for_remote_hosts() -> None:
    code = (
        "import sys, nictop.wire.ssh.source, nictop.wire.ssh.connection; print('asyncssh' in "
        "sys.modules)"
    )
    assert run(sys.executable, "-c", code).strip() == "False"


# ----------------------------------------------------------------------------------- authentication


async def test_a_key_that_is_not_authorized(sshd: Sshd, tmp_path: Path) -> None:
    stranger = replace(sshd.target(), identity_files=(str(generate_key(tmp_path / "stranger")),))
    message = await failure(SshSource(stranger, 0.1))
    assert f"permission denied for {sshd.user}" in message and "authorized_keys" in message


async def test_a_key_with_a_passphrase(sshd: Sshd, tmp_path: Path) -> None:
    locked = generate_key(tmp_path / "locked", passphrase="open sesame")
    (tmp_path / "authorized_keys").write_text(public_key(locked) + "\n")
    target = replace(sshd.target(), identity_files=(str(locked),))
    assert "permission denied for" in await failure(SshSource(target, 0.1))
    if find_spec("bcrypt") is None:
        assert "the Python package bcrypt is required" in await failure(
            SshSource(target, 0.1, ask=User("open sesame"))
        )
        pytest.skip("without the package bcrypt no key can be decrypted")
    assert "permission denied for" in await failure(
        SshSource(target, 0.1, ask=(nobody := User(None)))
    )
    assert nobody.questions[0].kind == "passphrase" and nobody.questions[0].secret
    assert str(locked) in nobody.questions[0].text
    person = User("wrong", "open sesame")
    source = SshSource(target, 0.1, ask=person, retry=QUICK_RETRY)
    async with following(source) as items:
        await items_until(items, has_record("counters"))
        os.kill(sshd.probes()[0], 9)
        await next_state(items, "lost")
        await items_until(items, has_record("counters"))
    assert len(person.questions) == 2  # not asked again after the reconnect


async def test_a_certificate(sshd: Sshd, tmp_path: Path) -> None:
    authority, own_key = generate_key(tmp_path / "authority"), generate_key(tmp_path / "mine")
    run("ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", sshd.user, f"{own_key}.pub")
    (tmp_path / "authorized_keys").write_text(f"cert-authority {public_key(authority)}\n")
    await wait_until_live(SshSource(replace(sshd.target(), identity_files=(str(own_key),)), 0.1))


async def test_an_agent(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with agent(tmp_path / "agent") as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        run("ssh-add", "-q", str(sshd.key))
        await wait_until_live(
            SshSource(replace(sshd.target(), identity_files=(str(tmp_path / "none"),)), 0.1)
        )


@contextmanager
def agent(socket: Path) -> Iterator[Path]:
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent is not installed")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        file_names = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        ask = partial(
            subprocess.run, ["ssh-add", "-l"], env=file_names, check=False, capture_output=True
        )
        wait_until(lambda: ask().returncode != 2)  # the socket file exists before the agent listens
        yield socket
    finally:
        process.terminate()
        process.wait(ITEM_TIMEOUT)


async def test_user_configuration(sshd: Sshd, tmp_path: Path) -> None:
    """HostName, Port, User, IdentityFile and Include; and a jump host, whose key is checked too."""
    (tmp_path / "more").write_text(
        f"Host vm1 vm2\n HostName {sshd.address}\n Port {sshd.port}\n User {sshd.user}\n "
        f"IdentityFile {sshd.key}\n"
        " RemoteCommand false\n RequestTTY force\n"
    )
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path / 'more'}\nHost vm2\n ProxyJump vm1\nHost *\n UserKnownHostsFile "
        f"{sshd.known_hosts}\n"
    )
    await wait_until_live(SshSource(SshTarget("vm1", config=(str(config),)), 0.1))
    await wait_until_live(SshSource(SshTarget("vm2", config=(str(config),)), 0.1))
    wait_until(lambda: not sshd.sessions())
    sshd.known_hosts.write_text("")
    assert "unknown host key of" in await failure(
        SshSource(SshTarget("vm2", config=(str(config),)), 0.1)
    )
    config.write_text("Host *\n Port seven\n")
    message = await failure(SshSource(SshTarget("vm1", config=(str(config),)), 0.1))
    assert "line 2" in message and "config" in message


async def test_unreachable_behind_the_jump_host(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"Host jump\n HostName {sshd.address}\n Port {sshd.port}\n User {sshd.user}\n "
        f"IdentityFile {sshd.key}\n"
        f"Host far\n HostName 127.0.0.1\n Port {free_port()}\n ProxyJump jump\n"
        f"Host round\n ProxyJump trip\nHost trip\n ProxyJump round\nHost *\n UserKnownHostsFile "
        f"{sshd.known_hosts}\n"
    )
    async with following(SshSource(SshTarget("far", config=(str(config),)), 0.1)) as items:
        assert "jump host cannot reach far" in (await next_state(items, "lost")).message
    assert "jump hosts" in await failure(SshSource(SshTarget("round", config=(str(config),)), 0.1))


async def test_connection_refused_and_unknown_name(sshd: Sshd) -> None:
    closed = replace(sshd.target(), port=free_port())
    async with following(SshSource(closed, 0.1, retry=QUICK_RETRY)) as items:
        assert (
            "connection refused; check that sshd listens on this port"
            in (await next_state(items, "lost")).message
        )
        await items_until(items, is_state("connecting"))
    unknown = replace(sshd.target(), host="no-such-host.invalid")
    async with following(SshSource(unknown, 0.1, retry=QUICK_RETRY)) as items:
        assert ": cannot resolve the host name: " in (await next_state(items, "lost")).message


async def test_sshd_restarted(sshd: Sshd) -> None:
    async with following(SshSource(sshd.target(), 0.1, retry=QUICK_RETRY)) as items:
        await items_until(items, has_record("counters"))
        sshd.stop()
        await next_state(items, "lost")
        await next_state(items, "lost")
        sshd.start()
        await items_until(items, has_record("counters"))


# ---------------------------------------------------------------------------------------- host keys


async def test_unknown_host_key_asks_the_user(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    assert "unknown host key of" in await failure(SshSource(sshd.target(), 0.1))
    assert "not accepted" in await failure(SshSource(sshd.target(), 0.1, ask=User(None)))
    person = User("yes")
    await wait_until_live(SshSource(sshd.target(), 0.1, ask=person))
    fingerprint = run("ssh-keygen", "-lf", f"{sshd.host_key}.pub").split()[1]
    assert [question.kind for question in person.questions] == ["host_key"]
    assert (
        person.questions[0].fingerprint == fingerprint and fingerprint in person.questions[0].text
    )
    assert person.questions[0].file == str(sshd.known_hosts)
    assert (
        sshd.known_hosts.read_text()
        == f"[{sshd.address}]:{sshd.port} {public_key(sshd.host_key)}\n"
    )
    assert stat.S_IMODE(sshd.known_hosts.stat().st_mode) & 0o022 == 0
    await wait_until_live(SshSource(sshd.target(), 0.1))


async def test_new_host_keys_may_be_accepted_by_option(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    await wait_until_live(SshSource(sshd.target(), 0.1, host_keys="accept-new"))
    await wait_until_live(SshSource(sshd.target(), 0.1))


async def test_no_setting_disables_the_host_key_check(sshd: Sshd) -> None:
    sshd.client_config.write_text(
        "StrictHostKeyChecking no\nUserKnownHostsFile none\nGlobalKnownHostsFile none\n"
    )
    assert "unknown host key of" in await failure(SshSource(sshd.target(), 0.1))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
async def test_a_changed_host_key_is_always_rejected(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    """The previous key was of the same type or of another one."""
    before = public_key(generate_key(tmp_path / "before", kind=kind))
    sshd.known_hosts.write_text(f"[{sshd.address}]:{sshd.port} {before}\n")
    for policy in ("ask", "accept-new", "refuse"):
        person = User("yes")
        source = SshSource(sshd.target(), 0.1, ask=person, host_keys=policy)
        assert "has changed or has a new type" in await failure(source), policy
        assert not person.questions, policy


@pytest.mark.parametrize(
    ("client", "server", "cipher"),
    [
        ("", "", "aes128-gcm@openssh.com"),
        ("Ciphers aes256-ctr\n", "", "aes256-ctr"),
        ("", "Ciphers chacha20-poly1305@openssh.com", "chacha20-poly1305@openssh.com"),
    ],
)
async def test_a_cipher_that_costs_little_is_preferred(
    tmp_path: Path, client: str, server: str, cipher: str
) -> None:
    """The user's configuration comes first, and a host without that cipher is reached."""
    skip_without_sshd()
    sshd = Sshd(tmp_path, options=[server] if server else [])
    sshd.client_config.write_text(client + sshd.client_config.read_text())
    connection = Connection()
    try:
        connection = await connect(sshd.target(), Credentials(None), "refuse")
        assert (
            connection.ssh.get_extra_info("send_cipher")
            == connection.ssh.get_extra_info("recv_cipher")
            == cipher
        )
    finally:
        await connection.close()
        sshd.stop()


def run_openssh(sshd: Sshd) -> tuple[int, str]:
    """Exit code and output of OpenSSH's ssh with the same configuration."""
    way = [
        "-F",
        str(sshd.client_config),
        "-i",
        str(sshd.key),
        "-p",
        str(sshd.port),
        f"{sshd.user}@{sshd.address}",
    ]
    options = ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"]
    done = subprocess.run(
        ["ssh", *options, *way, "true"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not shutil.which("ssh"), reason="openssh-client is not installed")
async def test_a_host_key_alias_is_stored_without_the_port(sshd: Sshd, tmp_path: Path) -> None:
    """As ssh reads and writes it; with an alias too, a changed key is not treated as a new one."""
    sshd.client_config.write_text(f"HostKeyAlias Rack7\n{sshd.client_config.read_text()}")
    before = f"rack7 {public_key(generate_key(tmp_path / 'before'))}\n"
    sshd.known_hosts.write_text(before)
    code, message = run_openssh(sshd)
    assert code == 255 and "REMOTE HOST IDENTIFICATION HAS CHANGED" in message
    message = await failure(SshSource(sshd.target(), 0.1, host_keys="accept-new"))
    assert "host key of rack7 has changed" in message
    assert sshd.known_hosts.read_text() == before

    sshd.known_hosts.write_text("")
    await wait_until_live(SshSource(sshd.target(), 0.1, host_keys="accept-new"))
    ours = sshd.known_hosts.read_text()
    assert ours == f"rack7 {public_key(sshd.host_key)}\n"
    assert run_openssh(sshd)[0] == 0, "ssh knows the host by what was written here"
    sshd.known_hosts.write_text("")
    assert run_openssh(sshd)[0] == 0 and sshd.known_hosts.read_text() == ours


async def test_a_revoked_host_key(sshd: Sshd) -> None:
    own_key = public_key(sshd.host_key)
    for text in (
        f"@revoked * {own_key}\n[{sshd.address}]:{sshd.port} {own_key}\n",
        f"@revoked {sshd.address} {own_key}\n",
    ):
        sshd.known_hosts.write_text(text)
        assert "revoked" in await failure(SshSource(sshd.target(), 0.1, ask=User("yes"))), text


async def test_hashed_names(sshd: Sshd) -> None:
    run("ssh-keygen", "-H", "-f", str(sshd.known_hosts))
    assert sshd.address not in sshd.known_hosts.read_text()
    await wait_until_live(SshSource(sshd.target(), 0.1))


async def test_host_certificates(tmp_path: Path) -> None:
    """Trusted by their authority; without a known authority the plain key is checked as usual."""
    skip_without_sshd()
    authority, host_key = generate_key(tmp_path / "authority"), generate_key(tmp_path / "host_key")
    run(
        "ssh-keygen",
        "-q",
        "-s",
        str(authority),
        "-I",
        "host",
        "-h",
        "-n",
        "127.0.0.1",
        f"{host_key}.pub",
    )
    server = Sshd(tmp_path, options=[f"HostCertificate {host_key}-cert.pub"])
    server.set_python(sys.executable)
    try:
        server.known_hosts.write_text(f"@cert-authority [127.0.0.*]:* {public_key(authority)}\n")
        await wait_until_live(SshSource(server.target(), 0.1))
        server.known_hosts.write_text(
            f"@cert-authority * {public_key(authority)}\n@revoked * {public_key(authority)}\n"
        )
        assert "revoked" in await failure(SshSource(server.target(), 0.1))
        server.known_hosts.write_text(
            f"@cert-authority * {public_key(generate_key(tmp_path / 'stranger'))}\n"
        )
        assert "is not trusted" in await failure(SshSource(server.target(), 0.1, ask=User("yes")))
        server.known_hosts.write_text("")
        await wait_until_live(SshSource(server.target(), 0.1, ask=(person := User("yes"))))
        assert [question.kind for question in person.questions] == ["host_key"]
    finally:
        server.stop()


# ------------------------------------------------------------------------------------------- sudo

SUDO = """#!/bin/sh
# sudo as its manual describes it, for a user whose password is "secret"
while :; do
    case $1 in
    -n) quiet=1 ;;
    -S) asks=1 ;;
    -p) prompt=$2; shift ;;
    --) shift; break ;;
    *) break ;;
    esac
    shift
done
[ -e "$HOME/nopasswd" ] && exec env NICTOP_AS_ROOT=1 "$@"
[ -n "$quiet" ] && { echo "sudo: a password is required" >&2; exit 1; }
for attempt in 1 2 3; do
    printf %s "$prompt" >&2
    read -r password || exit 1
    [ "$password" = secret ] && exec env NICTOP_AS_ROOT=1 "$@"
    echo "Sorry, try again." >&2
done
echo "sudo: 3 incorrect password attempts" >&2
exit 1
"""


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def runs_as_root(server: Sshd, source: SshSource) -> bool:
    async with following(source) as items:
        await items_until(items, has_record("inventory"))
        return b"NICTOP_AS_ROOT=1" in environment(server.probes()[0])


async def test_sudo_without_and_with_a_password(sshd: Sshd) -> None:
    sshd.install_script("sudo", SUDO)
    target = sshd.target(sudo=True)
    message = await failure(SshSource(target, 0.1))
    assert "a password is required" in message and "sudoers" in message
    person = User("secret")
    assert await runs_as_root(sshd, SshSource(target, 0.1, ask=person))
    assert [question.kind for question in person.questions] == ["sudo"]
    person = User("wrong", "secret")
    source = SshSource(target, 0.1, ask=person, retry=QUICK_RETRY)
    async with following(source) as items:
        await items_until(items, has_record("counters"))
        os.kill(sshd.probes()[0], 9)
        await next_state(items, "lost")
        await items_until(items, has_record("counters"))
    assert len(person.questions) == 2
    assert "3 incorrect password attempts" in await failure(
        SshSource(target, 0.1, ask=User("wrong", "no", "never"))
    )
    assert "no password given" in await failure(SshSource(target, 0.1, ask=User(None)))
    (sshd.home / "nopasswd").touch()
    assert await runs_as_root(sshd, SshSource(target, 0.1))
    wait_until(lambda: not sshd.sessions())


async def test_sudo_not_installed(sshd: Sshd) -> None:
    if shutil.which("sudo", path="/usr/local/bin:/usr/bin:/bin") is not None:
        pytest.skip("sudo is installed here")
    message = await failure(SshSource(sshd.target(sudo=True), 0.1))
    assert "sudo" in message and "not found" in message
