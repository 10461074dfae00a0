"""What must not be cut: the links that carry this very SSH connection, and those of the default routes.

Reads SSH_CONNECTION in the environment of this process, or of the nearest ancestor that has it (sudo takes it away):
/proc/PID/environ; and takes the links as `links.read_links` yields them. A link that carries something carries it over
the links below as well: the ports of a bridge or bond, what a VLAN stands on, the physical function of a VF.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from nictop.probe.records import Link
from nictop.probe.sysfs import read_text

MOST_ANCESTORS = 32
SSH = "this very SSH connection"
DEFAULT_ROUTE = "the default route"


def read_ssh_address(proc: str = "/proc", pid: int | None = None) -> str | None:
    """This host's address of the SSH connection above the process; None: there is none, or only root could tell."""
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


def parse_environment(data: bytes) -> str | None:
    """The third word of SSH_CONNECTION (sshd(8)): ``CLIENT PORT SERVER PORT``; IPv4 in its own notation."""
    for entry in data.split(b"\0"):
        if entry.startswith(b"SSH_CONNECTION="):
            words = entry.partition(b"=")[2].decode("ascii", "replace").split()
            if len(words) == 4:
                return words[2].partition("%")[0].lower().replace("::ffff:", "") or None
    return None


def lifelines(links: Sequence[Link], ssh_address: str | None) -> dict[str, tuple[str, ...]]:
    """Name of a link → what goes over it, `SSH` first. Links of nobody are left out."""
    carried: dict[str, tuple[str, ...]] = {}
    by_ssh = [link for link in links if ssh_address in [one.address for one in link.addresses]] if ssh_address else []
    by_default = [link for link in links if link.default_routes]
    for what, carriers in ((SSH, by_ssh), (DEFAULT_ROUTE, by_default)):
        for link in with_links_below(carriers, links):
            carried[link.name] = (*carried.get(link.name, ()), what)
    return carried


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
