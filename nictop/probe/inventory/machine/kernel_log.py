"""Kernel messages about problems of NICs → `KernelMessage`.

Reads the records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg) and selects those with a text of
`message_table`. Messages that a process has written are left out, except those of udev.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter

from nictop.probe.inventory.machine.message_device import addresses_in, device_in, parse_device
from nictop.probe.inventory.machine.message_table import (
    LOG_DAEMON,
    MAX_KMSG_BYTES,
    OF_ANY_DEVICE,
    UDEV,
    Known,
    candidates,
    find_known,
)
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable_path, unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import KernelMessage, Unreadable

KMSG_RECORD = pattern(rb"([0-9]{1,10}),([0-9]{1,20}),([0-9]{1,20}),[^;]{0,200};([^\n]*)")
"""Priority, sequence number, microseconds, flags and possible further fields; the text. Properties
follow on separate lines."""
ESCAPED_BYTE = pattern(rb"\\x([0-9a-f]{2})")
"""How the kernel escapes backslashes, control characters and bytes that are not ASCII."""

MAX_MESSAGES = 200
MAX_MESSAGES_PER_GROUP = 40
"""Of one text about one device, so that one frequent message does not replace all others."""
MAX_MESSAGE_CHARS = 500
MAX_KMSG_RECORDS = 50_000
"""Limits the cost for a buffer of several MiB."""
RECORDS_AT_ONCE = 128
"""That are looked at together."""

Position = int
"""Of a record in the buffer."""
Group = list[tuple[Position, KernelMessage]]
"""Messages with one text about one device, oldest first."""


def read_kernel_messages(
    addresses: Iterable[str], dev: str = "/dev"
) -> tuple[tuple[KernelMessage, ...] | None, Unreadable | None]:
    """Messages, oldest first, or why they could not be read: without root kernel.dmesg_restrict
    must be 0.

    `addresses`: of the PCI network functions and of the ports above them. Never raises OSError.
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
    """The records that are in the buffer, one per read. Raises OSError when the buffer may not be
    read.

    EPIPE: the next record has been overwritten; the kernel continues with the oldest one that is
    left.
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
    """The records about problems of NICs in their order, at most `MAX_MESSAGES` and
    `MAX_MESSAGES_PER_GROUP` of one text about one device. `KernelMessage.omitted` counts those that
    are left out."""
    functions = frozenset(addresses)
    groups: dict[tuple[str, str], Group] = {}
    lost: set[str] = set()
    opened: dict[tuple[str, str], str] = {}
    for position, record in numbered_candidates(records):
        found = known_message(record, functions)
        if found is None:
            continue
        message, known = found
        group = (known.text, device_in(message.text))
        groups.setdefault(group, []).append((position, message))
        if known.meaning == "link_lost":
            lost.add(parse_device(message.text)[1] or "")
        elif known.meaning == "link_opened":
            opened[group] = group[1]
    for group, name in opened.items():
        if name not in lost:  # at each boot, for each NIC
            del groups[group]
    entries: Group = []
    for messages, number in fair_shares(groups):
        entries += with_omissions(messages, number)
    return tuple(message for _, message in sorted(entries, key=itemgetter(0)))


def numbered_candidates(records: Iterable[bytes]) -> Iterator[tuple[Position, bytes]]:
    """Those that may be about a problem of a NIC."""
    unread = iter(records)
    position = 0
    while True:
        part = list(islice(unread, RECORDS_AT_ONCE))
        if not part:
            return
        for place, record in candidates(part):
            yield position + place, record
        position += len(part)


def known_message(record: bytes, functions: frozenset[str]) -> tuple[KernelMessage, Known] | None:
    """A candidate that is about a problem of a NIC, and what is known of its text; None: another
    one."""
    message = parse_record(record)
    if message is None:
        return None
    known = find_known(message.text)
    if known is None or not is_about_a_nic(known, message.text, functions):
        return None
    return message, known


def is_about_a_nic(known: Known, text: str, functions: frozenset[str]) -> bool:
    """Messages of the PCI core and of vfio name devices of any kind: those that name one of
    `functions`."""
    return known.driver not in OF_ANY_DEVICE or not functions.isdisjoint(addresses_in(text))


def fair_shares(groups: dict[tuple[str, str], Group]) -> list[tuple[Group, int]]:
    """How many of the newest messages of each group are kept. If all are too many, the largest
    groups give way."""
    share = MAX_MESSAGES_PER_GROUP
    while share > 1 and sum(min(share, len(group)) for group in groups.values()) > MAX_MESSAGES:
        share -= 1
    # More groups than messages: those with the newest messages.
    newest_first = sorted(groups.values(), key=lambda group: -group[-1][0])
    return [(group, min(share, len(group))) for group in newest_first[:MAX_MESSAGES]]


def with_omissions(group: Group, number: int) -> Group:
    """The newest `number` messages of a group; the first of them says how many are left out."""
    omitted, kept = group[: len(group) - number], group[len(group) - number :]
    if not omitted:
        return kept
    position, message = kept[0]
    counted = replace(message, omitted=len(omitted), omitted_since=omitted[0][1].time)
    return [(position, counted), *kept[1:]]


def parse_record(record: bytes) -> KernelMessage | None:
    """A record of the kernel (facility 0) or of udev; None for one of another process and for a
    malformed one.

    Several lines become one. Control characters other than white space are left in: the screen
    removes them.
    """
    match = KMSG_RECORD.match(record)
    if match is None:
        return None
    priority = int(match[1])
    data = ESCAPED_BYTE.sub(lambda escaped: bytes([int(escaped[1], 16)]), match[4])
    text = " ".join(data.decode("utf-8", "replace").split())
    facility = priority >> 3
    if facility and not (facility == LOG_DAEMON and text.startswith(UDEV)):
        return None
    return KernelMessage(int(match[3]) / 1e6, priority & 7, text[:MAX_MESSAGE_CHARS])
