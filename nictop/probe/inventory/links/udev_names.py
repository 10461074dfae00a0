"""Which property of udev gave a NIC its name, and which .link file udev applied to it.

Reads /run/udev/data/nIFINDEX (udev's private format, stable since systemd 183) of links with a
device → `Link.name_property`, `Link.link_file`. In a network namespace that shares /run with the
host the record of a number is that of another netdev: it counts only with the name, the MAC address
or the device of the link.

Sources: systemd.net-naming-scheme(7), systemd.link(5), systemd src/udev/udev-builtin-net_id.c.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.sysfs import read_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link

NAME_PROPERTIES = (
    "ID_NET_NAME_FROM_DATABASE",
    "ID_NET_NAME_ONBOARD",
    "ID_NET_NAME_SLOT",
    "ID_NET_NAME_PATH",
    "ID_NET_NAME_MAC",
    "ID_NET_NAME",
)
"""In the order of NamePolicy= in 99-default.link; the last one is set by Name=, too."""
MAC_NAME = "ID_NET_NAME_MAC"
MAC_NAME_PREFIX_CHARS = 2
"""Of ``enx001122334455``: en, wl; before the x."""
MAX_UDEV_RECORD_BYTES = 16 * 1024


def with_udev_names(links: tuple[Link, ...], run: str = "/run") -> tuple[Link, ...]:
    """The same links; those that udev does not know are unchanged."""
    folder = os.path.join(run, "udev/data")
    if not os.path.isdir(folder):
        return links
    return tuple(_with_udev_name(link, folder) for link in links)


def _with_udev_name(link: Link, folder: str) -> Link:
    if link.bus is None:
        return link
    properties = parse_udev_properties(record_of(link, folder))
    if not properties:
        return link
    naming = _property_with(link.name, properties)
    return replace(link, name_property=naming, link_file=properties.get("ID_NET_LINK_FILE", ""))


def record_of(link: Link, folder: str) -> str:
    """What udev knows of a link; "": nothing, or the record is that of another netdev."""
    text = read_text(os.path.join(folder, f"n{link.ifindex}"), MAX_UDEV_RECORD_BYTES)
    if not isinstance(text, str):
        return ""
    properties = parse_udev_properties(text)
    is_own = (
        _property_with(link.name, properties)
        or _has_mac_address(link, properties)
        or _has_device(link, properties)
    )
    return text if is_own else ""


def parse_udev_properties(text: str) -> dict[str, str]:
    """``E:ID_NET_NAME_PATH=enp3s0`` → name and value of a property."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line[2:].partition("=")
        if line.startswith("E:") and equals:
            found[name] = value
    return found


def _property_with(name: str, properties: dict[str, str]) -> str:
    """ "": none has the name."""
    for one in NAME_PROPERTIES:
        if properties.get(one) == name:
            return one
    return ""


def _has_mac_address(link: Link, properties: dict[str, str]) -> bool:
    address = link.permanent_address or link.address
    named = properties.get(MAC_NAME, "")[MAC_NAME_PREFIX_CHARS:]
    return bool(address) and named == "x{}".format((address or "").replace(":", ""))


def _has_device(link: Link, properties: dict[str, str]) -> bool:
    """``E:ID_PATH=pci-0000:01:00.0`` (systemd src/udev/udev-builtin-path_id.c)."""
    return link.device is not None and properties.get("ID_PATH") == f"pci-{link.device}"
