"""What the kernel has complained about on behalf of NICs: lines of its ring buffer.

Reads the records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg) and yields those that speak of a NIC's trouble as
`KernelMessage`. Lines that a process wrote into the buffer are not the kernel's and are left out. What the lines look
like was taken from the kernel's sources: the subsystem or driver is named beside each.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from nictop.probe.inventory.machine.kernel_hints import FIRMWARE_SIGN, FUNCTION_SIGNS, SIGNS
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable, why_unreadable
from nictop.probe.records import KernelMessage, Unreadable

FIRMWARE = pattern(rb"firmware\b.{0,120}?\b(?:fail|not found|missing|could not|unable|timed? ?out)", re.I | re.DOTALL)
NO_FIRMWARE = pattern(rb"(?:fail|could not|unable|can't)\w{0,32}\b.{0,60}?\bfirmware", re.I | re.DOTALL)
"""``Direct firmware load for x.fw failed with error -2`` and ``Failed to load firmware "x.bin"``: of a network function
as well."""
HEADER = pattern(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),[^;]{0,200};([^\n]*)")
"""Priority, sequence number, microseconds, flags and whatever a later kernel adds; the text. Properties follow on lines
of their own."""
DEVICE = pattern(rb"\S{1,64} ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[: ]")
"""dev_printk: driver (or bus, when none is bound) and address."""
ESCAPED = pattern(rb"\\x([0-9a-f]{2})")
"""As the kernel writes backslashes, control characters and whatever is not ASCII."""

NEWEST = 200
MOST_OF_A_KIND = 40
"""So that one thing that floods the buffer does not push out all others."""
LONGEST = 500
LARGEST_RECORD = 8192
"""Bytes, CONSOLE_EXT_LOG_MAX."""
MOST_RECORDS = 50_000
"""A bound for the cost: a buffer of several MiB."""


def read_kernel_messages(
    addresses: Iterable[str], dev: str = "/dev"
) -> tuple[tuple[KernelMessage, ...] | None, Unreadable | None]:
    """Messages, oldest first, and why there are none: an ordinary user needs ``kernel.dmesg_restrict`` 0.

    `addresses` are those of the PCI network functions. Never raises OSError.
    """
    path = os.path.join(dev, "kmsg")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return None, why_unreadable(error, printable(path))
    try:
        return select(read_records(descriptor), addresses), None
    except OSError as error:
        return None, why_unreadable(error, printable(path))
    finally:
        os.close(descriptor)


def read_records(descriptor: int) -> Iterator[bytes]:
    """The records in the buffer now, one each: every read returns one. Raises OSError when the buffer may not be read.

    EPIPE: the next record has been overwritten, the kernel goes on with the oldest that is left.
    """
    for _ in range(MOST_RECORDS):
        try:
            record = os.read(descriptor, LARGEST_RECORD)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue
        if not record:
            return
        yield record


def select(records: Iterable[bytes], addresses: Iterable[str]) -> tuple[KernelMessage, ...]:
    """Those that speak of a NIC's trouble, in their order: the newest `NEWEST`, `MOST_OF_A_KIND` of each kind."""
    functions = {address.encode() for address in addresses}
    records = tuple(records)
    whole = b"".join(records)  # most signs are nowhere: one search through everything beats one per record
    present = [sign for sign in (*SIGNS, *FUNCTION_SIGNS, FIRMWARE_SIGN) if sign in whole]
    kept: dict[bytes, deque[tuple[int, KernelMessage]]] = {}
    for number, record in enumerate(records):
        sign = sign_of(record, functions, present)
        if sign is None:
            continue
        message = parse_record(record)
        if message is not None:
            kept.setdefault(sign, deque(maxlen=MOST_OF_A_KIND)).append((number, message))
    newest = sorted((entry for entries in kept.values() for entry in entries), key=lambda entry: entry[0])[-NEWEST:]
    return tuple(message for _, message in newest)


def sign_of(record: bytes, functions: set[bytes], present: Iterable[bytes]) -> bytes | None:
    """What in a record tells of a NIC's trouble, one of `present`; None for all others.

    `functions`: addresses of network functions.
    """
    for sign in present:
        if sign not in record:
            continue
        if sign in SIGNS:
            return sign
        if is_of(record, functions) and (sign != FIRMWARE_SIGN or tells_of_firmware(record)):
            return sign
    return None


def tells_of_firmware(record: bytes) -> bool:
    """Firmware that could not be loaded or does not answer, not just its version."""
    return FIRMWARE.search(record) is not None or NO_FIRMWARE.search(record) is not None


def is_of(record: bytes, functions: set[bytes]) -> bool:
    """The line begins with driver and address of one of `functions`."""
    match = DEVICE.match(record, record.find(b";") + 1)
    return match is not None and match[1] in functions


def parse_record(record: bytes) -> KernelMessage | None:
    """A record of the kernel's own (facility 0); None for what a process wrote and for anything malformed.

    A text of several lines becomes one. Control characters other than white space stay: the screen removes them.
    """
    match = HEADER.match(record)
    if match is None:
        return None
    priority = int(match[1])
    if priority >> 3:
        return None
    data = ESCAPED.sub(lambda escaped: bytes([int(escaped[1], 16)]), match[4])
    text = " ".join(data.decode("utf-8", "replace").split())
    return KernelMessage(int(match[3]) / 1e6, priority & 7, text[:LONGEST])
