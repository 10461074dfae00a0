"""Configurations of libvirt's virtual machines → `HostedGuest` in state stopped.

Reads /etc/libvirt/qemu/NAME.xml (libvirt.org/formatdomain.html: name, uuid, vcpu, ``<interface>``
with mac, source, model, target, driver, mtu and vlan, ``<hostdev>`` of PCI functions). The parser
is expat; a document with a DOCTYPE, which libvirt never writes, is not read, so that there are no
entities; elements and depth are limited. Only root may read the directory.
"""

from __future__ import annotations

import os

from nictop.probe.inventory.guests.qemu_command import MAX_NICS
from nictop.probe.inventory.guests.values import mac_or_none, small_number
from nictop.probe.kernel.sysfs import parse_integer, printable_path
from nictop.probe.records import GuestNic, HostedGuest, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from nictop.probe.inventory.configuration.files import Files

MAX_DOMAINS = 512
MAX_ELEMENTS = 20_000
MAX_DEPTH = 32
MAX_VALUE_CHARS = 128
BACKENDS = {
    "bridge": "tap",
    "network": "tap",
    "ethernet": "tap",
    "direct": "macvtap",
    "vhostuser": "vhost-user",
    "vdpa": "vhost-vdpa",
    "hostdev": "vfio",
    "user": "user",
}
"""Type of ``<interface>`` → `GuestNic.backend`."""
SOURCES = ("bridge", "network", "dev", "path")
"""Attributes of ``<source>``: what it is connected to."""


class ForeignDocument(ValueError):
    """A document that libvirt has not written."""


class Element:
    """An element of the document with what is of interest below it."""

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = {key: text[:MAX_VALUE_CHARS] for key, text in attributes.items()}
        self.text = ""
        self.children: list[Element] = []

    def child(self, name: str) -> Element:
        """The first child of this name; an empty element if there is none."""
        return next((one for one in self.children if one.name == name), NO_ELEMENT)

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")


NO_ELEMENT = Element("", {})


class TreeBuilder:
    """Elements of a document, up to `MAX_ELEMENTS` and `MAX_DEPTH`."""

    def __init__(self) -> None:
        self.root = Element("", {})
        self._open = [self.root]
        self._elements = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._open) > MAX_DEPTH:
            raise ForeignDocument("more elements than a domain of libvirt has")
        element = Element(name, attributes)
        self._open[-1].children.append(element)
        self._open.append(element)

    def end(self, name: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        element = self._open[-1]
        element.text = (element.text + text)[:MAX_VALUE_CHARS]

    def doctype(self, *_: object) -> None:
        raise ForeignDocument("a DOCTYPE")


def parse_xml(text: str) -> Element:
    """The document element. Raises ValueError for what is not well-formed or too large."""
    import pyexpat

    builder, parser = TreeBuilder(), pyexpat.ParserCreate()
    handlers: Any = parser
    handlers.StartElementHandler = builder.start
    handlers.EndElementHandler = builder.end
    handlers.CharacterDataHandler = builder.data
    handlers.StartDoctypeDeclHandler = builder.doctype
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except pyexpat.ExpatError as error:
        raise ValueError(str(error)) from error
    return builder.root.children[0] if builder.root.children else NO_ELEMENT


def read_stopped_domains(files: Files, etc: str) -> Iterator[HostedGuest]:
    """All domains that have a configuration; the caller leaves out those that run."""
    paths = files.listed(os.path.join(etc, "libvirt/qemu"), ".xml")
    for path in paths[:MAX_DOMAINS]:
        text, shown = files.text(path), printable_path(path)
        if not text:
            continue
        try:
            guest = domain_guest(parse_xml(text), shown)
        except (ValueError, ImportError) as error:
            files.unreadable[shown] = Unreadable("malformed", f"{shown}: {error}")
            continue
        if guest is not None:
            yield guest


def domain_guest(domain: Element, source: str) -> HostedGuest | None:
    """None: not a domain, or one without a name."""
    name = domain.child("name").text.strip()
    if domain.name != "domain" or not name:
        return None
    devices = domain.child("devices").children
    nics = [interface_nic(one) for one in devices if one.name == "interface"]
    for device in devices:
        address = source_address(device) if device.name == "hostdev" else None
        if address is not None:
            nics.append(GuestNic(model="vfio-pci", backend="vfio", pci_address=address))
    return HostedGuest(
        name=name,
        kind="vm",
        product="qemu",
        state="stopped",
        id=domain.child("uuid").text.strip(),
        vcpus=small_number(domain.child("vcpu").text.strip()),
        nics=tuple(nics[:MAX_NICS]),
        source=source,
    )


def interface_nic(interface: Element) -> GuestNic:
    source, driver = interface.child("source"), interface.child("driver")
    backend = BACKENDS.get(interface.get("type"))
    is_copied = backend in ("tap", "macvtap") and driver.get("name") in ("vhost", "qemu")
    return GuestNic(
        name=interface.child("alias").get("name"),
        model=interface.child("model").get("type") or None,
        backend=backend,
        address=mac_or_none(interface.child("mac").get("address")),
        target=next((source.get(name) for name in SOURCES if source.get(name)), ""),
        pci_address=source_address(interface) if backend == "vfio" else None,
        vlan=vlan_of(interface.child("vlan")),
        mtu=small_number(interface.child("mtu").get("size")),
        queues=small_number(driver.get("queues")),
        vhost=driver.get("name") == "vhost" if is_copied else None,
    )


def vlan_of(vlan: Element) -> int | None:
    """The only VLAN of ``<vlan><tag id='42'/></vlan>``; None: none, or a trunk."""
    tags = [one for one in vlan.children if one.name == "tag"]
    is_trunk = vlan.get("trunk") == "yes" or len(tags) != 1
    return None if is_trunk else small_number(tags[0].get("id"))


def source_address(device: Element) -> str | None:
    """``<source><address domain='0x0000' bus='0x01' slot='0x10' function='0x2'/></source>``"""
    address = device.child("source").child("address")
    if address is NO_ELEMENT or address.get("type") not in ("", "pci"):
        return None
    parts = [
        parse_integer(address.get(name) or "0x0", 0 if address.get(name) else 16)
        for name in ("domain", "bus", "slot", "function")
    ]
    if any(part is None or not 0 <= part <= 0xFFFF for part in parts) or not address.get("bus"):
        return None
    domain, bus, slot, function = (part or 0 for part in parts)
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
