"""The part of the D-Bus wire format that receiving signals needs: addresses, authentication,
framing, headers.

Pure except `bus_address`, which reads the environment. D-Bus Specification 0.43, "Message Protocol"
and "Authentication Protocol". Method calls with replies use jeepney, in `dbus_calls`; the probe
process stays small without it.
"""

from __future__ import annotations

import os
import struct

METHOD_CALL, SIGNAL = 1, 4
NO_REPLY_EXPECTED = 0x1
PATH, INTERFACE, MEMBER, DESTINATION, SIGNATURE = 1, 2, 3, 6, 8
"""Header field codes."""
FIXED_HEADER_BYTES = 16
"""Header up to its fields: byte order, type, flags, version, body length, serial, length of the
fields."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""The specification allows 128 MiB; NetworkManager's signals have some hundred bytes."""
MAX_AUTH_REPLY_BYTES = 4096
"""The reply of the bus to the authentication: one line."""
BUS_NAME = "org.freedesktop.DBus"


def bus_address(run: str = "/run") -> str:
    """Socket address of the system bus: a path, or NUL and an abstract name; "" when it is not a
    Unix socket."""
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
    """Decode %41 → A; an invalid escape is left as it is."""
    head, *parts = os.fsencode(value).split(b"%")
    for part in parts:
        try:
            head += bytes.fromhex(part[:2].decode("ascii")) + part[2:]
        except ValueError:
            head += b"%" + part
    return os.fsdecode(head.replace(b"\0", b"%00"))  # a NUL in the middle would end the path


def authentication_request(uid: int) -> bytes:
    """First bytes that the client sends: SASL EXTERNAL, the identity is the uid that the kernel
    reports."""
    return b"\0AUTH EXTERNAL " + str(uid).encode().hex().encode() + b"\r\n"


def bus_method_call(member: str, serial: int, argument: str | None = None, flags: int = 0) -> bytes:
    """A method call on org.freedesktop.DBus itself, with one string argument or none."""
    fields = b""
    for code, kind, value in (
        (PATH, b"o", "/org/freedesktop/DBus"),
        (INTERFACE, b"s", BUS_NAME),
        (MEMBER, b"s", member),
        (DESTINATION, b"s", BUS_NAME),
    ):
        fields = pad_to_8(fields) + bytes((code, 1)) + kind + b"\0" + pack_string(value)
    body = b""
    if argument is not None:
        fields = pad_to_8(fields) + bytes((SIGNATURE, 1)) + b"g\0\1s\0"
        body = pack_string(argument)
    head = struct.pack("<cBBBIII", b"l", METHOD_CALL, flags, 1, len(body), serial, len(fields))
    return pad_to_8(head + fields) + body


def pack_string(value: str) -> bytes:
    """A D-Bus string or object path, little endian."""
    data = value.encode("utf-8", "replace")
    return struct.pack("<I", len(data)) + data + b"\0"


def pad_to_8(data: bytes) -> bytes:
    """`data` with NUL bytes up to a multiple of eight."""
    return data + bytes(-len(data) % 8)


def message_length(data: bytes | bytearray, max_bytes: int = MAX_MESSAGE_BYTES) -> int:
    """Length in bytes of the message at the start of `data`; 0: fewer bytes than the fixed header.

    ValueError: not a D-Bus message, or longer than `max_bytes`.
    """
    if len(data) < FIXED_HEADER_BYTES:
        return 0
    if data[0] not in b"lB":
        raise ValueError("not a D-Bus message")
    order = "<" if data[0] == ord("l") else ">"
    body, _, fields = struct.unpack_from(order + "III", data, 4)
    length: int = FIXED_HEADER_BYTES + fields + -fields % 8 + body
    if length > max_bytes:
        raise ValueError(f"a D-Bus message of {length} bytes")
    return length


def parse_message(message: bytes) -> tuple[int, dict[int, str], str]:
    """(Message type, header fields that are strings, the body's first string or "") of one complete
    message.

    ValueError or IndexError: incomplete, or not a D-Bus message.
    """
    length = message_length(message)
    if not length or len(message) < length:
        raise ValueError("not a whole D-Bus message")
    order = "<" if message[0] == ord("l") else ">"
    end = FIXED_HEADER_BYTES + struct.unpack_from(order + "I", message, 12)[0]
    found: dict[int, str] = {}
    position = FIXED_HEADER_BYTES
    while position < end:
        position += -position % 8
        code, kind = message[position], message[position + 2 : position + 3]
        if message[position + 1] != 1:
            raise ValueError("a header field of a structure")
        position += 4
        if kind in (b"s", b"o"):
            found[code], position = string_at(message, position, order)
        elif kind == b"g":
            found[code] = message[position + 1 : position + 1 + message[position]].decode("latin-1")
            position += message[position] + 2
        elif kind == b"u":
            position += 4
        else:
            raise ValueError(f"a header field of type {kind!r}")
    first = ""
    if found.get(SIGNATURE, "").startswith("s"):
        first, _ = string_at(message, end + -end % 8, order)
    return message[1], found, first


def string_at(message: bytes, position: int, order: str) -> tuple[str, int]:
    """The string at `position` (before alignment) and the position after it. ValueError: cut
    off."""
    position += -position % 4
    if position + 4 > len(message):
        raise ValueError("a string that is cut off")
    length = struct.unpack_from(order + "I", message, position)[0]
    end = position + 4 + length
    if end >= len(message):
        raise ValueError("a string that is cut off")
    return message[position + 4 : end].decode("utf-8", "replace"), end + 1
