"""Vendor and device names of PCI functions by address: from the udev database, else from pci.ids.

Reads the properties ID_VENDOR_FROM_DATABASE and ID_MODEL_FROM_DATABASE in /run/udev/data, and the
file pci.ids of the hwdata or pciutils packages, of which only the lines of the wanted vendors are
looked at: it has forty thousand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Callable, Optional

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text

PCI_IDS_FILES = (
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/share/pci.ids",
    "/var/lib/pciutils/pci.ids",
)
MAX_PCI_IDS_BYTES = 16 * 1024 * 1024
"""Ten times the size of the file of today."""
END_OF_VENDOR = pattern(rb"\n[^\t#\n]")
"""The next vendor, or the device classes, which follow the vendors."""

Ids = tuple[int, int]
"""Vendor id, device id."""
Names = tuple[Optional[str], Optional[str]]
"""Vendor name, device name."""
Lookup = Callable[[Mapping[str, Ids]], dict[str, Names]]
"""PCI address → ids in, PCI address → names out; addresses without names are left out."""


def read_names(wanted: Mapping[str, Ids], files: Iterable[str] = PCI_IDS_FILES) -> dict[str, Names]:
    """Names from udev; those that it does not have from the first readable pci.ids. Never
    raises."""
    names = read_udev_names(wanted)
    missing = {
        address: ids for address, ids in wanted.items() if None in names.get(address, (None, None))
    }
    if missing:
        known = read_pci_ids(set(missing.values()), files)
        for address, ids in missing.items():
            vendor, device = names.get(address, (None, None))
            other = known.get(ids, (None, None))
            names[address] = (vendor or other[0], device or other[1])
    return {address: pair for address, pair in names.items() if pair != (None, None)}


def read_udev_names(
    wanted: Mapping[str, Ids], run: str = "/run", sys: str = "/sys"
) -> dict[str, Names]:
    """Names in the udev database of this machine; empty without udevd."""
    folder = os.path.join(run, "udev/data")
    names: dict[str, Names] = {}
    for address, ids in wanted.items() if os.path.isdir(folder) else ():
        event = read_text(os.path.join(sys, "bus/pci/devices", address, "uevent"))
        if (
            not isinstance(event, str)
            or "PCI_ID={:04X}:{:04X}".format(*ids) not in event.splitlines()
        ):
            continue  # `sys` is the sysfs of another machine
        record = read_text(os.path.join(folder, f"+pci:{address}"))
        pair = parse_udev_names(record) if isinstance(record, str) else (None, None)
        if pair != (None, None):
            names[address] = pair
    return names


def parse_udev_names(record: str) -> Names:
    """Names in a record of udev's database, with lines such as ``E:ID_VENDOR_FROM_DATABASE=Intel
    Corporation`` (systemd, src/libsystemd/sd-device/device-private.c)."""
    found = dict(
        line[2:].partition("=")[::2] for line in record.splitlines() if line.startswith("E:")
    )
    return found.get("ID_VENDOR_FROM_DATABASE") or None, found.get("ID_MODEL_FROM_DATABASE") or None


def read_pci_ids(wanted: set[Ids], files: Iterable[str] = PCI_IDS_FILES) -> dict[Ids, Names]:
    """Names of the wanted ids from the first file that can be read; empty without one."""
    for path in files:
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_PCI_IDS_BYTES)
        except OSError:
            continue
        return parse_pci_ids(vendor_lines(data, sorted({ids[0] for ids in wanted})), wanted)
    return {}


def vendor_lines(data: bytes, vendors: Iterable[int]) -> Iterator[str]:
    """The lines of these vendors, each followed by those of its devices."""
    for vendor in vendors:
        number = b"%04x" % vendor
        begin = 0 if data.startswith(number) else data.find(b"\n" + number) + 1
        if begin or data.startswith(number):
            end = END_OF_VENDOR.search(data, begin)
            section = data[begin : end.start() + 1] if end else data[begin:]
            for line in section.splitlines(keepends=True):
                yield line.decode("utf-8", "replace")


def parse_pci_ids(lines: Iterable[str], wanted: set[Ids]) -> dict[Ids, Names]:
    """Names of the wanted ids. ``vvvv  Vendor``, followed by ``<tab>dddd  Device`` and subsystems
    with two tabs.

    Stops when all are found, or at the device classes, which follow the vendors.
    """
    vendors: dict[str, list[Ids]] = {}
    for ids in wanted:
        vendors.setdefault(f"{ids[0]:04x}", []).append(ids)
    names: dict[Ids, Names] = {}
    devices: dict[str, Ids] = {}
    vendor = ""
    for line in lines:
        start = line[:1]
        if start == "\t":
            if not devices or line[1:2] == "\t":
                continue
            wanted_ids = devices.pop(line[1:5].lower(), None)
            if wanted_ids is None:
                continue
            names[wanted_ids] = (vendor, line[5:].strip() or None)
        elif start in ("#", "\n"):
            continue
        elif start == "C" and line[1:2] == " ":
            break
        else:
            devices = {}
            number = line[:4].lower()
            if number in vendors and line[4:5].isspace():
                vendor = line[4:].strip()
                for ids in vendors.pop(number):
                    names[ids] = (vendor or None, None)
                    devices[f"{ids[1]:04x}"] = ids
        if not vendors and not devices:
            break
    return names
