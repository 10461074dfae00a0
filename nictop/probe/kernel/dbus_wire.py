"""The D-Bus wire format, as far as waiting for signals needs it: addresses, the beginning of a conversation, framing.

Pure but for `bus_address`, which reads the environment. D-Bus Specification 0.43, "Message Protocol" and
"Authentication Protocol". Calls with answers go through jeepney, in `profiles`; the probe itself must stay small.
"""

from __future__ import annotations

import os
import struct

METHOD_CALL, SIGNAL = 1, 4
NO_REPLY_EXPECTED = 0x1
PATH, INTERFACE, MEMBER, DESTINATION, SIGNATURE, SENDER = 1, 2, 3, 6, 8, 7
"""Codes of header fields."""
FIXED = 16
"""Bytes of a header up to its fields: order, type, flags, version, length of the body, serial, length of the fields."""
LARGEST_MESSAGE = 1024 * 1024
"""Bytes. The specification allows 128 MiB; what NetworkManager says by itself has some hundred."""
BUS = "org.freedesktop.DBus"


def bus_address(run: str = "/run") -> str:
    """Where the system bus listens: a path, or a name that begins with NUL (abstract); "" when that is no socket."""
    given = os.environ.get("DBUS_SYSTEM_BUS_ADDRESS", "")
    return parse_bus_address(given) if given else os.path.join(run, "dbus/system_bus_socket")


def parse_bus_address(address: str) -> str:
    """The first Unix socket among ``unix:path=/run/x,guid=…;tcp:…``; "" when there is none."""
    for entry in address.split(";"):
        transport, _, pairs = entry.partition(":")
        if transport.strip() != "unix":
            continue
        for pair in pairs.split(","):
            key, _, value = pair.partition("=")
            if key in ("path", "abstract") and value:
                return ("\0" if key == "abstract" else "") + unescape(value)
    return ""


def unescape(value: str) -> str:
    """%41 → A; what is no such escape stays."""
    head, *parts = os.fsencode(value).split(b"%")
    for part in parts:
        try:
            head += bytes.fromhex(part[:2].decode("ascii")) + part[2:]
        except ValueError:
            head += b"%" + part
    return os.fsdecode(head.replace(b"\0", b"%00"))  # a NUL in the middle would end the path


def authentication(uid: int) -> bytes:
    """The client's first words: it is who the kernel says it is (SASL EXTERNAL)."""
    return b"\0AUTH EXTERNAL " + str(uid).encode().hex().encode() + b"\r\n"


def call_of_the_bus(member: str, serial: int, argument: str | None = None, flags: int = 0) -> bytes:
    """A method call to the bus itself, with one string or none."""
    fields = b""
    for code, kind, value in (
        (PATH, b"o", "/org/freedesktop/DBus"),
        (INTERFACE, b"s", BUS),
        (MEMBER, b"s", member),
        (DESTINATION, b"s", BUS),
    ):
        fields = padded(fields) + bytes((code, 1)) + kind + b"\0" + string(value)
    body = b""
    if argument is not None:
        fields = padded(fields) + bytes((SIGNATURE, 1)) + b"g\0\1s\0"
        body = string(argument)
    head = struct.pack("<cBBBIII", b"l", METHOD_CALL, flags, 1, len(body), serial, len(fields))
    return padded(head + fields) + body


def string(value: str) -> bytes:
    """A D-Bus string or object path, little endian."""
    data = value.encode("utf-8", "replace")
    return struct.pack("<I", len(data)) + data + b"\0"


def padded(data: bytes) -> bytes:
    """Filled up to a multiple of eight bytes."""
    return data + bytes(-len(data) % 8)


def message_length(data: bytes | bytearray, largest: int = LARGEST_MESSAGE) -> int:
    """Bytes of the message that `data` begins with; 0: its fixed part has not arrived. ValueError: it is none."""
    if len(data) < FIXED:
        return 0
    if data[0] not in b"lB":
        raise ValueError("not a D-Bus message")
    order = "<" if data[0] == ord("l") else ">"
    body, _, fields = struct.unpack_from(order + "III", data, 4)
    length: int = FIXED + fields + -fields % 8 + body
    if length > largest:
        raise ValueError(f"a D-Bus message of {length} bytes")
    return length


def parse_header(message: bytes) -> tuple[int, dict[int, str], str]:
    """(Message type, header fields that are strings, the body's first string or "") of one whole message.

    ValueError for what is none.
    """
    length = message_length(message)
    if not length or len(message) < length:
        raise ValueError("not a whole D-Bus message")
    order = "<" if message[0] == ord("l") else ">"
    end = FIXED + struct.unpack_from(order + "I", message, 12)[0]
    found: dict[int, str] = {}
    position = FIXED
    while position < end:
        position += -position % 8
        code, kind = message[position], message[position + 2 : position + 3]
        if message[position + 1] != 1:
            raise ValueError("a header field of a structure")
        position += 4
        if kind in (b"s", b"o"):
            found[code], position = text_at(message, position, order)
        elif kind == b"g":
            found[code] = message[position + 1 : position + 1 + message[position]].decode("latin-1")
            position += message[position] + 2
        elif kind == b"u":
            position += 4
        else:
            raise ValueError(f"a header field of type {kind!r}")
    first = ""
    if found.get(SIGNATURE, "").startswith("s"):
        first, _ = text_at(message, end + -end % 8, order)
    return message[1], found, first


def text_at(message: bytes, position: int, order: str) -> tuple[str, int]:
    """The string at `position`, and where it ends."""
    position += -position % 4
    if position + 4 > len(message):
        raise ValueError("a string that is cut off")
    length = struct.unpack_from(order + "I", message, position)[0]
    end = position + 4 + length
    if end >= len(message):
        raise ValueError("a string that is cut off")
    return message[position + 4 : end].decode("utf-8", "replace"), end + 1
