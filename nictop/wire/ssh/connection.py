"""Opens one authenticated connection to a host, through its jump hosts, or raises an error with the
reason.

The settings are those of ssh_config(5) (`config`). The host key of every hop is checked, and the
user may be asked about it. asyncssh is imported here, in a thread and when the first remote host is
watched: the import takes 0.2 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nictop.errors import HostUnreachable
from nictop.probe.light_dataclasses import dataclass
from nictop.wire.budget import HostBudget
from nictop.wire.channel import Carrier
from nictop.wire.errors import PermanentError, TransientError, sanitize, unreachable_error
from nictop.wire.source import WAITS_FOR_ANSWER
from nictop.wire.ssh.authentication import DEFAULT_KEYS, Credentials, Login, Question
from nictop.wire.ssh.channel import SshCarrier, check_packet_size
from nictop.wire.ssh.config.local_user import local_user
from nictop.wire.ssh.config.settings import GROUP_EXCHANGE, SshSettings, read_settings
from nictop.wire.ssh.exit_reason import AUTHENTICATION_HINT, ConnectTime
from nictop.wire.ssh.host_keys import (
    DEFAULT_PORT,
    HostKeys,
    KnownKeys,
    Policy,
    UnknownKey,
)
from nictop.wire.ssh.receive_limit import ReceiveLimit, receive_limit
from nictop.wire.ssh.tcp import Report, open_socket
from nictop.wire.timeout import with_timeout

if TYPE_CHECKING:
    import asyncssh

    from nictop.wire.guests.tunnel import ProcessTunnel
    from nictop.wire.local_channel import LocalCarrier
    from nictop.wire.source import ConnectionStage

CONNECT_TIMEOUT = 15.0
"""Seconds until connected and authenticated, without the time in which the user is asked
something."""
MAX_HOPS = 8
MAX_KEY_ATTEMPTS = 3
"""Connections until all host keys are accepted: a host may have keys of several types."""
PLAIN_KEY_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATE_SUFFIX = "-cert-v01@openssh.com"
CERTIFICATE_ALGORITHMS = tuple(f"{kind}{CERTIFICATE_SUFFIX}" for kind in PLAIN_KEY_ALGORITHMS)
FAST_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Tried before the other ciphers, unless ``Ciphers`` is set: for chacha20-poly1305 asyncssh makes
three cipher objects per packet, and watching 64 hosts takes a fifth more CPU time."""

KEY_EXCHANGES = f"-{GROUP_EXCHANGE.decode()}*"
"""All but those."""
COMPRESSION_ALGORITHMS = ("none",)
"""asyncssh decompresses a message without a limit: 1000 times what was received."""

MAX_HANDSHAKES = 2
"""SSH connections that are opened at the same time: each takes about 20 ms of cryptography, during
which keyboard input is not handled."""
LONGEST_COUNTED_SECONDS = 1.0
"""Of the time between two looks at a connection that is being opened: this machine may have slept
between them."""
HANDSHAKE_SLOT_SECONDS = 0.5
"""Longest time for which a connection that is being opened delays others."""


@dataclass(frozen=True)
class SshTarget:
    """Host and login. None or "" means: as in ~/.ssh/config, or the default of ssh."""

    host: str
    user: str | None = None
    port: int | None = None
    label: str = ""
    """Name on the screen; "": the host name."""
    identity_files: tuple[str, ...] = ()
    sudo: bool = False
    """Run the probe as root through sudo."""
    allow_changes: bool = False
    """The probe may change the host on request; otherwise the code for changes is not sent."""
    allow_workload: bool = False
    """The probe may run a command that the user has typed; otherwise the code for it is not
    sent."""
    config: tuple[str, ...] | None = None
    """A file to read instead of those of the user and of the system."""

    @property
    def name(self) -> str:
        return self.label or self.host


class Connection:
    """`ssh` and the hops before it are open until `close`."""

    def __init__(self, local: LocalCarrier | None = None) -> None:
        """`local`: it begins on this machine, not at the first hop."""
        self.hops: list[asyncssh.SSHClientConnection] = []
        self.tunnels: list[ProcessTunnel] = []
        """By which hops are reached that the hop before does not reach by itself."""
        self._local = local
        self.slowest: ConnectTime | None = None
        """Of the hops, the one that took most of its time limit."""

    @property
    def ssh(self) -> asyncssh.SSHClientConnection:
        return self.hops[-1]

    @property
    def is_open(self) -> bool:
        return bool(self.hops) or self._local is not None

    @property
    def carrier(self) -> Carrier:
        """Runs commands on the last hop, or on this machine."""
        if self.hops:
            return SshCarrier(self.ssh)
        assert self._local is not None
        return self._local

    def note_time(self, took: ConnectTime) -> None:
        """A hop was reached."""
        if self.slowest is None or took.share > self.slowest.share:
            self.slowest = took

    async def close(self, timeout: float = 0.5) -> None:
        """Close the last hop first. A hop that does not acknowledge within `timeout` seconds is
        aborted."""
        while self.hops:
            hop = self.hops.pop()
            hop.close()
            with contextlib.suppress(asyncio.TimeoutError, OSError):
                await with_timeout(timeout, hop.wait_closed())
            hop.abort()
        while self.tunnels:
            self.tunnels.pop().close()
        if self._local is not None:
            await self._local.close()


def _no_report(stage: ConnectionStage, target: str) -> None:
    """Report to nobody."""


async def connect(
    target: SshTarget,
    credentials: Credentials,
    policy: Policy,
    timeout: float = CONNECT_TIMEOUT,
    report: Report = _no_report,
    *,
    budget: HostBudget | None = None,
) -> Connection:
    """Open a connection; raises PermanentError or TransientError. `timeout`: seconds, without the
    time in which the user is asked something. `report` is called when a stage begins. What is
    received is charged to `budget`."""
    await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "asyncssh")
    connection = Connection()
    try:
        hop = _Hop(
            target,
            credentials,
            policy,
            connection,
            timeout=timeout,
            report=report,
            budget=budget or HostBudget(),
        )
        await hop.open()
    except BaseException:
        await asyncio.shield(connection.close())
        raise
    return connection


OpenTunnel = Callable[[], Awaitable["ProcessTunnel"]]
"""A new tunnel for each connection: the first one may end with an unknown host key."""


async def connect_guest(
    connection: Connection,
    open_tunnel: OpenTunnel | None,
    target: SshTarget,
    credentials: Credentials,
    policy: Policy,
    *,
    timeout: float,
    report: Report,
    budget: HostBudget,
) -> None:
    """Add a hop to an open connection, through its last hop or by a tunnel. Raises PermanentError
    or TransientError."""
    await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "asyncssh")
    hop = _Hop(
        target,
        credentials,
        policy,
        connection,
        timeout=timeout,
        report=report,
        budget=budget,
        open_tunnel=open_tunnel,
    )
    await hop.open()


_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def _handshake_slot() -> Callable[[], None]:
    """Wait until fewer than `MAX_HANDSHAKES` connections are being opened; returns the function
    that releases the slot. It is released after `HANDSHAKE_SLOT_SECONDS` in any case, so that hosts
    that never answer do not delay the others."""
    loop = asyncio.get_running_loop()
    slots = _slots.setdefault(loop, asyncio.Semaphore(MAX_HANDSHAKES))
    await slots.acquire()
    is_held = True

    def release() -> None:
        nonlocal is_held
        if is_held:
            is_held = False
            timer.cancel()
            slots.release()

    timer = loop.call_later(HANDSHAKE_SLOT_SECONDS, release)
    return release


class _Hop:
    """One machine on the path; `connection` holds the hops before it."""

    def __init__(
        self,
        target: SshTarget,
        credentials: Credentials,
        policy: Policy,
        connection: Connection,
        *,
        timeout: float,
        report: Report,
        budget: HostBudget,
        open_tunnel: OpenTunnel | None = None,
    ) -> None:
        self._open_tunnel = open_tunnel
        self._tunnel: ProcessTunnel | None = None
        """The last one."""
        self._target, self._credentials, self._policy, self._timeout = (
            target,
            credentials,
            policy,
            timeout,
        )
        self._connection, self._report_stage, self._budget = connection, report, budget
        self._stage: ConnectionStage = "resolve"
        self._stage_target = target.host
        self._is_asking = False
        self._spent: dict[ConnectionStage, float] = {}
        """Stage → its seconds in this attempt, without those in which the user is asked."""
        self._counted_at = 0.0
        """The time of the event loop up to which they are counted."""

    async def open(self, depth: int = 0) -> None:
        target = self._target
        settings = await read_settings(target.host, target.user, target.port, target.config)
        if settings.connect_seconds is not None:
            self._timeout = settings.connect_seconds
        if settings.is_batch:
            self._credentials = Credentials(None)
        if settings.jumps and self._is_first:
            await self._open_jumps(settings.jumps, depth)
        keys = HostKeys(
            settings.user_files,
            settings.global_files,
            policy=settings.strict or self._policy,
            confirm=self._confirm if self._credentials.can_ask else None,
            revoked_file=settings.revoked_file,
            is_hashed=settings.is_hashed,
            min_rsa_bits=settings.min_rsa_bits,
        )
        for _ in range(MAX_KEY_ATTEMPTS):
            ssh = await self._connect(settings, keys)
            if ssh is not None:
                self._connection.hops.append(ssh)
                return
        raise PermanentError(
            f"{sanitize(target.name)} presents a different host key each time",
            "do not connect to this host",
        )

    async def _connect(
        self, settings: SshSettings, keys: HostKeys
    ) -> asyncssh.SSHClientConnection | None:
        """None: its host key was not known, and is accepted for the next time."""
        import asyncssh

        name, port = settings.host, settings.port
        if settings.host_key_alias:  # its line in known_hosts has no port
            name, port = settings.host_key_alias, DEFAULT_PORT
        known = await asyncio.get_running_loop().run_in_executor(None, keys.known, name, port)
        client = type("Client", (Login, asyncssh.SSHClient), {})
        login: Login = client(
            self._target.name,
            settings.username,
            self._credentials,
            self._key_files(settings) or DEFAULT_KEYS,
            self._report,
            limit=ReceiveLimit(self._budget, self._target.name, self._outer_limit),
        )
        try:
            return await self._attempt(settings, keys, known, login)
        except asyncssh.HostKeyNotVerifiable as error:
            if login.offered_key is None:
                raise PermanentError(
                    f"host key of {sanitize(self._target.name)} is not trusted: "
                    f"{sanitize(str(error))}",
                    "ask the administrator of the host for its current key or certificate",
                ) from None
            if login.offered_key in known.keys:
                # without those that differ from the keys of the address
                raise PermanentError(
                    f"the address of {sanitize(self._target.name)} has another host key in "
                    f"known_hosts (CheckHostIP)",
                    "it may be another machine; if the address has been given to this one: "
                    "ssh-keygen -R ADDRESS",
                ) from None
            await keys.judge(name, port, login.offered_key)
            return None

    async def _open_jumps(self, jumps: str, depth: int) -> None:
        for jump in jumps.split(","):
            if depth >= MAX_HOPS or len(self._connection.hops) >= MAX_HOPS:
                raise PermanentError(
                    f"more than {MAX_HOPS} jump hosts to {sanitize(self._target.name)}",
                    "check ProxyJump in ~/.ssh/config",
                )
            user, _, host = jump.strip().rpartition("@")
            host, port = split_port(host)
            target = SshTarget(host, user or None, port, config=self._target.config)
            hop = _Hop(
                target,
                self._credentials,
                self._policy,
                self._connection,
                timeout=self._timeout,
                report=self._report_stage,
                budget=self._budget,
            )
            await hop.open(depth + 1)

    @property
    def _is_first(self) -> bool:
        """It is connected to from this machine."""
        return not self._connection.hops and self._open_tunnel is None

    @property
    def _is_forwarded(self) -> bool:
        """The hop before connects to it."""
        return bool(self._connection.hops) and self._open_tunnel is None

    @property
    def _outer_limit(self) -> ReceiveLimit | None:
        """That of the hop before, if that passes on what is received."""
        return receive_limit(self._connection.ssh) if self._is_forwarded else None

    async def _attempt(
        self, settings: SshSettings, keys: HostKeys, known: KnownKeys, login: Login
    ) -> asyncssh.SSHClientConnection:
        """Connect once. Raises HostKeyNotVerifiable unchanged, and HostUnreachable for everything
        else."""
        import asyncssh

        release = await _handshake_slot()
        work = asyncio.ensure_future(self._logged_in(settings, keys, known, login))
        work.add_done_callback(lambda _: release())
        try:
            return await self._with_time_limit(work)
        except asyncssh.HostKeyNotVerifiable:
            raise
        except (OSError, ValueError, asyncssh.Error) as error:
            raise self._connect_error(error, settings, login.key_problem) from None

    async def _logged_in(
        self, settings: SshSettings, keys: HostKeys, known: KnownKeys, login: Login
    ) -> asyncssh.SSHClientConnection:
        """The connection after the authentication, through the hop before it if there is one."""
        import asyncssh

        def trusted(host: str, address: str, port: int) -> tuple[Sequence[asyncssh.SSHKey], ...]:
            has_address = settings.checks_address and self._open_tunnel is None
            is_checked = has_address and not ipaddress.ip_address(address).is_loopback
            found = keys.known_at(known, address, port) if is_checked else known
            return found.keys, found.authorities, found.revoked

        connected = None
        if self._open_tunnel is not None:
            self._report("connect", settings.host)
            self._tunnel = await self._open_tunnel()
            connected = self._tunnel.socket
        elif self._is_forwarded:
            self._report("connect", settings.host)
        else:
            connected = await open_socket(settings, self._report)
        try:
            ssh = await asyncssh.connect(
                **self._library_options(settings),
                sock=connected,
                tunnel=self._connection.hops[-1] if self._is_forwarded else None,
                client_factory=lambda: login,
                known_hosts=trusted,
                server_host_key_algs=host_key_algorithms(known, settings.host_key_algorithms),
                compression_algs=COMPRESSION_ALGORITHMS,
                ignore_encrypted=True,
                connect_timeout=None,
                keepalive_interval=0,
                x11_forwarding=False,
                agent_forwarding=False,
            )
        except BaseException:
            if connected is not None:  # asyncssh may not have taken it yet
                connected.close()
            raise
        if self._is_forwarded:
            self._check_jump(ssh)
        return ssh

    def _check_jump(self, ssh: asyncssh.SSHClientConnection) -> None:
        """The jump host takes whole packets. Raises PermanentError."""
        try:
            check_packet_size(
                getattr(ssh, "_transport", None), f"the jump host to {sanitize(self._target.name)}"
            )
        except PermanentError:
            ssh.abort()
            raise

    def _report(self, stage: ConnectionStage, target: str) -> None:
        self._count_time()
        self._stage, self._stage_target, self._is_asking = stage, target, False
        self._report_stage(stage, sanitize(target))

    def _report_question(self) -> None:
        """The stage that is on, once when the user is asked and once when that is over."""
        is_asking = bool(self._credentials.open_questions)
        if is_asking != self._is_asking:
            self._is_asking = is_asking
            target = WAITS_FOR_ANSWER if is_asking else sanitize(self._stage_target)
            self._report_stage(self._stage, target)

    def _count_time(self) -> None:
        """Until now, for the stage that is on."""
        now = asyncio.get_running_loop().time()
        if not self._credentials.open_questions:
            passed = min(now - self._counted_at, LONGEST_COUNTED_SECONDS)
            self._spent[self._stage] = self._spent.get(self._stage, 0.0) + passed
        self._counted_at = now

    async def _with_time_limit(
        self, work: asyncio.Future[asyncssh.SSHClientConnection]
    ) -> asyncssh.SSHClientConnection:
        """The result of `work`. Raises TransientError when the limit is over; the time in which the
        user is asked does not count."""
        self._spent, self._counted_at = {}, asyncio.get_running_loop().time()
        is_taken = False
        try:
            while not work.done():
                longest = min(LONGEST_COUNTED_SECONDS, self._timeout / 4)
                await asyncio.wait({work}, timeout=longest)
                self._count_time()
                self._report_question()
                if sum(self._spent.values()) >= self._timeout and not work.done():
                    raise self._too_late()
            is_taken = True
            name = sanitize(self._target.name)
            self._connection.note_time(ConnectTime(name, dict(self._spent), self._timeout))
            return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            if not is_taken and not work.cancelled() and work.exception() is None:
                work.result().abort()  # connected at the same time as the source was closed

    def _too_late(self) -> TransientError:
        """The error when the time limit is over, by the stage in which it is."""
        name, target, limit = (
            sanitize(self._target.name),
            sanitize(self._stage_target),
            f"within {self._timeout:g} s",
        )
        if self._stage == "resolve":
            return TransientError(
                f"{name}: no answer from the resolver {limit}", "check DNS (/etc/resolv.conf)"
            )
        if self._stage == "connect":
            return TransientError(
                f"{name}: no answer from {target} {limit}",
                "check that the host is up, its address, and firewalls",
            )
        if self._stage == "host_key":
            return TransientError(
                f"{name}: SSH handshake not completed {limit}",
                "the host may be overloaded, or the port is not that of sshd",
            )
        return TransientError(f"{name}: SSH login not completed {limit}", AUTHENTICATION_HINT)

    def _library_options(self, settings: SshSettings) -> dict[str, Any]:
        """Arguments of asyncssh.connect for the settings; it reads no configuration itself."""
        options = {
            "config": None,
            "host": settings.host,
            "port": settings.port,
            "username": settings.username,
            "host_key_alias": settings.host_key_alias or None,
            "proxy_command": settings.proxy_command if self._is_first else None,
            "encryption_algs": FAST_CIPHERS,
            "kex_algs": KEY_EXCHANGES,
            "client_keys": [path for path in self._readable_keys(settings) if not is_public(path)],
            **settings.options,
        }
        if settings.identities_only:
            allowed = public_keys(self._readable_keys(settings))
            options["agent_identities"] = allowed
            if not allowed:  # asyncssh would try all keys of the agent
                options["agent_path"] = ""
        return options

    def _key_files(self, settings: SshSettings) -> Sequence[str]:
        """The configured key files; they may be encrypted or missing."""
        return self._target.identity_files or settings.key_files

    def _readable_keys(self, settings: SshSettings) -> list[str]:
        """Readable key files for asyncssh: with an empty list it takes its own defaults, and it
        ignores encrypted keys."""
        return [
            path for path in map(os.path.expanduser, self._key_files(settings)) if is_readable(path)
        ]

    async def _confirm(self, unknown: UnknownKey) -> bool:
        fingerprint = unknown.key.get_fingerprint()
        shown = f"{sanitize(unknown.key.get_algorithm())} {fingerprint}"
        text = f"Unknown host key of {unknown.address}: {shown}. Trust it?"
        question = Question(
            "host_key",
            self._target.name,
            text,
            secret=False,
            fingerprint=fingerprint,
            file=sanitize(unknown.file),
        )
        self._report_stage("host_key", WAITS_FOR_ANSWER)
        return await self._credentials.ask(question) is not None

    def _connect_error(
        self, error: Exception, settings: SshSettings, key_problem: str
    ) -> HostUnreachable:
        import asyncssh

        if isinstance(error, HostUnreachable):
            return error
        failure = None if self._tunnel is None else self._tunnel.failure()
        if failure is not None:
            return failure
        shown = sanitize(self._target.name)
        uses_command = bool(settings.proxy_command) and self._is_first
        if uses_command and isinstance(error, (OSError, asyncssh.ConnectionLost)):
            return TransientError(
                f"{shown}: its ProxyCommand has ended",
                "run the command in a shell: ssh -v shows it, and what it prints",
            )
        if isinstance(error, OSError):
            address = sanitize(f"{settings.host} port {settings.port}")
            return unreachable_error(error, shown if self._connection.hops else address)
        if isinstance(error, asyncssh.PermissionDenied):
            user = sanitize(settings.username or local_user())
            return PermanentError(
                f"{shown}: permission denied for {user}", key_problem or PERMISSION_HINT
            )
        return library_error(error, shown)


PERMISSION_HINT = "check the SSH agent here and authorized_keys on the host; try ssh"


def library_error(error: Exception, shown: str) -> HostUnreachable:
    """The reason by an error of the SSH library. `shown`: name of the host, sanitized."""
    import asyncssh

    if isinstance(error, asyncssh.ChannelOpenError):
        return TransientError(
            f"jump host cannot reach {shown}: {sanitize(error.reason)}",
            "try ssh from the jump host",
        )
    if isinstance(error, asyncssh.ConnectionLost):
        return TransientError(
            f"{shown} closed the connection",
            "sshd may be restarting or overloaded (MaxStartups)",
        )
    if isinstance(
        error,
        (asyncssh.KeyExchangeFailed, asyncssh.ProtocolNotSupported, asyncssh.ProtocolError),
    ):
        return PermanentError(
            f"SSH protocol error with {shown}: {sanitize(str(error))}",
            "check that a current sshd listens on this port",
        )
    return PermanentError(f"cannot connect to {shown}: {sanitize(str(error))}", "try ssh")


def host_key_algorithms(known: KnownKeys, chosen: Sequence[str] = ()) -> list[str]:
    """Host key algorithms in order of preference: certificates only with a known authority
    (otherwise a host may present a certificate that cannot be checked although it has a plain key),
    and the types of known keys first. `chosen`: HostKeyAlgorithms."""
    if chosen:
        if known.authorities:
            return list(chosen)
        return [name for name in chosen if not name.endswith(CERTIFICATE_SUFFIX)]
    types = {key.get_algorithm() for key in known.keys}
    if "ssh-rsa" in types:
        types.add("rsa-sha2-512")
    algorithms = sorted(PLAIN_KEY_ALGORITHMS, key=lambda kind: kind not in types)
    if known.authorities:
        return [*CERTIFICATE_ALGORITHMS, *algorithms]
    return algorithms


def split_port(text: str) -> tuple[str, int | None]:
    """``host``, ``host:22``, ``[::1]:22`` or a bare IPv6 address → (name, port)."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, None
    is_number = port.isascii() and port.isdigit() and len(port) < 6
    return host, int(port) if is_number else None


def is_readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def is_public(path: str) -> bool:
    """Whether a file holds a public key: IdentityFile may name one whose private key the agent
    has."""
    try:
        with open(path, "rb") as file:
            return file.read(4) in (b"ssh-", b"ecds", b"sk-s", b"sk-e")
    except OSError:
        return False


def public_keys(paths: Iterable[str]) -> list[bytes]:
    """Public keys of key files, from themselves or the files beside them, for the agent."""
    import asyncssh

    found = []
    for path in paths:
        for place in (path, f"{path}.pub"):
            with contextlib.suppress(OSError, ValueError):
                found.append(asyncssh.read_public_key(place).public_data)
                break
    return found
