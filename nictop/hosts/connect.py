"""`Host` → `Source`: a child process on this machine, or SSH; for what is reached through a host,
its process there.

Does no I/O by itself. The SSH library is imported when the source of a remote host connects, not
before.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from nictop.hosts.specification import LOCAL, Host
from nictop.probe.light_dataclasses import replace

if TYPE_CHECKING:
    from nictop.wire.local import LocalSource
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
) -> Source:
    """The source of a host; nothing is started before its items are iterated.

    `sudo`: run the probe as root, also if the configuration of the host does not say so.
    `allow_changes`: the probe may change the host on request (likewise). `allow_workload`: it may
    run a command that the user has typed. `accept_new_host_keys`:
    write unknown host keys into known_hosts; a key that has changed is refused all the same. `ask`:
    answers questions (password, passphrase, unknown host key); without it, as in scripts, a
    connection that needs an answer fails. `eager`: rates at once, over the first fifth of a second.
    `parts`: send the first inventory before it is complete (`Inventory.pending`).
    """
    host = replace(host, sudo=host.sudo or sudo, allow_changes=host.allow_changes or allow_changes)
    if host.is_local:
        return _local(host, interval, eager=eager, parts=parts, allow_workload=allow_workload)
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
    host: Host, interval: float, *, eager: bool, parts: bool, allow_workload: bool
) -> LocalSource:
    from nictop.wire.local import LocalSource, probe_command

    if not host.sudo or os.geteuid() == 0:
        return LocalSource(
            interval,
            eager=eager,
            parts=parts,
            allow_changes=host.allow_changes,
            allow_workload=allow_workload,
            name=host.label,
        )
    options = ["--eager"] * eager + ["--parts"] * parts + ["--allow-changes"] * host.allow_changes
    options += ["--allow-workload"] * allow_workload
    probe = probe_command(sys.executable, "--interval", f"{interval:g}", *options)
    return LocalSource(interval, name=host.label, command=["sudo", "-n", "--", *probe])
