"""The first lines of a probe, its hello and first counters, with as little code as possible.

A remote probe is sent in frames, and this module with its imports is the first one: the counters
are sent while the other sources are still being received. Writes may block.
"""

from __future__ import annotations

import json
import os
import sys
import time

from nictop import __version__
from nictop.probe.counters.reader import CounterReader

PROTOCOL = 1
"""`records.PROTOCOL`, repeated here because importing it would import `dataclasses` (3 MiB, 20 ms).
A test compares them."""
NET_NS_INIT_INO, FIRST_RELEASE_WITH_CONSTANT = 0xEFFFFFF9, (6, 18)
"""See `first_namespace`."""


def send_hello(descriptor: int, interval: float) -> CounterReader:
    """Write a `Hello` and the first `Counters`; returns the reader that took them, whose files are
    open. Raises OSError."""
    counters = CounterReader()
    for line in (
        encode_line("hello", hello(interval)),
        encode_line("counters", vars(counters.read())),
    ):
        unwritten = memoryview(line)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
    return counters


class Encoded(str):
    """A value that is JSON already: it is put into a line as it is."""


def encode_line(kind: str, fields: dict[str, object]) -> bytes:
    """One line of the protocol."""
    encoded = [name for name in fields if isinstance(fields[name], Encoded)]
    plain = fields
    if encoded:
        plain = {name: fields[name] for name in fields if name not in encoded}
    text = json.dumps({kind: plain}, separators=(",", ":"), ensure_ascii=False)
    for name in encoded:  # before the braces that close the fields and the line
        comma = "," if plain else ""
        text = f'{text[:-2]}{comma}"{name}":{fields[name]}}}}}'
    # a host name that is not UTF-8 contains surrogates, which JSON readers refuse
    return text.encode("utf-8", "replace") + b"\n"


def hello(interval: float, proc: str = "/proc") -> dict[str, object]:
    """Fields of `records.Hello` for this process."""
    system = os.uname()
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii", errors="replace") as file:
            boot_id = file.read(64).strip()
    except OSError:
        boot_id = ""
    network_namespace = _inode(f"{proc}/self/ns/net")
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "hostname": system.nodename,
        "kernel": system.release,
        "machine": system.machine,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "pid": os.getpid(),
        "euid": os.geteuid(),
        "boot_id": boot_id,
        "clock_ticks": os.sysconf("SC_CLK_TCK"),
        "monotonic": time.monotonic(),
        "wall": time.time(),
        "interval": interval,
        "network_namespace": network_namespace,
        "first_namespace": first_namespace(proc, system.release),
    }


def first_namespace(proc: str, release: str) -> int:
    """Inode of the network namespace in which the machine has started; 0: not known. That of
    kthreadd, which never leaves it, where this namespace of processes has it; since Linux 6.18 it
    is a constant (NET_NS_INIT_INO, linux/nsfs.h)."""
    try:
        with open(f"{proc}/2/comm", "rb") as file:
            is_kthreadd = file.read(64) == b"kthreadd\n"
    except OSError:
        is_kthreadd = False
    inode = _inode(f"{proc}/2/ns/net") if is_kthreadd else 0
    if inode:
        return inode
    numbers = release.split("-", maxsplit=1)[0].split(".")[:2]
    try:
        has_constant = tuple(map(int, numbers)) >= FIRST_RELEASE_WITH_CONSTANT
    except ValueError:
        has_constant = False
    return NET_NS_INIT_INO if has_constant else 0


def _inode(path: str) -> int:
    """0: it cannot be read."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0
