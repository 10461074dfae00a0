"""`Host` → `Source`: a child process on this machine, or SSH; for what is reached through a host,
its process there.

Does no I/O by itself. The SSH library is imported when the source of a remote host connects, not
before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nictop.hosts.specification import LOCAL, Host
from nictop.probe.light_dataclasses import replace

if TYPE_CHECKING:
    from nictop.wire.local import LocalSource
    from nictop.wire.probe_process import StartedProbe
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Ask
    from nictop.wire.ssh.connection import SshTarget
    from nictop.wire.ssh.host_keys import Policy


def connect(
    host: Host,
    interval: float = 1.0,
    *,
    eager: bool = False,
    parts: bool = False,
    sudo: bool = False,
    allow_changes: bool = False,
    allow_workload: bool = False,
    accept_new_host_keys: bool = False,
    ask: Ask | None = None,
    started: StartedProbe | None = None,
) -> Source:
    """The source of a host; nothing is started before its items are iterated.

    `sudo`: run the probe as root, also if the configuration of the host does not say so.
    `allow_changes`: the probe may change the host on request (likewise). `allow_workload`: it may
    run a command that the user has typed. `accept_new_host_keys`:
    write unknown host keys into known_hosts; a key that has changed is refused all the same. `ask`:
    answers questions (password, passphrase, unknown host key); without it, as in scripts, a
    connection that needs an answer fails. `eager`: rates at once, over the first fifth of a second.
    `parts`: send the first inventory before it is complete (`Inventory.pending`). `started`: of
    `start_local_probe`; used once, and only with the same options.
    """
    host = _with_options(host, sudo=sudo, allow_changes=allow_changes)
    if host.is_local:
        return _local(
            host,
            interval,
            eager=eager,
            parts=parts,
            allow_workload=allow_workload,
            started=started,
        )
    from nictop.wire.ssh.source import SshSource

    policy: Policy | None = "accept-new" if accept_new_host_keys else None
    kind: type[SshSource] = SshSource
    if host.address == LOCAL:
        from nictop.wire.guests.source import LocalGuestSource

        kind = LocalGuestSource
    return kind(
        replace(ssh_target(host), allow_workload=allow_workload),
        interval,
        eager=eager,
        parts=parts,
        ask=ask,
        host_keys=policy,
        levels=host.levels,
    )


def ssh_target(host: Host) -> SshTarget:
    """The SSH settings of a remote host."""
    from nictop.wire.ssh.connection import SshTarget

    return SshTarget(
        host=host.address,
        user=host.user,
        port=host.port,
        label=host.label,
        identity_files=host.identity_files,
        sudo=host.sudo and not _is_root_here(host),
        allow_changes=host.allow_changes,
    )


def _is_root_here(host: Host) -> bool:
    """It is reached through this machine, where nictop runs as root."""
    return host.address == LOCAL and host.user is None and os.geteuid() == 0


def _local(
    host: Host,
    interval: float,
    *,
    eager: bool,
    parts: bool,
    allow_workload: bool,
    started: StartedProbe | None,
) -> LocalSource:
    from nictop.wire.local import LocalSource

    return LocalSource(
        interval,
        command=_local_command(
            host, interval, eager=eager, parts=parts, allow_workload=allow_workload
        ),
        started=started,
        name=host.label,
    )


def _local_command(
    host: Host, interval: float, *, eager: bool, parts: bool, allow_workload: bool
) -> list[str]:
    """Command line of the probe of this machine."""
    from nictop.wire.probe_process import local_probe_command

    command = local_probe_command(
        interval,
        eager=eager,
        parts=parts,
        allow_changes=host.allow_changes,
        allow_workload=allow_workload,
    )
    if not host.sudo or os.geteuid() == 0:
        return command
    return ["sudo", "-n", "--", *command]


@contextmanager
def early_local_probe(
    hosts: Iterable[Host],
    interval: float,
    *,
    eager: bool = False,
    parts: bool = False,
    sudo: bool = False,
    allow_changes: bool = False,
) -> Iterator[StartedProbe | None]:
    """The probe of this machine, if it is among the hosts, for `connect` with the same options: to
    be entered before what takes time to be imported. None also if it cannot be started: `connect`
    then says why."""
    started = None
    for host in hosts:
        if host.is_local and started is None:
            asked = _with_options(host, sudo=sudo, allow_changes=allow_changes)
            started = _started(
                _local_command(asked, interval, eager=eager, parts=parts, allow_workload=False)
            )
    try:
        yield started
    finally:
        if started is not None:
            started.close()


def _started(command: list[str]) -> StartedProbe | None:
    """None: it cannot be started."""
    from nictop.wire.probe_process import StartedProbe

    try:
        return StartedProbe(command)
    except (OSError, ValueError):
        return None


def _with_options(host: Host, *, sudo: bool, allow_changes: bool) -> Host:
    """What was asked for of all hosts is asked for of this one."""
    return replace(host, sudo=host.sudo or sudo, allow_changes=host.allow_changes or allow_changes)
