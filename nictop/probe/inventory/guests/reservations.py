"""Addresses that the DHCP servers of this host reserve for a MAC address.

Reads files of dnsmasq's option --dhcp-hostsfile or --dhcp-hostsdir, one host a line
(``52:54:00:aa:bb:01,192.168.122.41,web1``; dnsmasq(8), --dhcp-host): ``NETWORK.hostsfile`` of
libvirt (src/util/virdnsmasq.c, hostsfileAdd; lines without a MAC address are for a name or a DHCPv6
client), ``dnsmasq.hosts/`` of Incus and LXD (dnsmasq.UpdateStaticEntry), and
/etc/dnsmasq.d/ZONE/ethers of Proxmox SDN (PVE::Network::SDN::Dhcp::Dnsmasq). They are what dnsmasq
uses: a network of libvirt that was edited and not started again has others in its configuration.
"""

from __future__ import annotations

import glob
import os

from nictop.probe.inventory.guests.leases import LIBVIRT_DIRECTORY, MAX_ADDRESS_CHARS
from nictop.probe.inventory.guests.values import mac_or_none
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.sysfs import printable_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from nictop.probe.inventory.configuration.files import Files

RESERVATION_FILES = (
    f"{LIBVIRT_DIRECTORY}/*.hostsfile",
    "lib/incus/networks/*/dnsmasq.hosts/*",
    "lib/lxd/networks/*/dnsmasq.hosts/*",
    "snap/lxd/common/lxd/networks/*/dnsmasq.hosts/*",
)
"""Below /var."""
SDN_FILES = "dnsmasq.d/*/ethers"
"""Below /etc."""
MAX_FILES = 256
"""Of each of them."""
MAX_RESERVATIONS = 4096
MAX_OF_ONE = 4
"""Addresses for one MAC address."""


class Reservation:
    """What one line reserves. `source`: ``DHCP reservation in FILE``."""

    __slots__ = ("addresses", "source")

    def __init__(self, addresses: tuple[str, ...], source: str) -> None:
        self.addresses, self.source = addresses, source


def read_reservations(files: Files, var: str, etc: str) -> dict[str, Reservation]:
    """By MAC address; the first line of one counts."""
    found: dict[str, Reservation] = {}
    for root, expression in (*((var, one) for one in RESERVATION_FILES), (etc, SDN_FILES)):
        paths = sorted(glob.glob(os.path.join(glob.escape(root), expression)))
        for path in paths[:MAX_FILES]:
            source = f"DHCP reservation in {printable_path(path)}"
            for mac, addresses in parse_reservations(files.text(path) or ""):
                if len(found) < MAX_RESERVATIONS:
                    found.setdefault(mac, Reservation(addresses, source))
    return found


def parse_reservations(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(MAC address, addresses) of the lines that have both."""
    for line in text.split("\n"):
        first, *words = line.split(",")
        mac = mac_or_none(first.strip())
        addresses = [address for address in map(address_or_none, words) if address is not None]
        if mac is not None and addresses:
            yield mac, tuple(addresses[:MAX_OF_ONE])


def address_or_none(word: str) -> str | None:
    """``192.0.2.7``, or ``2001:db8::7`` of ``[2001:db8::7]``; None: a name, a time or a tag."""
    import socket

    text = word.strip()
    family = socket.AF_INET
    if text.startswith("[") and text.endswith("]"):
        text, family = text[1:-1], socket.AF_INET6
    if len(text) > MAX_ADDRESS_CHARS or not is_ascii(text):
        return None
    try:
        return socket.inet_ntop(family, socket.inet_pton(family, text))
    except (OSError, ValueError):
        return None
