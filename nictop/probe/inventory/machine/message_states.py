"""Whether kernel messages still apply: the age of devices, and the usage of tables that were full;
and of the connection tracking table, before it is full.

Reads /run/udev/data (USEC_INITIALIZED of links and of virtual functions; udev's private format,
stable since systemd 183), what the kernel tells of other links (`links.presence`),
/proc/net/stat/{arp,ndisc}_cache and the sysctls of connection tracking and neighbour tables → links
and functions with `created`, links with `present_since`, and `Settings.tables`. Connection tracking
is read on hosts that have it, everything else only on hosts with such messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from nictop.probe.inventory.links.presence import read_presence
from nictop.probe.inventory.links.udev_names import MAX_UDEV_RECORD_BYTES, record_of
from nictop.probe.kernel.sysfs import parse_integer, read_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.protocol.hello import first_namespace
from nictop.probe.records import KernelMessage, Link, PciFunction

BOOT_SECONDS = 180.0
"""After the start of the kernel. Devices that udev lists until then may be older, because at boot
udev processes all existing devices."""
NEIGHBOUR_TABLES = {"ipv4": "arp_cache", "ipv6": "ndisc_cache"}
NEIGHBOURS_FULL = ("neighbor table overflow", "neighbour table overflow")


def with_ages(
    links: tuple[Link, ...],
    functions: tuple[PciFunction, ...],
    messages: Sequence[KernelMessage],
    run: str = "/run",
    proc: str = "/proc",
) -> tuple[tuple[Link, ...], tuple[PciFunction, ...]]:
    """Links and virtual functions with the time since which udev knows them, other links without a
    device with that since which they are known to be there; unchanged without messages."""
    if not messages:
        return links, functions
    folder = os.path.join(run, "udev/data")
    links = _with_ages_of_virtual_links(_with_ages_of_nics(links, folder), folder, proc)
    return links, _with_ages_of_functions(functions, folder)


def _with_ages_of_nics(links: tuple[Link, ...], folder: str) -> tuple[Link, ...]:
    aged = []
    for link in links:
        if link.device:
            aged.append(replace(link, created=created(record_of(link, folder))))
        else:
            aged.append(link)
    return tuple(aged)


def _with_ages_of_virtual_links(
    links: tuple[Link, ...], folder: str, proc: str
) -> tuple[Link, ...]:
    """udev's record of a number is that of the link only in its own network namespace."""
    is_of_udev = is_first_namespace(proc)
    times: dict[int, float] | None = None
    aged = []
    for link in links:
        if link.device:
            aged.append(link)
            continue
        path = os.path.join(folder, f"n{link.ifindex}")
        record = read_text(path, MAX_UDEV_RECORD_BYTES) if is_of_udev else None
        if isinstance(record, str) and parse_first_seen(record) is not None:
            aged.append(replace(link, created=created(record)))
            continue
        if times is None:
            times = read_presence()
        aged.append(replace(link, present_since=times.get(link.ifindex)))
    return tuple(aged)


def is_first_namespace(proc: str = "/proc") -> bool:
    """This network namespace is known to be the one in which the machine has started."""
    try:
        own = os.stat(os.path.join(proc, "self/ns/net")).st_ino
    except OSError:
        return False
    return own == first_namespace(proc, os.uname().release)


def _with_ages_of_functions(
    functions: tuple[PciFunction, ...], folder: str
) -> tuple[PciFunction, ...]:
    aged_functions = []
    for function in functions:
        if function.physical_function is not None:
            record = read_text(f"{folder}/+pci:{function.address}", MAX_UDEV_RECORD_BYTES)
            since = created(record) if isinstance(record, str) else None
            aged_functions.append(replace(function, created=since))
        else:
            aged_functions.append(function)
    return tuple(aged_functions)


def created(record: str) -> float | None:
    """Since when udev knows the device of a record; None: not known, or since the boot."""
    time = parse_first_seen(record)
    if time is None or time <= BOOT_SECONDS:
        return None
    return time


def parse_first_seen(text: str) -> float | None:
    """Seconds, CLOCK_MONOTONIC, from the line ``I:83512345`` (microseconds) of a record of udev's
    database; None: no such line."""
    line = next((line for line in text.splitlines() if line.startswith("I:")), "")
    microseconds = parse_integer(line[2:])
    if not microseconds:
        return None
    return microseconds / 1e6


def read_tables(
    messages: Iterable[KernelMessage], proc: str = "/proc"
) -> dict[str, tuple[int, int]]:
    """(entries, maximum) of ``connections`` (connection tracking), and of each neighbour table
    (``ipv4``, ``ipv6``) that was full according to the kernel. Tables that are not readable or not
    limited are left out."""
    texts = [one.text for one in messages]
    folder = os.path.join(proc, "sys/net/netfilter")
    found = {
        "connections": usage(
            read_number(f"{folder}/nf_conntrack_count"), read_number(f"{folder}/nf_conntrack_max")
        )
    }
    if any(sign in text for text in texts for sign in NEIGHBOURS_FULL):
        for family, table in NEIGHBOUR_TABLES.items():
            statistics = read_text(os.path.join(proc, "net/stat", table))
            entries = parse_entries(statistics) if isinstance(statistics, str) else None
            maximum = read_number(os.path.join(proc, f"sys/net/{family}/neigh/default/gc_thresh3"))
            found[family] = usage(entries, maximum)
    return {name: sizes for name, sizes in found.items() if sizes is not None}


def read_number(path: str) -> int | None:
    text = read_text(path)
    if not isinstance(text, str):
        return None
    return parse_integer(text)


def usage(entries: int | None, maximum: int | None) -> tuple[int, int] | None:
    if entries is None or not maximum:
        return None
    return entries, maximum


def parse_entries(text: str) -> int | None:
    """The column ``entries`` of /proc/net/stat/arp_cache: hexadecimal, the same in the line of
    every CPU."""
    lines = text.splitlines()
    if len(lines) < 2 or not lines[0].startswith("entries"):
        return None
    words = lines[1].split(maxsplit=1)
    if not words:
        return None
    return parse_integer(words[0], 16)
