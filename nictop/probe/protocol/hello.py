"""What the probe says first: its hello and the first counters, with as little code as that takes.

A remote probe is sent here in parts, and this module with what it imports is the first of them: the numbers are on
their way while the rest of the sources still arrives. Lines go to a descriptor that may block.
"""

from __future__ import annotations

import json
import os
import sys
import time

from nictop import __version__
from nictop.probe.counters.reader import CounterReader

PROTOCOL = 1
"""`records.PROTOCOL`, which is not imported here: it would bring `dataclasses` (3 MiB, 20 ms). A test compares them."""


def say_first_words(descriptor: int, interval: float) -> CounterReader:
    """Write a `Hello` and the first `Counters`; the reader that took them is warm for the next ones. Raises OSError."""
    counters = CounterReader()
    for line in (encoded("hello", hello(interval)), encoded("counters", vars(counters.read()))):
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    return counters


def encoded(kind: str, fields: dict[str, object]) -> bytes:
    """One line of the protocol."""
    text = json.dumps({kind: fields}, separators=(",", ":"), ensure_ascii=False)
    # a host name of bytes that are not UTF-8 has surrogates in it, which no JSON reader takes
    return text.encode("utf-8", "replace") + b"\n"


def hello(interval: float, proc: str = "/proc") -> dict[str, object]:
    """`records.Hello` of this process."""
    system = os.uname()
    try:
        with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii", errors="replace") as file:
            boot_id = file.read(64).strip()
    except OSError:
        boot_id = ""
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
    }
