"""Links that a change should not cut off: those that carry SSH connections (the own one first) and
default routes.

Reads SSH_CONNECTION from the environment of this process, or of the nearest ancestor that has it,
because sudo removes it (/proc/PID/environ); other connections come from `ssh_connections`, links
from `inventory.links.reader`. Traffic of a link also depends on the links below it: the ports of a
bridge or bond, the lower link of a VLAN, the physical function of a VF.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.ssh_connections import SshAddresses, read_connections, read_return_ifindex
from nictop.probe.records import Link

MAX_ANCESTORS = 32
MAX_ROUTED_CLIENTS = 256
"""Clients for which the return route is looked up."""
OWN_SSH = "this SSH connection"
OTHER_SSH = "an SSH connection"
DEFAULT_ROUTE = "the default route"


@dataclass(frozen=True)
class SshRoute:
    """The links one SSH connection uses. `label`: `OWN_SSH` or `OTHER_SSH`; `address`: of this
    host; `return_ifindex`: link by which packets to the client leave."""

    label: str
    address: str
    return_ifindex: int | None = None


def read_ssh_routes(proc: str = "/proc") -> list[SshRoute]:
    """Routes of all SSH connections, the own one first."""
    own = read_ssh_connection(proc)
    routes: list[SshRoute] = []
    if own is None:
        others = list(read_connections([], proc))
    else:
        (client, server), port = own
        routes.append(SshRoute(OWN_SSH, server, read_return_ifindex(client)))
        others = [one for one in read_connections([port], proc) if one != (client, server)]
    clients = {client for client, _ in others[:MAX_ROUTED_CLIENTS]}
    return_ifindexes = {client: read_return_ifindex(client) for client in clients}
    return routes + [
        SshRoute(OTHER_SSH, server, return_ifindexes.get(client)) for client, server in others
    ]


def read_ssh_connection(
    proc: str = "/proc", pid: int | None = None
) -> tuple[SshAddresses, int] | None:
    """((client address, server address), server port) of the SSH session that the process `pid`
    (default: this one) belongs to; None when there is none, or when only root may read it."""
    current = os.getpid() if pid is None else pid
    for _ in range(MAX_ANCESTORS):
        found = parse_environment(read_bytes(f"{proc}/{current}/environ"))
        if found is not None:
            return found
        status = read_text(f"{proc}/{current}/stat")
        fields = status.rpartition(")")[2].split() if isinstance(status, str) else []
        if len(fields) < 2 or not fields[1].isdecimal() or int(fields[1]) <= 1:
            return None
        current = int(fields[1])
    return None


def read_bytes(path: str) -> bytes:
    """Content of a file; b"" when it cannot be read. Environments are not always text."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def parse_environment(data: bytes) -> tuple[SshAddresses, int] | None:
    """((client address, server address), server port) from SSH_CONNECTION, ``CLIENT PORT SERVER
    PORT`` (sshd(8)), in an environment block; None without it. IPv4-mapped addresses become
    IPv4."""
    for entry in data.split(b"\0"):
        if entry.startswith(b"SSH_CONNECTION="):
            words = entry.partition(b"=")[2].decode("ascii", "replace").split()
            port = parse_integer(words[3]) if len(words) == 4 else None
            if port is not None:
                client, server = (
                    word.partition("%")[0].lower().replace("::ffff:", "") for word in words[:3:2]
                )
                return ((client, server), port) if server else None
    return None


def dependents_by_link(
    links: Sequence[Link], routes: Sequence[SshRoute]
) -> dict[str, tuple[str, ...]]:
    """Interface name → labels of what depends on it, `OWN_SSH` first. Links without dependents are
    omitted."""
    dependents: dict[str, tuple[str, ...]] = {}
    users = [
        (label, [link for link in links if uses_link(link, label, routes)])
        for label in (OWN_SSH, OTHER_SSH)
    ]
    for label, found in (*users, (DEFAULT_ROUTE, [link for link in links if link.default_routes])):
        for link in with_lower_links(found, links):
            dependents[link.name] = (*dependents.get(link.name, ()), label)
    return dependents


def uses_link(link: Link, label: str, routes: Iterable[SshRoute]) -> bool:
    """Whether one of the connections with this label has its local address on a link, or leaves by
    it."""
    addresses = {one.address for one in link.addresses}
    matching = [route for route in routes if route.label == label]
    return any(
        route.address in addresses or route.return_ifindex == link.ifindex for route in matching
    )


def with_lower_links(users: Iterable[Link], links: Sequence[Link]) -> list[Link]:
    """The links and all links below them, each once, by ifindex."""
    by_ifindex = {link.ifindex: link for link in links}
    found: dict[int, Link] = {}
    pending = list(users)
    while pending:
        link = pending.pop()
        if link.ifindex in found:
            continue
        found[link.ifindex] = link
        pending += [port for port in links if port.master == link.ifindex]
        # IFLA_LINK of a veth is its peer
        if link.lower in by_ifindex and link.lower_namespace is None and link.kind != "veth":
            pending.append(by_ifindex[link.lower])
    return sorted(found.values(), key=lambda link: link.ifindex)


def read_pf_interfaces(name: str, sys: str = "/sys") -> tuple[str, ...]:
    """Interfaces of the physical function of a VF's interface; empty for other interfaces."""
    try:
        return tuple(sorted(os.listdir(f"{sys}/class/net/{name}/device/physfn/net")))
    except OSError:
        return ()
