"""``python3 -m tests.support.capture_host FILE.tar.gz``, as root on a host: what nictop's probe
reads there, and what it says of it, for tests on other machines.

In the file: ``sys/ proc/ etc/``, what its readers opened; ``netlink.json``, payloads of dumps;
``cmd/``, output of lspci, ip and ethtool; ``lines.jsonl``, lines of the probe; ``before/`` and
``after/``, files with counters, read before and after them. Names, addresses and machine-id stay:
for guests that were made for it.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nictop.probe.counters.reader import CounterReader
from nictop.probe.inventory.collect import take_inventory
from nictop.probe.inventory.ethtool import reader as ethtool
from nictop.probe.kernel.netlink import NETLINK_GENERIC, NETLINK_ROUTE, NetlinkSocket, pack_u32
from nictop.probe.kernel.rtnetlink import (
    IFADDRMSG,
    IFINFOMSG,
    IFLA_EXT_MASK,
    RTEXT_FILTER_VF,
    RTM_GETADDR,
    RTM_GETLINK,
)
from nictop.wire.probe_process import probe_command

ROOTS = (
    *("/sys/", "/proc/cpuinfo", "/proc/irq/", "/proc/interrupts", "/etc/os-release"),
    "/etc/machine-id",
)
"""Of these the files are copied."""
COUNTERS = ("stat", "softirqs", "net/softnet_stat", "interrupts", "net/dev")
"""Below /proc."""
OPTIONS = ("", "-k", "-g", "-l", "-c", "-a", "-x", "-i", "-S", "--show-priv-flags")
MAX_FILE_BYTES = 1 << 16


class Accesses:
    """The paths that Python opens, lists, resolves or looks at; for the rest of this process."""

    def __init__(self) -> None:
        self.opened: set[str] = set()
        self.listed: set[str] = set()
        self.seen: set[str] = set()
        sys.addaudithook(self._note)
        for name in ("stat", "lstat", "readlink", "access"):
            setattr(os, name, self._noting(getattr(os, name)))

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        kinds = {"open": self.opened, "os.listdir": self.listed, "os.scandir": self.listed}
        if event in kinds and isinstance(arguments[0], str):
            kinds[event].add(os.path.normpath(arguments[0]))

    def _noting(self, function: Any) -> Any:
        def call(path: Any, *arguments: Any, **names: Any) -> Any:
            if isinstance(path, str):
                self.seen.add(os.path.normpath(path))
            return function(path, *arguments, **names)

        return call


class Replies:
    """A netlink socket that remembers what it received."""

    def __init__(self, netlink: NetlinkSocket) -> None:
        self._netlink = netlink
        self.bodies: list[str] = []

    def generic(self, *arguments: Any, **names: Any) -> list[bytes]:
        found = self._netlink.generic(*arguments, **names)
        self.bodies += [body.hex() for body in found]
        return found


def netlink_payloads(ifindexes: Sequence[int]) -> dict[str, Any]:
    """In the form that tests of parsers read: hexadecimal."""
    queries = {
        "links": (
            RTM_GETLINK,
            IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_VF),
        ),
        "addresses": (RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)),
    }
    result: dict[str, Any] = {}
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for name, (kind, query) in queries.items():
            result[name] = [payload.hex() for _, payload in netlink.dump(kind, query)]
    parts: dict[str, list[str]] = {}
    with NetlinkSocket(NETLINK_GENERIC) as netlink:
        replies: Any = Replies(netlink)
        ethtool.read_string_sets(replies)
        parts["strings"] = replies.bodies
        for part, command, flags in ethtool.NETLINK_COMMANDS:
            replies = Replies(netlink)
            ethtool.request_all(replies, command, flags, ifindexes)
            parts[part] = replies.bodies
    return {**result, "ethtool": parts}


def probe_lines(watch: Sequence[int]) -> bytes:
    """Of a real probe that watches links: its hello, the first inventory, and four counters: the
    first two and two after the inventory."""
    process = subprocess.Popen(
        probe_command(sys.executable, "--interval", "1", "--eager"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        process.stdin.write(json.dumps({"watch": list(watch), "machine": True}).encode() + b"\n")
        process.stdin.flush()
        hello = process.stdout.readline()
        first, inventory = [], b""
        while not inventory:
            line = process.stdout.readline()
            if line.startswith(b'{"counters"'):
                first.append(line)
            elif line.startswith(b'{"inventory"'):
                inventory = line
        last = [process.stdout.readline() for _ in range(2)]
        process.stdin.close()
        process.stdout.read()
    return b"".join((hello, *first[:2], inventory, *last))


def output(*words: str) -> Iterator[tuple[str, bytes]]:
    """Suffix of the file and content: what the command printed, and ``.err`` if it failed."""
    done = subprocess.run(words, capture_output=True, check=False)
    yield "", done.stdout
    if done.returncode:
        yield ".err", done.stderr


def counters(folder: str) -> Iterator[tuple[str, bytes]]:
    for name in COUNTERS:
        yield f"{folder}/{name}", Path("/proc", name).read_bytes()


def tool_outputs(names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    commands = {
        "lspci-Dvvv": ("lspci", "-Dvvv"),
        "lspci-Dnnk": ("lspci", "-Dnnk"),
        "ip-j-s-d-link": ("ip", "-j", "-s", "-d", "link"),
        "ip-j-addr": ("ip", "-j", "addr"),
        "getconf-PAGE_SIZE": ("getconf", "PAGE_SIZE"),
        "uname-m": ("uname", "-m"),
    }
    for name in names:
        for option in OPTIONS:
            words = ("ethtool", *([option] if option else ()), name)
            commands[f"ethtool/{name}{option}"] = words
    for file, command in commands.items():
        for suffix, content in output(*command):
            yield f"cmd/{file}{suffix}", content


def copied(accesses: Accesses) -> Iterator[tuple[str, bytes | str | None]]:
    """Path and content; of a symbolic link its target, of a directory None."""
    wanted = {*accesses.opened, *accesses.seen}
    for folder in accesses.listed:
        if folder.startswith(ROOTS) and os.path.isdir(folder):
            wanted.update(os.path.join(folder, name) for name in os.listdir(folder))
    done: set[str] = set()
    for path in sorted(path for path in wanted if path.startswith(ROOTS)):
        yield from copied_with_parents(path, done, is_read=path in accesses.opened)


def copied_with_parents(
    path: str, done: set[str], *, is_read: bool
) -> Iterator[tuple[str, bytes | str | None]]:
    """The file and every symbolic link on the way to it."""
    place = ""
    for part in path.strip("/").split("/"):
        place = f"{place}/{part}"
        if os.path.islink(place):
            if place not in done:
                done.add(place)
                yield place, os.readlink(place)
            place = os.path.realpath(place)
    if place in done or not os.path.exists(place):
        return
    if os.path.isdir(place):
        done.add(place)
        yield place, None
        return
    done.add(place)
    content = b""
    if is_read or path.startswith("/proc"):
        try:
            content = Path(place).read_bytes()[:MAX_FILE_BYTES]
        except OSError:
            return
    yield place, content


def main(file: str) -> None:
    physical = [
        name for name in sorted(os.listdir("/sys/class/net"))
        if os.path.exists(f"/sys/class/net/{name}/device")
    ]  # fmt: skip
    indexes = {name: socket.if_nametoindex(name) for name in physical}
    entries: list[tuple[str, bytes | str | None]] = [*counters("before")]
    entries.append(("lines.jsonl", probe_lines(list(indexes.values()))))
    entries += counters("after")
    everyone = [index for index, _ in socket.if_nameindex()]
    entries.append(("netlink.json", json.dumps(netlink_payloads(everyone)).encode()))
    entries += tool_outputs(physical)
    accesses = Accesses()
    take_inventory("request")
    CounterReader().read()
    entries += copied(accesses)
    with tarfile.open(file, "w:gz") as tar:
        for path, content in entries:
            add(tar, path.lstrip("/"), content)


def add(tar: tarfile.TarFile, path: str, content: bytes | str | None) -> None:
    entry = tarfile.TarInfo(path)
    if content is None:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    elif isinstance(content, str):
        entry.type, entry.linkname = tarfile.SYMTYPE, content
    else:
        entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)


if __name__ == "__main__":
    main(sys.argv[1])
