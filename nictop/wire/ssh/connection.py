"""One authenticated connection to a host, through its jump hosts, or the sentence why there is none.

Reads ~/.ssh/config through asyncssh (HostName, User, Port, IdentityFile, CertificateFile, ProxyJump, ProxyCommand,
Include and Match among others; ssh_config(5)). Every hop has its host key checked and may ask the user. asyncssh is
imported here, when the first remote host is watched, and in a thread: it takes 0.2 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nictop.errors import HostUnreachable
from nictop.wire.errors import PermanentError, TransientError, plain, unreachable
from nictop.wire.ssh.authentication import DEFAULT_KEYS, Credentials, Login, Question
from nictop.wire.ssh.host_keys import (
    DEFAULT_PORT,
    GLOBAL_FILES,
    USER_FILES,
    HostKeys,
    KnownKeys,
    Policy,
    UnknownKey,
)
from nictop.wire.timeout import within

if TYPE_CHECKING:
    import asyncssh

USER_CONFIG = "~/.ssh/config"
CONNECT = 15.0
"""Seconds to be connected and let in, not counting those in which somebody is asked."""
MOST_HOPS = 8
PLAIN_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATE_TYPES = tuple(f"{kind}-cert-v01@openssh.com" for kind in PLAIN_TYPES)

MAX_HANDSHAKES = 2
"""SSH connections that are being opened at the same time: each costs some 20 ms of cryptography, in which no key is
handled."""
SLOT_SECONDS = 0.5
"""Longest time for which one that is being opened keeps others waiting."""


@dataclass(frozen=True)
class SshTarget:
    """Which host, and as whom. What is None or empty comes from ~/.ssh/config or is what ssh would take."""

    host: str
    user: str | None = None
    port: int | None = None
    label: str = ""
    """Name on the screen; "": the host."""
    identity_files: tuple[str, ...] = ()
    sudo: bool = False
    """Run the probe as root through sudo."""
    allow_changes: bool = False
    """The probe may change the host when it is asked to; otherwise the code for it is not even sent."""
    config: tuple[str, ...] | None = None
    """Files to read instead of ~/.ssh/config."""

    @property
    def name(self) -> str:
        return self.label or self.host


class Connection:
    """`ssh` is open until `close`; so are the hops in front of it."""

    def __init__(self) -> None:
        self.hops: list[asyncssh.SSHClientConnection] = []

    @property
    def ssh(self) -> asyncssh.SSHClientConnection:
        return self.hops[-1]

    async def close(self, patience: float = 0.5) -> None:
        """Last hop first. What the other side does not acknowledge in `patience` seconds is cut off."""
        while self.hops:
            hop = self.hops.pop()
            hop.close()
            with contextlib.suppress(asyncio.TimeoutError, OSError):
                await within(patience, hop.wait_closed())
            hop.abort()


async def connect(target: SshTarget, answers: Credentials, policy: Policy, limit: float = CONNECT) -> Connection:
    """Raises PermanentError or TransientError. `limit`: seconds, without those in which the user is asked something."""
    await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "asyncssh")
    connection = Connection()
    try:
        await _Hop(target, answers, policy, connection, limit).open()
    except BaseException:
        await asyncio.shield(connection.close())
        raise
    return connection


_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def _handshake_slot() -> Callable[[], None]:
    """Wait until fewer than `MAX_HANDSHAKES` connections are being opened; what gives the slot back. It is given back
    after `SLOT_SECONDS` in any case, so that hosts that never answer do not hold up the others."""
    loop = asyncio.get_running_loop()
    slots = _slots.setdefault(loop, asyncio.Semaphore(MAX_HANDSHAKES))
    await slots.acquire()
    held = True

    def release() -> None:
        nonlocal held
        if held:
            held = False
            timer.cancel()
            slots.release()

    timer = loop.call_later(SLOT_SECONDS, release)
    return release


class _Hop:
    """One machine on the way. `connection` has those in front of it."""

    def __init__(
        self, target: SshTarget, answers: Credentials, policy: Policy, connection: Connection, limit: float
    ) -> None:
        self._target, self._answers, self._policy, self._limit = target, answers, policy, limit
        self._connection = connection
        self._config = [path for path in map(os.path.expanduser, target.config or (USER_CONFIG,)) if readable(path)]

    async def open(self, depth: int = 0) -> None:
        import asyncssh

        shown = plain(self._target.name)
        try:
            settings = await asyncssh.SSHClientConnectionOptions.construct(**self._named(), client_keys=None)
        except (asyncssh.ConfigParseError, OSError, ValueError) as error:
            raise PermanentError(
                f"the settings for {shown} make no sense: {plain(str(error))}", "correct ~/.ssh/config"
            ) from None
        if isinstance(settings.tunnel, str) and not self._connection.hops:
            await self._open_jumps(settings.tunnel, depth)
        keys = HostKeys(
            _files(settings.config.get("UserKnownHostsFile", USER_FILES)),
            _files(settings.config.get("GlobalKnownHostsFile", GLOBAL_FILES)),
            policy=self._policy,
            confirm=self._confirm if self._answers.possible else None,
        )
        name, port = settings.host, settings.port
        if settings.host_key_alias:  # it stands in known_hosts without a port, whatever the port is
            name, port = settings.host_key_alias, DEFAULT_PORT
        for _ in range(3):  # a key that is accepted, then the connection; a host may show keys of several types
            known = await asyncio.get_running_loop().run_in_executor(None, keys.known, name, port)
            client = type("Client", (Login, asyncssh.SSHClient), {})
            login: Login = client(
                self._target.name, settings.username, self._answers, self._key_files(settings) or DEFAULT_KEYS
            )
            try:
                self._connection.hops.append(await self._attempt(settings, known, login))
                return
            except asyncssh.HostKeyNotVerifiable as error:
                if login.offered is None:
                    raise PermanentError(
                        f"the host key of {shown} cannot be trusted: {plain(str(error))}",
                        "ask who runs the host for its present key or certificate",
                    ) from None
                await keys.judge(name, port, login.offered)
        raise PermanentError(f"{shown} shows another host key each time", "do not connect to it")

    async def _open_jumps(self, jumps: str, depth: int) -> None:
        for jump in jumps.split(","):
            if depth >= MOST_HOPS or len(self._connection.hops) >= MOST_HOPS:
                raise PermanentError(
                    f"more than {MOST_HOPS} jump hosts on the way to {plain(self._target.name)}", "see ProxyJump"
                )
            user, _, host = jump.strip().rpartition("@")
            host, port = split_port(host)
            target = SshTarget(host, user or None, port, config=self._target.config)
            await _Hop(target, self._answers, self._policy, self._connection, self._limit).open(depth + 1)

    async def _attempt(self, settings: Any, known: KnownKeys, login: Login) -> asyncssh.SSHClientConnection:
        """Raises HostKeyNotVerifiable as it is, and HostUnreachable for everything else."""
        import asyncssh

        release = await _handshake_slot()
        work = asyncio.ensure_future(
            asyncssh.connect(
                **self._named(),
                tunnel=self._connection.hops[-1] if self._connection.hops else None,
                client_factory=lambda: login,
                known_hosts=lambda host, address, port: (known.keys, known.authorities, known.revoked),
                server_host_key_algs=host_key_types(known),
                client_keys=self._open_keys(settings),
                ignore_encrypted=True,
                connect_timeout=None,
                keepalive_interval=0,
                x11_forwarding=False,
                agent_forwarding=False,
            )
        )
        work.add_done_callback(lambda _: release())
        try:
            return await self._patiently(work)
        except asyncssh.HostKeyNotVerifiable:
            raise
        except (OSError, ValueError, asyncssh.Error) as error:
            raise self._explained(error, settings, login.hindrance) from None

    async def _patiently(self, work: asyncio.Future[asyncssh.SSHClientConnection]) -> asyncssh.SSHClientConnection:
        """The result of `work`, unless it takes too long while nobody is being asked."""
        clock = asyncio.get_running_loop().time
        spent, seen = 0.0, clock()
        wanted = False
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=min(1.0, self._limit / 4))
                now = clock()
                spent, seen = spent + (0.0 if self._answers.asking else min(now - seen, 1.0)), now
                if spent >= self._limit and not work.done():
                    raise TransientError(
                        f"{plain(self._target.name)} does not let us in within {self._limit:g} s",
                        "is it very busy, or is something else than sshd on this port?",
                    )
            wanted = True
            return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            if not wanted and not work.cancelled() and work.exception() is None:
                work.result().abort()  # let in at the very moment at which the source was closed

    def _named(self) -> dict[str, Any]:
        """Host, port and user, as far as they were said; the others come from the configuration."""
        named: dict[str, Any] = {"host": self._target.host, "config": self._config}
        if self._target.port is not None:
            named["port"] = self._target.port
        if self._target.user is not None:
            named["username"] = self._target.user
        return named

    def _key_files(self, settings: Any) -> Sequence[str]:
        """Those that were named; they may be encrypted or missing."""
        return self._target.identity_files or _files(settings.config.get("IdentityFile"))

    def _open_keys(self, settings: Any) -> list[str]:
        """For asyncssh, which takes its own defaults where there are none, and passes over encrypted ones."""
        return [path for path in map(os.path.expanduser, self._key_files(settings)) if readable(path)]

    async def _confirm(self, unknown: UnknownKey) -> bool:
        fingerprint = unknown.key.get_fingerprint()
        shown = f"{plain(unknown.key.get_algorithm())} {fingerprint}"
        text = f"The host key of {unknown.address} is not known. Is {shown} its key?"
        question = Question("host_key", self._target.name, text, secret=False, fingerprint=fingerprint)
        return await self._answers.ask(question) is not None

    def _explained(self, error: Exception, settings: Any, hindrance: str) -> HostUnreachable:
        import asyncssh

        shown, user = plain(self._target.name), plain(settings.username or getpass.getuser())
        if isinstance(error, HostUnreachable):
            return error
        if isinstance(error, OSError):
            return unreachable(
                error, shown if self._connection.hops else plain(f"{settings.host} port {settings.port}")
            )
        if isinstance(error, asyncssh.PermissionDenied):
            hint = hindrance or "is the key in the agent, and its public part in authorized_keys there? try ssh to it"
            return PermanentError(f"{shown} does not let {user} in", hint)
        if isinstance(error, asyncssh.ChannelOpenError):
            return TransientError(f"the jump host cannot reach {shown}: {plain(error.reason)}", "try ssh from there")
        if isinstance(error, asyncssh.ConnectionLost):
            return TransientError(
                f"{shown} has broken off the connection", "its sshd may be restarting or busy (MaxStartups)"
            )
        if isinstance(error, (asyncssh.KeyExchangeFailed, asyncssh.ProtocolNotSupported, asyncssh.ProtocolError)):
            return PermanentError(
                f"no common language with {shown}: {plain(str(error))}", "is an sshd on this port, and a recent one?"
            )
        return PermanentError(f"no connection to {shown}: {plain(str(error))}", "try ssh to it")


def host_key_types(known: KnownKeys) -> list[str]:
    """Those that the host is asked for, best first: certificates only where we know an authority (a host shows one
    otherwise that nobody can judge, though it has a plain key), and the types of the keys we know before others."""
    known_types = {key.get_algorithm() for key in known.keys}
    types = {"rsa-sha2-512" if kind == "ssh-rsa" else kind for kind in known_types}
    wanted = sorted(PLAIN_TYPES, key=lambda kind: kind not in types)
    return [*(CERTIFICATE_TYPES if known.authorities else ()), *wanted]


def split_port(text: str) -> tuple[str, int | None]:
    """``host``, ``host:22``, ``[::1]:22`` and a bare IPv6 address → name and port."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    return host, int(port) if port.isascii() and port.isdigit() and len(port) < 6 else None


def readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def _files(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()
