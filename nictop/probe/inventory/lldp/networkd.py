"""LLDP neighbours that systemd-networkd has received → `LldpNeighbour` by ifindex.

Up to systemd 256 they are in /run/systemd/netif/lldp/IFINDEX: for each neighbour the length of its
newest frame (64 bits, little endian) and the frame. Later they are asked for over varlink
(io.systemd.Network.GetLLDPNeighbors), which has fewer of their values. By default networkd keeps
neighbours that are routers or bridges (``LLDP=routers-only``).
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

from nictop.probe.inventory.lldp.frames import capability_names, parse_frame, vlan_id
from nictop.probe.kernel.sysfs import parse_integer, unreadable_from_error
from nictop.probe.kernel.waiting import Wait
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import LldpNeighbour, Unreadable

METHOD = "io.systemd.Network.GetLLDPNeighbors"
VARLINK_TIMEOUT, MAX_VARLINK_SECONDS = 1.0, 5.0
"""Seconds for the whole answer on an idle and on a busy host."""
MAX_FILE_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_NEIGHBOURS = 8
"""Of one NIC."""

Neighbours = dict[int, tuple[LldpNeighbour, ...]]


def read_networkd_lldp(run: str = "/run") -> tuple[Neighbours, Unreadable | None]:
    """(neighbours by ifindex, why they could not be read). To be called only if networkd runs."""
    folder = os.path.join(run, "systemd/netif/lldp")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return _ask(os.path.join(run, "systemd/netif/io.systemd.Network"))
    except OSError as error:
        return {}, unreadable_from_error(error, folder)
    found: Neighbours = {}
    for name in names:
        ifindex = parse_integer(name)
        if ifindex is None or ifindex <= 0:
            continue
        neighbours = _read_file(os.path.join(folder, name))
        if neighbours:
            found[ifindex] = neighbours
    return dict(sorted(found.items())), None


def _read_file(path: str) -> tuple[LldpNeighbour, ...]:
    """() if it was removed in between."""
    try:
        with open(path, "rb") as file:
            written, content = os.fstat(file.fileno()).st_mtime, file.read(MAX_FILE_BYTES)
    except OSError:
        return ()
    return parse_lldp_file(content, max(0.0, time.time() - written))


def parse_lldp_file(content: bytes, age: float | None = None) -> tuple[LldpNeighbour, ...]:
    """`age`: seconds since the file was written, at the newest frame of any neighbour: so of one
    alone it is known."""
    frames: list[bytes] = []
    position = 0
    while position + 8 <= len(content) and len(frames) < MAX_NEIGHBOURS:
        end = position + 8 + int.from_bytes(content[position : position + 8], "little")
        if end > len(content):
            break
        frames.append(content[position + 8 : end])
        position = end
    parsed = [
        one for one in (parse_frame(frame, "networkd") for frame in frames) if one is not None
    ]
    if len(parsed) == 1 and age is not None:
        return (replace(parsed[0], age=age),)
    return tuple(parsed)


def _ask(path: str) -> tuple[Neighbours, Unreadable | None]:
    """Over varlink; a networkd without the method has none."""
    request = json.dumps({"method": METHOD, "parameters": {}, "more": True}).encode() + b"\0"
    answers = bytearray()
    wait = Wait(VARLINK_TIMEOUT, MAX_VARLINK_SECONDS)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(VARLINK_TIMEOUT)
            channel.connect(path)
            channel.sendall(request)
            while not is_complete(answers):
                data = receive(channel, wait)
                answers += data
                if not data or len(answers) > MAX_ANSWER_BYTES:
                    break
    except (FileNotFoundError, ConnectionRefusedError):
        return {}, None
    except (socket.timeout, TimeoutError):  # Python 3.9: socket.timeout is not TimeoutError
        return {}, Unreadable(
            "failed", f"systemd-networkd did not answer within {VARLINK_TIMEOUT:g} s"
        )
    except OSError as error:
        return {}, unreadable_from_error(error, path)
    return parse_answers(bytes(answers)), None


def receive(channel: socket.socket, wait: Wait) -> bytes:
    """The next part. Raises OSError, of which TimeoutError is one since Python 3.3;
    `socket.timeout` is not."""
    while True:
        channel.settimeout(wait.remaining())
        try:
            return channel.recv(64 * 1024)
        except socket.timeout:
            wait.extend()


def is_complete(answers: bytes | bytearray) -> bool:
    """The last answer ends, and none follows it."""
    if not answers.endswith(b"\0"):
        return False
    last = _decoded(bytes(answers).split(b"\0")[-2])
    return last.get("continues") is not True


def parse_answers(answers: bytes) -> Neighbours:
    """The answers, each ended by NUL; what is malformed is left out."""
    found: Neighbours = {}
    for answer in answers.split(b"\0"):
        for ifindex, neighbours in _entries(_decoded(answer)):
            parsed = map(_parse_neighbour, neighbours[:MAX_NEIGHBOURS])
            known = tuple(neighbour for neighbour in parsed if neighbour is not None)
            if known:
                found[ifindex] = known
    return dict(sorted(found.items()))


def _entries(answer: dict[str, Any]) -> Iterator[tuple[int, list[Any]]]:
    """(ifindex, neighbours) of an answer."""
    parameters = answer.get("parameters")
    if not isinstance(parameters, dict):
        return
    entries = parameters.get("Neighbors")
    if not isinstance(entries, list):
        return
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        ifindex, neighbours = entry.get("InterfaceIndex"), entry.get("Neighbors")
        if type(ifindex) is int and ifindex > 0 and isinstance(neighbours, list):
            yield ifindex, neighbours


def _decoded(part: bytes) -> dict[str, Any]:
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return value


def _parse_neighbour(part: object) -> LldpNeighbour | None:
    if not isinstance(part, dict):
        return None
    chassis, port = _text(part, "ChassisID"), _text(part, "PortID")
    if not chassis or not port:
        return None
    enabled, vlan = part.get("EnabledCapabilities"), part.get("VlanID")
    capabilities: tuple[str, ...] = ()
    if type(enabled) is int and enabled > 0:
        capabilities = capability_names(enabled)
    pvid = None
    if type(vlan) is int and 0 <= vlan < 4096:
        pvid = vlan_id(vlan.to_bytes(2, "big"))
    return LldpNeighbour(
        "networkd",
        chassis=chassis,
        port=port,
        port_description=_text(part, "PortDescription"),
        system_name=_text(part, "SystemName"),
        system_description=_text(part, "SystemDescription"),
        capabilities=capabilities,
        pvid=pvid,
    )


def _text(part: dict[str, Any], key: str) -> str:
    value = part.get(key)
    if not isinstance(value, str):
        return ""
    return value
