"""Name servers: resolv.conf(5) → their addresses.

Of systemd-resolved's stub (127.0.0.53) those that it asks are in /run/systemd/resolve/resolv.conf.
"""

from __future__ import annotations

import os
import socket

from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import Unreadable

MAX_NAME_SERVERS = 8
"""glibc asks three (MAXNS)."""
STUBS = ("127.0.0.53", "127.0.0.54")
"""systemd-resolved(8)"""


def read_name_servers(
    etc: str = "/etc", run: str = "/run"
) -> tuple[tuple[str, ...], Unreadable | None]:
    """(Addresses, why they could not be read). A missing file is no failure: the resolver asks this
    host."""
    text = read_text(os.path.join(etc, "resolv.conf"))
    if isinstance(text, Unreadable):
        return (), None if text.reason == "missing" else text
    found = parse_name_servers(text)
    if found and set(found) <= set(STUBS):
        asked = read_text(os.path.join(run, "systemd/resolve/resolv.conf"))
        return parse_name_servers(asked) if isinstance(asked, str) else (), None
    return found, None


def parse_name_servers(text: str) -> tuple[str, ...]:
    """Addresses of the ``nameserver`` lines, without a zone; other words are ignored."""
    found: list[str] = []
    for line in text.splitlines():
        words = line.split(None, 2)
        if len(words) >= 2 and words[0] == "nameserver" and len(found) < MAX_NAME_SERVERS:
            address = words[1].partition("%")[0]
            if is_address(address) and address not in found:
                found.append(address)
    return tuple(found)


def is_address(text: str) -> bool:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True
