"""Kernel messages about problems of NICs → `KernelMessage`.

Reads the records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg) and selects those with a text of `kernel_hints`.
Messages that a process has written are left out.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator

from nictop.probe.inventory.machine.kernel_hints import FIRMWARE_HINT, FUNCTION_HINTS, HINTS, MAX_KMSG_BYTES
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable_path, unreadable_from_error
from nictop.probe.records import KernelMessage, Unreadable

FIRMWARE_FAILED = pattern(
    rb"firmware\b.{0,120}?\b(?:fail|not found|missing|could not|unable|timed? ?out)", re.I | re.DOTALL
)
FAILED_FIRMWARE = pattern(rb"(?:fail|could not|unable|can't)\w{0,32}\b.{0,60}?\bfirmware", re.I | re.DOTALL)
"""``Direct firmware load for x.fw failed with error -2`` and ``Failed to load firmware "x.bin"``."""
KMSG_RECORD = pattern(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),[^;]{0,200};([^\n]*)")
"""Priority, sequence number, microseconds, flags and possible further fields; the text. Properties follow on separate
lines."""
DEVICE_PREFIX = pattern(rb"\S{1,64} ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[: ]")
"""dev_printk(): driver, or bus without a driver, and address."""
ESCAPED_BYTE = pattern(rb"\\x([0-9a-f]{2})")
"""How the kernel escapes backslashes, control characters and bytes that are not ASCII."""

MAX_MESSAGES = 200
MAX_MESSAGES_PER_HINT = 40
"""So that one frequent message does not replace all others."""
MAX_MESSAGE_CHARS = 500
MAX_KMSG_RECORDS = 50_000
"""Limits the cost for a buffer of several MiB."""


def read_kernel_messages(
    addresses: Iterable[str], dev: str = "/dev"
) -> tuple[tuple[KernelMessage, ...] | None, Unreadable | None]:
    """Messages, oldest first, or why they could not be read: without root kernel.dmesg_restrict must be 0.

    `addresses`: of the PCI network functions. Never raises OSError.
    """
    path = os.path.join(dev, "kmsg")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return None, unreadable_from_error(error, printable_path(path))
    try:
        return select(read_records(descriptor), addresses), None
    except OSError as error:
        return None, unreadable_from_error(error, printable_path(path))
    finally:
        os.close(descriptor)


def read_records(descriptor: int) -> Iterator[bytes]:
    """The records that are in the buffer, one per read. Raises OSError when the buffer may not be read.

    EPIPE: the next record has been overwritten; the kernel continues with the oldest one that is left.
    """
    for _ in range(MAX_KMSG_RECORDS):
        try:
            record = os.read(descriptor, MAX_KMSG_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue
        if not record:
            return
        yield record


def select(records: Iterable[bytes], addresses: Iterable[str]) -> tuple[KernelMessage, ...]:
    """The records about problems of NICs in their order: the newest `MAX_MESSAGES`, `MAX_MESSAGES_PER_HINT` each."""
    functions = {address.encode() for address in addresses}
    records = tuple(records)
    text = b"".join(records)  # most hints do not occur: one search in all records is faster than one per record
    present = [hint for hint in (*HINTS, *FUNCTION_HINTS, FIRMWARE_HINT) if hint in text]
    selected: dict[bytes, deque[tuple[int, KernelMessage]]] = {}
    for number, record in enumerate(records):
        hint = hint_in(record, functions, present)
        if hint is None:
            continue
        message = parse_record(record)
        if message is not None:
            selected.setdefault(hint, deque(maxlen=MAX_MESSAGES_PER_HINT)).append((number, message))
    in_order = sorted((entry for entries in selected.values() for entry in entries), key=lambda entry: entry[0])
    return tuple(message for _, message in in_order[-MAX_MESSAGES:])


def hint_in(record: bytes, functions: set[bytes], present: Iterable[bytes]) -> bytes | None:
    """The hint among `present` that makes a record relevant; None: irrelevant. `functions`: addresses of network
    functions."""
    for hint in present:
        if hint not in record:
            continue
        if hint in HINTS:
            return hint
        if is_about(record, functions) and (hint != FIRMWARE_HINT or is_firmware_failure(record)):
            return hint
    return None


def is_firmware_failure(record: bytes) -> bool:
    """Firmware could not be loaded or does not respond; other messages only name its version."""
    return FIRMWARE_FAILED.search(record) is not None or FAILED_FIRMWARE.search(record) is not None


def is_about(record: bytes, functions: set[bytes]) -> bool:
    """Whether the text begins with a driver and the address of one of `functions`."""
    match = DEVICE_PREFIX.match(record, record.find(b";") + 1)
    return match is not None and match[1] in functions


def parse_record(record: bytes) -> KernelMessage | None:
    """A record of the kernel (facility 0); None for one of a process and for a malformed one.

    Several lines become one. Control characters other than white space are left in: the screen removes them.
    """
    match = KMSG_RECORD.match(record)
    if match is None:
        return None
    priority = int(match[1])
    if priority >> 3:
        return None
    data = ESCAPED_BYTE.sub(lambda escaped: bytes([int(escaped[1], 16)]), match[4])
    text = " ".join(data.decode("utf-8", "replace").split())
    return KernelMessage(int(match[3]) / 1e6, priority & 7, text[:MAX_MESSAGE_CHARS])
