"""Lines of another machine: a probe that is sent there over SSH, runs from memory, and leaves
nothing behind.

One connection per host and one probe on it. If it ends, the reason is reported and it is connected
to again, after growing delays; not if it would end the same way again (rights, host keys, no
Python). The remote probe ends when its stdin ends, which happens however a connection ends except
if the network fails; then it ends because our pings are missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shlex
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from nictop.errors import HostUnreachable
from nictop.probe.light_dataclasses import replace
from nictop.probe.reach.problem import LIBVIRT_SOCKETS, STANDING_GUEST, WINDOWS_GUEST
from nictop.probe.records import Clock, Line, Request
from nictop.wire.errors import PermanentError, TransientError, error_text, sanitize
from nictop.wire.guests.levels import SSH_KINDS, Kind, Level, ssh_address
from nictop.wire.guests.wrapping import HAS_NAMESPACE, address_words, new_marks, prefix_words
from nictop.wire.reconnecting import MAX_RETRY_SECONDS, MIN_RETRY_SECONDS, ReconnectingSource
from nictop.wire.slowness import MAX_TIME_FACTOR
from nictop.wire.source import ConnectionStage, SourceState
from nictop.wire.ssh.authentication import Ask, Credentials
from nictop.wire.ssh.bootstrap_command import RemoteCommand
from nictop.wire.ssh.bundle import Bundle, bundle
from nictop.wire.ssh.connection import (
    CONNECT_TIMEOUT,
    Connection,
    SshTarget,
    connect,
    connect_guest,
)
from nictop.wire.ssh.exit_reason import slow_connection_notice
from nictop.wire.ssh.host_keys import Policy
from nictop.wire.ssh.remote_probe import HEARTBEAT_SECONDS, RemoteProbe, Rights
from nictop.wire.timeout import with_timeout

__all__ = ["SshSource", "SshTarget"]

NAMESPACE_NOTICE = (
    "no Python could be started in it: its network namespace was entered with the Python of the "
    "level above, whose files, programs and network managers are shown"
)

LIBVIRT_CHECK_SECONDS = 30.0
"""Between two looks for the socket of libvirt."""
HAS_LIBVIRT = "libvirt"
ADDRESS_TIMEOUT = 15.0
"""Seconds for the addresses of a guest: an agent that does not answer takes 10."""
WITHOUT_SSH = (WINDOWS_GUEST, STANDING_GUEST)
"""How the sentence about a guest begins that cannot be read by SSH either."""
MAX_TRIED_ADDRESSES = 3
MAX_ADDRESS_LINES, MAX_ORIGIN_CHARS = 32, 60

if TYPE_CHECKING:
    from nictop.wire.esxi.probe import EsxiProbe
    from nictop.wire.guests.tunnel import ProcessTunnel

Result = TypeVar("Result")


class SshSource(ReconnectingSource):
    """Lines of `target`. See `Source`.

    `ask`: answers questions (`authentication.Question`); without it nobody is asked. `host_keys`:
    what to do with an unknown host key; by default "ask" if there is `ask`, "refuse" otherwise.
    `timeout`: seconds for a connection. `eager`, `parts`: see `LocalSource`. `levels`: what is
    reached through the target (`wire.guests`); (): the target itself.
    """

    pids: tuple[int, ...] = ()
    """asyncssh runs in this process."""

    def __init__(
        self,
        target: SshTarget,
        interval: float = 1.0,
        *,
        eager: bool = False,
        parts: bool = False,
        ask: Ask | None = None,
        host_keys: Policy | None = None,
        retry: tuple[float, float] = (MIN_RETRY_SECONDS, MAX_RETRY_SECONDS),
        timeout: float = CONNECT_TIMEOUT,
        levels: tuple[Level, ...] = (),
    ) -> None:
        super().__init__(target.name, interval, retry)
        self._wanted = levels
        self._guests, self._levels = ssh_guests(levels)
        self._fallback = ""
        """Why the guest was reached by SSH although its agent was asked first; "": it was not."""
        self._by_namespace = False
        """The last level is entered by its network namespace only."""
        self.clock: Clock | None = None
        """The newest estimate of the host's clock; None: not measured yet."""
        self._target = target
        flags = {
            "--eager": eager,
            "--parts": parts,
            "--allow-changes": target.allow_changes,
            "--allow-workload": target.allow_workload,
        }
        self._options = [option for option, is_set in flags.items() if is_set]
        self._answers = Credentials(ask)
        self._policy: Policy = host_keys or ("ask" if ask is not None else "refuse")
        self._timeout = timeout
        self._connection = Connection()
        self._probe: RemoteProbe | EsxiProbe | None = None
        self._is_esxi = False
        """The host has answered that it is an ESXi host."""
        self._time_factor = 1.0
        """How many times as long as usual all may take (`wire.slowness`): doubled after an attempt
        that was given up before the host was read. On a busy host another start would only add to
        its load."""
        self._disconnecting = asyncio.Lock()
        self._stages = _Stages()

    async def _attempt(self) -> AsyncGenerator[Line | SourceState, None]:
        self._guests, self._levels = ssh_guests(self._wanted)
        self._fallback = ""
        try:
            connecting = asyncio.ensure_future(self._unless_closed(self._connected()))
            async with aclosing(self._stages.until_done(connecting)) as stages:
                async for stage in stages:
                    yield stage
            probe = connecting.result()
            is_read = False
            while True:
                item = await probe.next()
                if item is not None:
                    if isinstance(item, Line) and item.clock is not None:
                        self.clock = item.clock
                    is_read = is_read or is_inventory(item)
                    yield item
                    continue
                rights = await self._other_start(probe)
                if rights is None and isinstance(probe, RemoteProbe) and probe.waits_for_libvirt:
                    async with aclosing(self._until_libvirt(probe)) as states:
                        async for state in states:
                            yield state
                    rights = probe.rights
                if rights is None:
                    self._adapt_time_factor(probe, is_read=is_read)
                    await self._explain_end(probe)
                    break
                await probe.end(0.0)
                probe = await self._unless_closed(self._started(rights))
        except _Closed:
            return
        finally:
            await self._disconnect()
        if probe.error is not None:
            raise probe.error

    def _adapt_time_factor(self, probe: RemoteProbe | EsxiProbe, *, is_read: bool) -> None:
        self._time_factor = 1.0
        if isinstance(probe, RemoteProbe) and probe.was_given_up:
            measured = probe.slowness.factor
            self._time_factor = measured if is_read else min(MAX_TIME_FACTOR, 2 * measured)

    async def _other_start(self, probe: RemoteProbe | EsxiProbe) -> Rights | None:
        """`probe` has ended: choose another way to start one. Returns the rights with which it is
        started; None: there is no other way."""
        is_esxi = probe.is_esxi or await self._has_vmkernel(probe)
        if self._closed.is_set():
            return None
        if is_esxi:
            self._is_esxi = True
            return ""
        if probe.needs_password:
            return "password"
        if self._may_enter_namespace(probe):
            self._by_namespace = True
            return probe.rights
        if isinstance(probe, RemoteProbe) and await self._reaches_by_ssh(probe):
            return "quiet" if self._target.sudo else ""
        return None

    async def program_output(self, words: Sequence[str], timeout: float) -> str:
        """What a program prints that is run where the probe is, with its rights; "" if it fails or
        takes longer, or if there is no connection."""
        if not self._connection.is_open:
            return ""
        rights = ["sudo", "-n", "--"] if self._target.sudo else []
        command = [*rights, *prefix_words(self._levels, 0.0), *words]
        return await self._connection.carrier.output(shlex.join(command), timeout)

    async def _until_libvirt(self, probe: RemoteProbe) -> AsyncGenerator[SourceState, None]:
        """Until libvirt has a socket on the hypervisor. The guest is not asked meanwhile: only
        whether there is one, over the connection that is there. Raises the error of `probe` when
        the connection ends, or is not one to the hypervisor."""
        assert probe.error is not None
        kinds = [level.kind for level in self._levels]
        agents = [place for place, kind in enumerate(kinds) if kind in ("agent", "guest")]
        if len(agents) != 1:
            raise probe.error
        test = " || ".join(f"test -S {path}" for path in LIBVIRT_SOCKETS)
        words = [*prefix_words(self._levels[: agents[0]], 0.0), "sh", "-c"]
        words.append(f"({test}) && echo {HAS_LIBVIRT}")
        command = " ".join(["exec", *map(shlex.quote, words)])
        while self._connection.is_open:
            yield SourceState("lost", error_text(probe.error), LIBVIRT_CHECK_SECONDS)
            with contextlib.suppress(asyncio.TimeoutError):
                await with_timeout(LIBVIRT_CHECK_SECONDS, self._closed.wait())
            printed = await self._unless_closed(
                self._connection.carrier.output(command, self._timeout)
            )
            if printed.strip() == HAS_LIBVIRT:
                yield SourceState("connecting")
                return
        raise probe.error

    async def _reaches_by_ssh(self, probe: RemoteProbe) -> bool:
        """Connect to a guest whose agent cannot be used, if it was written without a way
        (``pve/101``), by SSH to an address that its hypervisor knows. If that fails, too, the error
        of `probe` has both reasons."""
        kinds = [level.kind for level in self._levels]
        refusal = probe.refusal_of_agent
        if kinds.count("guest") != 1 or not refusal or refusal.startswith(WITHOUT_SSH):
            return False
        place = kinds.index("guest")
        way, rest = self._levels[: place + 1], self._levels[place + 1 :]
        known = await self._guest_addresses(way, asks_agent=not probe.is_agent_silent)
        if not known:
            probe.error = without_address(probe.error)
            return False
        for address, origin in known:
            told = f"SSH to {address} ({origin})"
            try:
                await self._connect_guest((*way[:-1], ssh_level(address)))
            except (PermanentError, TransientError) as error:
                probe.error = both_reasons(self._target.name, refusal, told, error)
                continue
            self._levels = rest
            self._fallback = f"reached by {told}, as its agent cannot be used: {refusal}"
            return True
        return False

    async def _guest_addresses(
        self, way: tuple[Level, ...], *, asks_agent: bool
    ) -> tuple[tuple[str, str], ...]:
        """(address, where it is from) of the last one of `way`."""
        words = address_words(way, asks_agent=asks_agent)
        command = " ".join(["exec", *map(shlex.quote, words)])
        printed = await self._connection.carrier.output(command, ADDRESS_TIMEOUT)
        return parse_addresses(printed)

    def _send(self, request: Request) -> None:
        if self._probe is not None:
            self._probe.send(request)

    async def close(self) -> None:
        """See `Source.close`."""
        self._closed.set()
        await self._disconnect()

    async def _connected(self) -> RemoteProbe | EsxiProbe:
        """Connect and send the probe. `_disconnect` closes what was opened, also after an error."""
        packing = asyncio.get_running_loop().run_in_executor(
            None, self._packed
        )  # while the connection is made
        try:
            await self._open()
        finally:
            await asyncio.gather(packing, return_exceptions=True)
        self._stages.report("probe", "")
        return await self._started("quiet" if self._target.sudo else "")

    async def _open(self) -> None:
        """Connect to the host, and through it to the guests that have a login of their own."""
        self._connection = await self._first_connection()
        for levels in self._guests:
            await self._connect_guest(levels)

    async def _first_connection(self) -> Connection:
        return await connect(
            self._target,
            self._answers,
            self._policy,
            self._timeout,
            self._stages.report,
            budget=self._budget,
        )

    async def _connect_guest(self, levels: tuple[Level, ...]) -> None:
        """To the last one of `levels`; the hop before forwards the connection if it can."""
        user, address, port = ssh_address(levels[-1])
        connection = self._connection
        is_tunnelled = levels[-1].kind != "ssh" or len(levels) > 1 or not connection.hops
        await connect_guest(
            connection,
            partial(self._open_tunnel, connection, levels) if is_tunnelled else None,
            guest_target(self._target, levels[-1].kind, user, address, port),
            self._answers,
            self._policy,
            timeout=self._timeout,
            report=self._stages.report,
            budget=self._budget,
        )

    async def _open_tunnel(
        self, connection: Connection, levels: tuple[Level, ...]
    ) -> ProcessTunnel:
        from nictop.wire.guests.tunnel import ProcessTunnel

        tunnel = ProcessTunnel(self._target.name, levels)
        connection.tunnels.append(tunnel)
        await tunnel.open(connection.carrier)
        return tunnel

    async def _started(self, rights: Rights) -> RemoteProbe | EsxiProbe:
        if self._is_esxi and self._levels:
            raise PermanentError(
                f"{self._target.name}: {self._levels[-1]} is an ESXi host", "watch it by SSH"
            )
        if self._is_esxi:
            from nictop.wire.esxi.probe import EsxiProbe

            host = self._probe = EsxiProbe(self._target.name, self._budget, self._settings)
            await host.start(self._connection.ssh)
            return host
        packed = self._packed()
        arguments = [
            "--interval",
            f"{self._settings.interval:g}",
            "--heartbeat",
            f"{self._time_factor * HEARTBEAT_SECONDS:g}",
        ]
        arguments += self._options
        interval = self._settings.interval or 1.0
        marks = new_marks(self._levels)
        prefix = prefix_words(self._levels, interval, by_namespace=self._by_namespace, marks=marks)
        command = RemoteCommand(
            arguments, len(packed.start), len(packed.frames), prefix=prefix, marks=marks
        )
        probe = self._probe = RemoteProbe(
            command,
            packed,
            self._target.name,
            self._answers,
            self._budget,
            levels=self._levels,
            time_factor=self._time_factor,
        )
        slowest = self._connection.slowest
        if slowest is not None:
            probe.tell(slow_connection_notice(slowest, sanitize(self._target.name)))
        if self._by_namespace:
            probe.tell(NAMESPACE_NOTICE)
        probe.tell(self._fallback)
        settings = replace(self._settings, interval=None)
        requests = [settings] if settings != Request() else []
        await probe.start(self._connection.carrier, rights, requests)
        return probe

    def _may_enter_namespace(self, probe: RemoteProbe | EsxiProbe) -> TypeGuard[RemoteProbe]:
        """The last level has no Python, and can be entered by its network namespace."""
        if not self._levels or self._by_namespace or not isinstance(probe, RemoteProbe):
            return False
        return probe.lacks_python and self._levels[-1].kind in HAS_NAMESPACE

    async def _has_vmkernel(self, probe: RemoteProbe | EsxiProbe) -> bool:
        """An ESXi host on which the probe was to be started with sudo, which ESXi does not have."""
        if self._levels or not isinstance(probe, RemoteProbe) or not probe.lacks_sudo:
            return False
        printed = await self._connection.carrier.output("uname", self._timeout)
        return printed.strip() == "VMkernel"

    async def _explain_end(self, probe: RemoteProbe | EsxiProbe) -> None:
        if not isinstance(probe, RemoteProbe) or self._closed.is_set():
            return
        if self._connection.is_open:
            await probe.explain_kill(self._connection.carrier)

    def _packed(self) -> Bundle:
        target = self._target
        return bundle(allow_changes=target.allow_changes, allow_workload=target.allow_workload)

    async def _unless_closed(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; raises `_Closed` if the source is closed before."""
        task, closed = asyncio.ensure_future(work), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.is_set():
                raise _Closed  # also if `work` has a result: its connection may be closed already
            return task.result()
        finally:
            for waiting in (task, closed):
                waiting.cancel()
            await asyncio.gather(task, closed, return_exceptions=True)

    async def _disconnect(self) -> None:
        """End the probe and the connection, if there are any; all callers wait for the same end."""
        async with self._disconnecting:
            probe, self._probe = self._probe, None
            connection, self._connection = self._connection, Connection()
            if probe is not None:
                await probe.end()
                if connection.is_open:
                    await probe.resume_stopped(connection.carrier)
            await connection.close()


def ssh_level(address: str) -> Level:
    """A guest by its address, with the user and port that ssh_config has for it."""
    return Level("ssh", f"[{address}]" if ":" in address else address)


def parse_addresses(printed: str) -> tuple[tuple[str, str], ...]:
    """What `nictop.probe.reach.guest_address` has printed; the lines of a host that are not
    addresses are left out."""
    found = []
    for line in printed.splitlines()[:MAX_ADDRESS_LINES]:
        address, _, origin = line.partition("\t")
        with contextlib.suppress(ValueError):
            parsed = ipaddress.ip_address(address)
            if not getattr(parsed, "scope_id", None):
                found.append((str(parsed), sanitize(origin, MAX_ORIGIN_CHARS)))
    return tuple(found[:MAX_TRIED_ADDRESSES])


def without_address(error: HostUnreachable | None) -> HostUnreachable | None:
    """The error of an agent, if SSH is no way either."""
    if error is None:
        return None
    hint = "; ".join(filter(None, (error.hint, "no address of the guest is known there for SSH")))
    return type(error)(error.message, hint)


def both_reasons(host: str, refusal: str, told: str, error: HostUnreachable) -> HostUnreachable:
    """`told`: the way by SSH, which has failed with `error`."""
    return type(error)(f"{sanitize(host)}: {refusal}; {told}: {error.message}", error.hint)


def ssh_guests(
    levels: tuple[Level, ...],
) -> tuple[tuple[tuple[Level, ...], ...], tuple[Level, ...]]:
    """`levels` cut behind each that is reached by SSH, and those behind the last one."""
    guests: list[tuple[Level, ...]] = []
    rest: tuple[Level, ...] = ()
    for level in levels:
        rest = (*rest, level)
        if level.kind in SSH_KINDS:
            guests.append(rest)
            rest = ()
    return tuple(guests), rest


def guest_target(
    target: SshTarget, kind: Kind, user: str | None, address: str, port: int | None
) -> SshTarget:
    """The login of a guest that is reached through `target`: its keys are tried, too. The name of
    a vsock is that of systemd-ssh-proxy(1)."""
    host = f"vsock/{address}" if kind == "vsock" else address
    return replace(target, host=host, user=user, port=port)


class _Stages:
    """The stages of a connection, from `report` to `until_done`."""

    def __init__(self) -> None:
        self._new: list[SourceState] = []
        self._reported = asyncio.Event()

    def report(self, stage: ConnectionStage, target: str) -> None:
        """A stage begins."""
        self._new.append(SourceState("connecting", stage=stage, target=target))
        self._reported.set()

    async def until_done(self, work: asyncio.Future[Any]) -> AsyncGenerator[SourceState, None]:
        """The stages that are reported until `work` is done, which is cancelled if this is closed
        before."""
        work.add_done_callback(lambda _: self._reported.set())
        try:
            while self._new or not work.done():
                if not self._new:
                    await self._reported.wait()
                    self._reported.clear()
                while self._new:
                    yield self._new.pop(0)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def is_inventory(item: Line | SourceState) -> bool:
    """A complete one."""
    inventory = item.inventory if isinstance(item, Line) else None
    return inventory is not None and not inventory.pending


class _Closed(Exception):
    """The source was closed meanwhile."""
