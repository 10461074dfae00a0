"""Addresses, routes and MTU of a link: saved before a change, and restored where no network manager does it.

Runs ip (save, restore, and ``-json`` to compare); yields `LinkAddresses`. Used for links that NetworkManager does not
configure itself (external), and when NetworkManager has stopped and does not come back.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from nictop.probe.kernel.exits import exit_text
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.plan.programs import find_program, program_environment

IP_TIMEOUT = 10.0
"""Seconds for one command."""
IP_FAMILIES = ("-4", "-6")
DISABLE_IPV6 = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
AUTOMATIC_PROTOCOLS = ("kernel", "dhcp", "ra", "redirect")
"""Route protocols whose routes are not restored: they come back without us."""


@dataclass(frozen=True)
class LinkAddresses:
    """One link."""

    name: str
    mtu: int
    addresses: tuple[str, ...]
    """``192.0.2.1/24``, without IPv6 link-local addresses (made by the kernel) and without dynamic ones."""
    routes: tuple[tuple[str, ...], ...]
    """Words of ip for each route, without those of `AUTOMATIC_PROTOCOLS`."""
    disable_ipv6: str
    """net.ipv6.conf.NAME.disable_ipv6, which NetworkManager sets; while it is 1, IPv6 addresses cannot be restored."""
    saved: tuple[tuple[str, ...], ...]
    """(words of ip that restore it, base64 of the dump). A dump is rtnetlink messages, so that lifetimes, scopes and
    metrics are preserved."""

    @staticmethod
    def from_json(plain: dict[str, Any]) -> LinkAddresses:
        """From decoded JSON. Raises TypeError and KeyError for any other structure."""
        saved, routes = (tuple(tuple(words) for words in plain[key]) for key in ("saved", "routes"))
        return LinkAddresses(**{**plain, "addresses": tuple(plain["addresses"]), "routes": routes, "saved": saved})

    @property
    def comparable(self) -> tuple[object, ...]:
        """The fields that must be equal after an undo."""
        return self.mtu, self.addresses, self.routes, self.disable_ipv6


def read_link_addresses(name: str) -> LinkAddresses | None:
    """None: no such link. Raises OSError when ip cannot be run or fails, ValueError when its output is not
    understood."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return None
    addresses, mtu = parse_addresses(run_command(["ip", "-json", "address", "show", "dev", name]))
    saved, routes = [], []
    for family in IP_FAMILIES:
        routes += parse_routes(family, run_command(["ip", family, "-json", "route", "show", "dev", name]))
        for object_name in ("address", "route"):
            dump = run_command(["ip", family, object_name, "save", "dev", name])
            saved.append((family, object_name, "restore", b64encode(dump).decode()))
    disabled = read_text(DISABLE_IPV6.format(name))
    return LinkAddresses(
        name, mtu, addresses, tuple(sorted(routes)), disabled if isinstance(disabled, str) else "", tuple(saved)
    )


def parse_addresses(text: bytes) -> tuple[tuple[str, ...], int]:
    """(addresses with prefix length, sorted; MTU) from ``ip -json address show``. Raises ValueError."""
    link = next((entry for entry in json_entries(text) if "ifname" in entry), {})
    listed = link.get("addr_info", ())
    found = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    lasting = [one for one in found if one.get("local") and one.get("scope") != "link" and not one.get("dynamic")]
    mtu = link.get("mtu")
    return tuple(sorted(f"{one['local']}/{one.get('prefixlen')}" for one in lasting)), mtu if type(mtu) is int else 0


def parse_routes(family: str, text: bytes) -> list[tuple[str, ...]]:
    """(family, destination, further words of ip) from ``ip -json route show dev``. Raises ValueError."""
    found = []
    for entry in json_entries(text):
        if entry.get("protocol") in AUTOMATIC_PROTOCOLS or "dst" not in entry:
            continue
        kind = [str(entry[key]) for key in ("type",) if key in entry]
        named = (("via", "gateway"), ("metric", "metric"))
        rest = [word for keyword, key in named if key in entry for word in (keyword, str(entry[key]))]
        found.append((family, *kind, str(entry["dst"]), *rest))
    return found


def json_entries(text: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON list. Raises ValueError."""
    found = json.loads(text or b"[]")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def is_link_unchanged(before: LinkAddresses | None) -> bool:
    """Whether a link has the addresses, routes and MTU of `before`; True for None. Raises OSError and ValueError."""
    now = read_link_addresses(before.name) if before is not None else None
    return before is None or (now is not None and now.comparable == before.comparable)


def restore_link(before: LinkAddresses) -> str:
    """Empty, or a sentence about what could not be restored."""
    try:
        now = read_link_addresses(before.name)
        if now is None:
            return f"{before.name} no longer exists"
        if now.mtu != before.mtu:
            run_command(["ip", "link", "set", "dev", before.name, "mtu", str(before.mtu)])
        if before.disable_ipv6 and now.disable_ipv6 != before.disable_ipv6:
            with open(DISABLE_IPV6.format(before.name), "w") as file:
                file.write(before.disable_ipv6)
        for family, *route in sorted(set(now.routes) - set(before.routes)):
            run_command(["ip", family, "route", "del", *route, "dev", before.name])
        for address in sorted(set(now.addresses) - set(before.addresses)):
            run_command(["ip", "address", "del", address, "dev", before.name])
        for *words, dump in before.saved:
            run_command(["ip", *words], b64decode(dump))
        if not is_link_unchanged(before):
            return f"addresses, routes or MTU of {before.name} not restored"
    except (OSError, ValueError) as error:
        return f"addresses of {before.name} not restored: {error}"
    return ""


def run_command(words: list[str], stdin_data: bytes = b"") -> bytes:
    """Standard output. Raises OSError when the program cannot be run, fails, or takes longer than `IP_TIMEOUT`."""
    try:
        argv = [find_program(words[0]), *words[1:]]
        with tempfile.TemporaryFile() as file:  # ip restores from what it can seek in
            file.write(stdin_data)
            file.seek(0)
            done = subprocess.run(
                argv,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=program_environment(),
                timeout=IP_TIMEOUT,
                check=False,
            )
    except ValueError as error:
        raise OSError(str(error)) from None
    except subprocess.SubprocessError as error:
        raise OSError(f"{' '.join(words[:3])}: {type(error).__name__}") from None
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OSError(f"{' '.join(words[:3])}: {errors[-1] if errors else exit_text(done.returncode)}")
    return done.stdout
