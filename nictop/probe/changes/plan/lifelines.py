"""What must not be cut: the links that carry SSH connections, this very one before all, and those of default routes.

Reads SSH_CONNECTION in the environment of this process, or of the nearest ancestor that has it (sudo takes it away):
/proc/PID/environ; other connections by `ssh_connections`; and takes the links as `links.read_links` yields them. A link
that carries something carries it over the links below as well: the ports of a bridge or bond, what a VLAN stands on,
the physical function of a VF.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nictop.probe.changes.plan.ssh_connections import Connection, read_connections, read_way_back
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.records import Link

MOST_ANCESTORS = 32
MOST_CLIENTS = 256
"""Whose way back is asked for."""
SSH = "this very SSH connection"
ANOTHER_SSH = "an SSH connection"
DEFAULT_ROUTE = "the default route"


@dataclass(frozen=True)
class SshWay:
    """One SSH connection. `what`: `SSH` or `ANOTHER_SSH`; `address`: this host's; `way_back`: ifindex of the link that
    packets to its client leave by."""

    what: str
    address: str
    way_back: int | None = None


def read_ssh_ways(proc: str = "/proc") -> list[SshWay]:
    """This very one first."""
    own = read_ssh_connection(proc)
    mine = [] if own is None else [SshWay(SSH, own[0][1], read_way_back(own[0][0]))]
    others = [one for one in read_connections([own[1]] if own else [], proc) if own is None or one != own[0]]
    back = {client: read_way_back(client) for client in {client for client, _ in others[:MOST_CLIENTS]}}
    return mine + [SshWay(ANOTHER_SSH, here, back.get(client)) for client, here in others]


def read_ssh_connection(proc: str = "/proc", pid: int | None = None) -> tuple[Connection, int] | None:
    """(Client's and this host's address, port here) of the SSH connection above the process; None: there is none, or
    only root could tell."""
    current = os.getpid() if pid is None else pid
    for _ in range(MOST_ANCESTORS):
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
    """A file, b"" when it cannot be read: environments are not text."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def parse_environment(data: bytes) -> tuple[Connection, int] | None:
    """From SSH_CONNECTION (sshd(8)): ``CLIENT PORT SERVER PORT``; IPv4 in its own notation."""
    for entry in data.split(b"\0"):
        if entry.startswith(b"SSH_CONNECTION="):
            words = entry.partition(b"=")[2].decode("ascii", "replace").split()
            port = parse_integer(words[3]) if len(words) == 4 else None
            if port is not None:
                client, here = (word.partition("%")[0].lower().replace("::ffff:", "") for word in words[:3:2])
                return ((client, here), port) if here else None
    return None


def lifelines(links: Sequence[Link], ways: Sequence[SshWay]) -> dict[str, tuple[str, ...]]:
    """Name of a link → what goes over it, `SSH` first. Links of nobody are left out."""
    carried: dict[str, tuple[str, ...]] = {}
    carriers = [(what, [link for link in links if goes_over(link, what, ways)]) for what in (SSH, ANOTHER_SSH)]
    for what, found in (*carriers, (DEFAULT_ROUTE, [link for link in links if link.default_routes])):
        for link in with_links_below(found, links):
            carried[link.name] = (*carried.get(link.name, ()), what)
    return carried


def goes_over(link: Link, what: str, ways: Iterable[SshWay]) -> bool:
    """Whether one of these connections has its address on a link, or leaves by it."""
    addresses = {one.address for one in link.addresses}
    return any(way.what == what and (way.address in addresses or way.way_back == link.ifindex) for way in ways)


def with_links_below(carriers: Iterable[Link], links: Sequence[Link]) -> list[Link]:
    """The links and all that they stand on, each once."""
    numbers = {link.ifindex: link for link in links}
    found: dict[int, Link] = {}
    waiting = list(carriers)
    while waiting:
        link = waiting.pop()
        if link.ifindex in found:
            continue
        found[link.ifindex] = link
        waiting += [port for port in links if port.master == link.ifindex]
        # a veth names its other end there
        if link.lower in numbers and link.lower_namespace is None and link.kind != "veth":
            waiting.append(numbers[link.lower])
    return sorted(found.values(), key=lambda link: link.ifindex)


def read_physical_function(name: str, sys: str = "/sys") -> tuple[str, ...]:
    """Interfaces of the physical function that a VF's interface belongs to; empty for all others."""
    try:
        return tuple(sorted(os.listdir(f"{sys}/class/net/{name}/device/physfn/net")))
    except OSError:
        return ()
