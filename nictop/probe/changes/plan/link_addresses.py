"""Addresses, routes and MTU of a link as they are: kept before a change, and put back where no manager does it.

Runs ip (save, restore, and ``-json`` to compare); yields `LinkAddresses`. For links that NetworkManager only looks on
at, and for the case that it has ended and does not come back.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from nictop.probe.changes.apply import environment, find_program
from nictop.probe.kernel.sysfs import read_text

LIMIT = 10.0
"""Seconds for one command."""
FAMILIES = ("-4", "-6")
DISABLE_IPV6 = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
NOT_OURS = ("kernel", "dhcp", "ra", "redirect")


@dataclass(frozen=True)
class LinkAddresses:
    """One link. `saved` is a dump of rtnetlink messages: lifetimes, scopes and metrics are kept as they are."""

    name: str
    mtu: int
    addresses: tuple[str, ...]
    """``192.0.2.1/24``, without those that the kernel makes itself (IPv6 link-local) and those with a lifetime."""
    routes: tuple[tuple[str, ...], ...]
    """Words of ip, but for those of the kernel, of DHCP and of router advertisements."""
    disable_ipv6: str
    """The sysctl of the link: NetworkManager sets it, and without IPv6 there is nothing to put back to."""
    saved: tuple[tuple[str, ...], ...]
    """(words of ip that restore it, base64 of the dump)."""

    @staticmethod
    def of(plain: dict[str, Any]) -> LinkAddresses:
        """From what JSON makes of one. Raises TypeError and KeyError for anything else."""
        saved, routes = (tuple(tuple(words) for words in plain[key]) for key in ("saved", "routes"))
        return LinkAddresses(**{**plain, "addresses": tuple(plain["addresses"]), "routes": routes, "saved": saved})

    @property
    def facts(self) -> tuple[object, ...]:
        """What can be compared."""
        return self.mtu, self.addresses, self.routes, self.disable_ipv6


def read_link_addresses(name: str) -> LinkAddresses | None:
    """None: no such link. Raises OSError when ip cannot be run or fails, ValueError when it talks nonsense."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return None
    addresses, mtu = parse_addresses(run(["ip", "-json", "address", "show", "dev", name]))
    saved, routes = [], []
    for family in FAMILIES:
        routes += parse_routes(family, run(["ip", family, "-json", "route", "show", "dev", name]))
        for what in ("address", "route"):
            dump = run(["ip", family, what, "save", "dev", name])
            saved.append((family, what, "restore", b64encode(dump).decode()))
    disabled = read_text(DISABLE_IPV6.format(name))
    return LinkAddresses(
        name, mtu, addresses, tuple(sorted(routes)), disabled if isinstance(disabled, str) else "", tuple(saved)
    )


def parse_addresses(text: bytes) -> tuple[tuple[str, ...], int]:
    """(Addresses with prefix length in order, MTU) from ``ip -json address show``. Raises ValueError."""
    link = next((entry for entry in entries(text) if "ifname" in entry), {})
    listed = link.get("addr_info", ())
    found = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    lasting = [one for one in found if one.get("local") and one.get("scope") != "link" and not one.get("dynamic")]
    mtu = link.get("mtu")
    return tuple(sorted(f"{one['local']}/{one.get('prefixlen')}" for one in lasting)), mtu if type(mtu) is int else 0


def parse_routes(family: str, text: bytes) -> list[tuple[str, ...]]:
    """From ``ip -json route show dev``: (family, destination, what follows it). Raises ValueError."""
    found = []
    for entry in entries(text):
        if entry.get("protocol") in NOT_OURS or "dst" not in entry:
            continue
        kind = [str(entry[key]) for key in ("type",) if key in entry]
        named = (("via", "gateway"), ("metric", "metric"))
        rest = [word for said, key in named if key in entry for word in (said, str(entry[key]))]
        found.append((family, *kind, str(entry["dst"]), *rest))
    return found


def entries(text: bytes) -> list[dict[str, Any]]:
    """Raises ValueError."""
    found = json.loads(text or b"[]")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def link_is(before: LinkAddresses | None) -> bool:
    """Whether a link has what it had; of none that is said. Raises OSError and ValueError."""
    now = read_link_addresses(before.name) if before is not None else None
    return before is None or (now is not None and now.facts == before.facts)


def put_link_back(before: LinkAddresses) -> str:
    """Empty, or what stayed."""
    try:
        now = read_link_addresses(before.name)
        if now is None:
            return f"{before.name} is not there any more"
        if now.mtu != before.mtu:
            run(["ip", "link", "set", "dev", before.name, "mtu", str(before.mtu)])
        if before.disable_ipv6 and now.disable_ipv6 != before.disable_ipv6:
            with open(DISABLE_IPV6.format(before.name), "w") as file:
                file.write(before.disable_ipv6)
        for family, *route in sorted(set(now.routes) - set(before.routes)):
            run(["ip", family, "route", "del", *route, "dev", before.name])
        for address in sorted(set(now.addresses) - set(before.addresses)):
            run(["ip", "address", "del", address, "dev", before.name])
        for *words, dump in before.saved:
            run(["ip", *words], b64decode(dump))
        if not link_is(before):
            return f"the addresses, routes and MTU of {before.name} are not what they were"
    except (OSError, ValueError) as error:
        return f"the addresses of {before.name} could not be put back: {error}"
    return ""


def run(words: list[str], given: bytes = b"") -> bytes:
    """Standard output. OSError: it cannot be run, fails or hangs."""
    try:
        whole = [find_program(words[0]), *words[1:]]
        with tempfile.TemporaryFile() as file:  # ip restores from what it can seek in
            file.write(given)
            file.seek(0)
            done = subprocess.run(whole, stdin=file, capture_output=True, env=environment(), timeout=LIMIT, check=False)
    except ValueError as error:
        raise OSError(str(error)) from None
    except subprocess.SubprocessError as error:
        raise OSError(f"{' '.join(words[:3])}: {type(error).__name__}") from None
    if done.returncode:
        complaint = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(f"{' '.join(words[:3])}: {complaint[-1] if complaint else done.returncode}")
    return done.stdout
