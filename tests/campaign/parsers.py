"""Millions of inputs for all parsers: none raises an undocumented exception, takes half a second,
or leaks memory.

The parsers are all functions of nictop named ``parse_…``, found by introspection, and those in
`MORE`. Their arguments are generated from one text: words from the source of the parser's module,
limits of integer types, structure characters, lines of the files in tests/data, netlink attributes,
all of it repeated, truncated and damaged.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import itertools
import json
import re
import struct
import sys
import tarfile
import tempfile
import time
import zlib
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import msgspec

import nictop
from nictop.errors import NictopError
from nictop.probe.inventory.ethtool.transceivers import (
    CMIS_ADVERTISING,
    CMIS_LANES,
    LOWER,
    SFP_DIAGNOSTICS,
    UPPER,
    parse_module,
)
from nictop.probe.kernel import netlink
from nictop.probe.records import Qdisc, TcAction
from nictop.recording.file.frames import Damaged
from nictop.recording.reader import Recording
from nictop.recording.time_spec import resolve_time
from nictop.rules.cpu_limit import TooLong, limited
from nictop.traffic.generators.builtin import BuiltInOutput
from nictop.traffic.generators.iperf3_json import JsonOutput
from nictop.traffic.generators.iperf3_text import TextOutput
from nictop.wire.codec import decode
from nictop.wire.esxi.inventory import IfindexAllocator, InventoryTime, inventory_of
from nictop.wire.esxi.outputs import BadOutput, parse_json
from nictop.wire.line_reader import LineReader
from tests.campaign.results import Options, Progress, Row
from tests.support.esxi import facts_of, outputs, parse_reading, statistics
from tests.support.namespaces import ROOT

PACKAGE = Path(nictop.__file__).parent
DATA = ROOT / "tests" / "data"
MAX_CPU_SECONDS = 0.5
"""Maximum CPU time for one input."""
MAX_GROWTH_MIB = 48.0
"""Maximum growth of resident memory after the first tenth of the inputs."""
MAX_REPEATED_CHARACTERS = 20_000
"""Maximum length of most inputs that consist of repetitions."""
MAX_SHOWN_CHARACTERS = 120

Maker = Callable[[Random, str], Any]


@dataclass
class Parser:
    """One parser, and its failures."""

    name: str
    call: Callable[[Random, str], None]
    """Generate arguments from a text and call the parser."""
    words: tuple[str, ...]
    """Words from the source of its module."""
    raises: tuple[type[BaseException], ...]
    """Exceptions that it documents."""
    weight: float = 1.0
    """Relative number of inputs; 1: as many as other parsers."""
    inputs: int = 0
    slowest: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)
    """Description of a failure → the first input."""


# ---------------------------------------------------------------------------------------- arguments


def as_bytes(random: Random, text: str) -> bytes:
    return (
        text.encode("utf-8", "surrogateescape")
        if random.random() < 0.8
        else random.randbytes(len(text) % 600)
    )


def attributes(random: Random, text: str, depth: int = 0) -> bytes:
    """Netlink attributes, sometimes nested; of any length and type."""
    parts = []
    for _ in range(random.randrange(6)):
        shape = random.random()
        if shape < 0.3 and depth < 4:
            value = attributes(random, text, depth + 1)
        elif shape < 0.6:
            value = random.choice(NUMBERS).to_bytes(8, sys.byteorder)[: random.choice((1, 2, 4, 8))]
        else:
            value = text[: random.randrange(1, 40)].encode("utf-8", "surrogateescape") + b"\0"
        parts.append(netlink.pack_attribute(random.randrange(1, 70), value[:60_000]))
    data = b"".join(parts)
    if random.random() < 0.2:
        data = data[: random.randrange(len(data) + 1)]
    return data


def message_bytes(random: Random, text: str) -> bytes:
    """Bytes of a kernel structure, of netlink attributes, or of a text."""
    shape = random.random()
    if shape < 0.4:
        return random.randbytes(random.choice((0, 4, 8, 12, 16, 20, 32))) + attributes(random, text)
    if shape < 0.5:
        return struct.pack(
            "=IHHII", random.choice((16, 20, 2**32 - 1)), 2, 0x300, 1, 0
        ) + attributes(random, text)
    return as_bytes(random, text)


def words_of(random: Random, text: str) -> list[str]:
    return text.split()[:200]


ARGUMENTS: dict[str, Maker] = {
    "str": lambda random, text: text,
    "str | None": lambda random, text: text,
    "bytes": message_bytes,
    "bytes | None": message_bytes,
    "bytes | bytearray | memoryview": as_bytes,
    "int": lambda random, text: random.choice((0, 1, 2, 6, 10, 22, 256, 65535)),
    "int | None": lambda random, text: random.choice((None, 0, 2, 8192)),
    "float": lambda random, text: 1.0,
    "bool": lambda random, text: random.random() < 0.5,
    "dict[str, Any]": lambda random, text: {},
    "Iterable[dict[str, Any]]": lambda random, text: [{text: text}, {}],
    "list[str]": words_of,
    "Sequence[str]": words_of,
    "Iterable[str]": lambda random, text: text.splitlines(keepends=True),
    "list[bytes]": lambda random, text: [message_bytes(random, text) for _ in range(3)],
    "list[tuple[int, int, bytes]]": lambda random, text: [
        (random.choice((0, 41)), random.choice((2, 8, 50, 52)), message_bytes(random, text))
        for _ in range(3)
    ],
    "Iterable[bytes]": lambda random, text: [message_bytes(random, text) for _ in range(3)],
    "Iterable[tuple[str, str]]": lambda random, text: [
        ("a.conf", part) for part in text.split("\n\n")
    ],
    "Collection[int]": lambda random, text: (0, 1, 3),
    "set[int]": lambda random, text: {22, 5201},
    "tuple[str, ...]": lambda random, text: tuple(words_of(random, text)),
    "tuple[int, ...]": lambda random, text: (0, 1, 3),
    "dict[int, int]": lambda random, text: {},
    "Attributes": lambda random, text: dict(netlink.iter_attributes(attributes(random, text))),
    "Names": lambda random, text: text.split()[:90],
    "LinkSettings | None": lambda random, text: None,
    "Qdisc": lambda random, text: Qdisc(text[:16], "8001:"),
    "TcAction": lambda random, text: TcAction(text[:16]),
    "Source": lambda random, text: "listened",
    "Mapping[str, int]": lambda random, text: dict.fromkeys(words_of(random, text), 3),
    "Mapping[int, str]": lambda random, text: {1: "lo", 2: text[:15]},
    "Sets": lambda random, text: {text[:15]: ((message_bytes(random, text), "accept", ""),)},
    "object": lambda random, text: [
        {"raw": as_bytes(random, text), "chassis-id": text, "port-id": text}
    ],
    "set[Ids]": lambda random, text: {(0x8086, 0x1572, None, None)},
}
"""Annotation → generator of such an argument from a text."""

BY_RECORDS = {
    "nictop.probe.plan.networkmanager.state.parse_state",
    "nictop.probe.plan.networkmanager.state.parse_bus_profile",
    "nictop.probe.plan.networkmanager.state.parse_bus_device",
    "nictop.probe.counters.links.parse_stats",
    "nictop.probe.inventory.ethtool.transceivers.parse_cmis",
    "nictop.probe.inventory.ethtool.transceivers.parse_cmis_lanes",
    "nictop.probe.inventory.ethtool.transceivers.parse_module",
    "nictop.probe.inventory.ethtool.transceivers.parse_qsfp",
    "nictop.probe.inventory.ethtool.transceivers.parse_sfp",
    "nictop.probe.inventory.ethtool.transceivers.parse_sfp_diagnostics",
    "nictop.probe.inventory.managers.networkmanager_profile.parse_profile",
    "nictop.probe.inventory.managers.networkmanager_profile.parse_ip",
    "nictop.probe.inventory.managers.networkmanager.parse_objects",
    "nictop.probe.inventory.managers.networkmanager.parse_device",
    "nictop.probe.inventory.lldp.frames.parse_802_1",
    "nictop.probe.inventory.lldp.frames.parse_802_3",
    "nictop.probe.inventory.lldp.frames.parse_aggregation",
    "nictop.probe.inventory.lldp.lldpd.parse_neighbour",
    "nictop.probe.inventory.lldp.networkmanager.parse_neighbour",
    "nictop.probe.traffic.sock_diag.parse_address",
    "nictop.probe.inventory.configuration.udev.parse_rule",
}
"""Parsers whose input is the checked output of another parser or D-Bus objects: they are fuzzed
through that parser, or by the tests of their modules."""

HANDLED: dict[str, tuple[type[BaseException], ...]] = {
    "nictop.probe.kernel.dbus_wire.parse_message": (ValueError, IndexError),
    "nictop.probe.events.networkmanager.parse_signal_relevance": (ValueError, IndexError),
    "nictop.probe.plan.grammar.actions.parse_ethtool": (ValueError,),
    "nictop.probe.plan.grammar.actions.parse_ip": (ValueError,),
    "nictop.probe.plan.grammar.actions.parse_link_set": (ValueError,),
    "nictop.probe.plan.grammar.actions.parse_write": (ValueError,),
    "nictop.probe.plan.grammar.nmcli.parse_add": (ValueError,),
    "nictop.probe.plan.grammar.nmcli.parse_nmcli": (ValueError,),
    "nictop.probe.kernel.cpu_columns.parse_cpu_header": (ValueError,),
    "nictop.probe.kernel.cpu_columns.parse_count": (ValueError,),
    "nictop.probe.counters.interrupts.parse_changed_counts": (ValueError,),
    "nictop.probe.counters.interrupts.parse_cpu_list": (ValueError,),
    "nictop.probe.counters.softirqs.parse_online_softirqs": (ValueError,),
    "nictop.traffic.results.store.parse_run": (NictopError,),
}
"""Parsers whose callers handle exceptions that their docstrings do not name."""


def line_of_a_probe(random: Random, text: str) -> None:
    """A line of a real probe with parts replaced, decoded by `nictop.wire.codec`."""
    lines = probe_lines()
    line = random.choice(lines)
    for _ in range(random.randrange(1, 6)):
        begin = random.randrange(len(line))
        new = random.choice(
            (
                text[:40],
                str(random.choice(NUMBERS)),
                "null",
                "{}",
                "[]",
                '""',
                line[begin : begin + 9],
            )
        )
        line = line[:begin] + new + line[begin + random.randrange(12) :]
    decode(line.encode("utf-8", "surrogateescape"))


def stream_of_a_probe(random: Random, text: str) -> None:
    hearing = LineReader()
    data = as_bytes(random, text) + b"\n" + random.choice(probe_lines()).encode() + b"\n"
    cut = random.randrange(len(data))
    for part in (data[:cut], data[cut:]):
        for _ in hearing.feed(part):
            pass


def recording(random: Random, text: str) -> None:
    """The demo recording with bytes replaced, read from begin to end."""
    data = bytearray(demo())
    for _ in range(random.randrange(1, 5)):
        begin = random.randrange(len(data)) if random.random() < 0.5 else random.randrange(200)
        data[begin : begin + random.randrange(9)] = random.randbytes(random.randrange(9))
    if random.random() < 0.3:
        del data[random.randrange(len(data)) :]
    with tempfile.NamedTemporaryFile(prefix="nictop-campaign-", dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        with Recording.open(file.name) as opened:
            with suppress(NictopError):
                resolve_time(text[:30], opened)
            for name in opened.hosts[:1]:
                reader = opened.reader(name, opened.begin)
                for _ in range(50):
                    if reader.next() is None:
                        break


def iperf3_output(random: Random, text: str) -> None:
    output = random.choice((JsonOutput, TextOutput))(1e9)
    for line in text.splitlines()[:200]:
        output.feed(line)
    output.finish()


def damaged_json(random: Random, text: str, known: str) -> str:
    """A JSON text with parts replaced, mostly by other values."""
    for _ in range(random.randrange(1, 6)):
        begin = random.randrange(len(known))
        number = str(random.choice(NUMBERS) * random.choice((1, -1)))
        new = random.choice(
            (text[:40], number, "null", "{}", "[]", '""', "1e308", known[begin : begin + 9])
        )
        places = [
            found.span(1) for found in re.finditer(r"[:\[,] ?([\w.+-]+|\"[^\"]*\")(?=[],}])", known)
        ]
        end = begin + random.randrange(12)
        if places and random.random() < 0.95:
            begin, end = random.choice(places)
        known = known[:begin] + new + known[end:]
    return known


def builtin_output(random: Random, text: str) -> None:
    output = BuiltInOutput(1.0)
    for _ in range(random.randrange(1, 5)):
        output.feed(damaged_json(random, text, random.choice(BUILTIN_LINES)))
    output.finish()


@lru_cache
def esxi_outputs() -> tuple[str, str]:
    return json.dumps(outputs()), json.dumps(statistics())


def outputs_of_esxi(random: Random, text: str) -> None:
    """All outputs of an ESXi host with parts replaced, until they are records of a host."""
    commands, stats = (damaged_json(random, text, one) for one in esxi_outputs())
    values = parse_json(commands.encode("utf-8", "surrogateescape"))
    found = parse_reading(
        parse_json(stats.encode("utf-8", "surrogateescape")), random.choice((None, 1, 8))
    )
    facts = facts_of(values if isinstance(values, dict) else {})
    record = inventory_of(facts, found, IfindexAllocator(), InventoryTime(1.0, 2.0, "start"))
    decode(msgspec.json.encode({"inventory": record}))


def netlink_datagram(random: Random, text: str) -> None:
    data = message_bytes(random, text)
    for kind, flags, _, start, end in netlink.messages(data):
        netlink.raise_error(data, kind, flags, start, end)
    for _, value in netlink.iter_attributes(data):
        netlink.text(value)


def module_pages(random: Random, text: str) -> None:
    """EEPROM of a transceiver module; its first byte is the kind of module."""

    def page() -> bytes:
        return random.choice(
            (
                random.randbytes(128),
                bytes(128),
                b"\xff" * 128,
                random.randbytes(random.randrange(200)),
            )
        )

    lower = (
        bytes([random.choice((3, 0xB, 0xC, 0xD, 0x11, 0x18, 0x19, 0x1E, 0x20, 255))]) + page()[1:]
    )
    parse_module(
        {
            LOWER: lower,
            **{one: page() for one in (UPPER, SFP_DIAGNOSTICS, CMIS_ADVERTISING, CMIS_LANES)},
        }
    )


MORE: dict[str, tuple[Callable[[Random, str], None], tuple[type[BaseException], ...], float]] = {
    "lines of a probe": (line_of_a_probe, (NictopError,), 4.0),
    "stream of a probe": (stream_of_a_probe, (NictopError,), 1.0),
    "recording": (recording, (NictopError,), 0.1),
    "output of iperf3": (iperf3_output, (), 2.0),
    "output of the built-in generator": (builtin_output, (), 2.0),
    "outputs of ESXi": (outputs_of_esxi, (BadOutput,), 1.0),
    "pages of a module": (module_pages, (), 2.0),
    "netlink datagrams": (netlink_datagram, (netlink.NetlinkError,), 2.0),
}
"""Name → function, exceptions that it may raise, relative number of inputs."""

NAMED: dict[str, type[BaseException]] = {
    "ArgumentTypeError": ArgumentTypeError,
    "BadOutput": BadOutput,
    "Damaged": Damaged,
    "NictopError": NictopError,
    "OSError": OSError,
    "ValueError": ValueError,
}


# ------------------------------------------------------------------------------------------ parsers


def functions() -> Iterator[tuple[str, ModuleType, Callable[..., Any]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if parts[-1] == "__main__":
            continue
        module = importlib.import_module(name)
        for key, one in vars(module).items():
            if inspect.isfunction(one) and one.__module__ == name and key.startswith("parse_"):
                yield f"{name}.{key}", module, one


def needed(function: Callable[..., Any]) -> dict[str, str]:
    """Name → annotation of the required parameters."""
    parameters = inspect.signature(function).parameters
    return {
        name: str(one.annotation) for name, one in parameters.items() if one.default is one.empty
    }


def call_with(
    function: Callable[..., Any], makers: dict[str, Maker], random: Random, text: str
) -> None:
    result = function(**{name: make(random, text) for name, make in makers.items()})
    if inspect.isgenerator(result):
        for _ in result:
            pass


def documented(function: Callable[..., Any]) -> tuple[type[BaseException], ...]:
    """Exceptions that are named in its docstring."""
    return tuple(kind for name, kind in NAMED.items() if name in (function.__doc__ or ""))


def parsers() -> list[Parser]:
    found = []
    for name, module, function in functions():
        if name in BY_RECORDS:
            continue
        call = partial(
            call_with, function, {key: ARGUMENTS[one] for key, one in needed(function).items()}
        )
        found.append(
            Parser(name, call, words_in(module), documented(function) + HANDLED.get(name, ()))
        )
    for name, (tried, raises, weight) in MORE.items():
        found.append(Parser(name, tried, words_in(sys.modules[__name__]), raises, weight))
    return found


# -------------------------------------------------------------------------------------------- texts


NUMBERS = (
    0,
    1,
    2,
    9,
    63,
    64,
    255,
    256,
    4095,
    8191,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63,
    2**64 - 1,
)
MARKS = " \t\n\r,;:=-+*/\\|&<>()[]{}\"'#!?@%$~^._\0\x1b\x7f\u202e\udcffé漢٣²"
BUILTIN_LINES = (
    '{"event": "start", "sender": true, "length": 1448, "snd_mss": 1448, "response": 64, '
    '"congestion_control": "bbr"}',
    '{"event": "interval", "start": 0.0, "end": 1.0, "bytes": 1000, "streams": [1, 2], '
    '"retransmits": 3, "packets": 4,'
    ' "lost": 1, "jitter": 0.001, "omitted": false}',
    '{"event": "interval", "start": 0.0, "end": 1.0, "lost": 0, "latency": {"sum": 900, '
    '"buckets": [3, 1, 5, 2]},'
    ' "connect": {"sum": 9, "buckets": [0, 1]}}',
    '{"event": "end", "seconds": 1.0, "bytes": 1000, "retransmits": 3, "packets": 4, "lost": 1, '
    '"jitter": 0.001}',
    '{"event": "end", "seconds": 1.0, "stopped": "why", "latency": {"sum": 900, "buckets": [3, 1, '
    "5, 2]}}",
    '{"event": "error", "text": "why"}',
)
LINE_LIKE = (
    "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd",
    "[  5]   0.00-1.00   sec  1.10 GBytes  9.41 Gbits/sec    0   1.32 MBytes",
    '{"event":"interval","data":{"streams":[{"socket":5,"start":0,"end":1,"bytes":1}],"sum":{}}}',
    "            CPU0       CPU1       \n  24:        100        200   PCI-MSI-edge      "
    "virtio0-input.0\n",
    "cpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3\nintr 5 5 5\n",
    "network:\n  version: 2\n  ethernets:\n    ens3: {dhcp4: true, match: {name: 'en*'}}\n",
    "[Match]\nName=en* !lo\n[Network]\nDHCP=yes\n[SR-IOV]\nVirtualFunction=0\n",
    "6,1234,5678901,-;igb 0000:3b:00.0: Detected Tx Unit Hang\n DEVICE=+pci:0000:3b:00.0\n",
    "  sl  local_address rem_address   st tx_queue rx_queue\n   0: 0100007F:1451 00000000:0000 0A "
    "0:0",
    "0-8191,10-4294967295",
    "ffffffff,00000000,ffffffff",
    "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
)


def words_in(module: ModuleType) -> tuple[str, ...]:
    """String literals in the source of a module, and the parts of its regular expressions."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if 0 < len(text) < 60 and "\n\n" not in text:
                found[text] = None
                for part in re.findall(r"[A-Za-z_./-]{2,}", text):
                    found[part] = None
    return tuple(found)


@lru_cache
def probe_lines() -> tuple[str, ...]:
    lines = (
        line
        for path in sorted((DATA / "lines").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    )
    return tuple(sorted(lines, key=len)[:200])


@lru_cache
def demo() -> bytes:
    return (PACKAGE / "recording" / "demo.nictop").read_bytes()


@lru_cache
def captured() -> tuple[str, ...]:
    """Texts of small files of captured hosts."""
    found = []
    for path in sorted(DATA.glob("*.tar.gz")):
        with tarfile.open(path) as tar:
            for member in tar:
                file = (
                    tar.extractfile(member) if member.isfile() and 0 < member.size < 6000 else None
                )
                if file is not None:
                    found.append(file.read().decode("utf-8", "surrogateescape"))
    return tuple(found[:: max(1, len(found) // 400)]) or ("",)


def text_for(parser: Parser, random: Random) -> str:
    shape = random.random()
    if shape < 0.2:
        text = random.choice((random.choice(captured()), random.choice(LINE_LIKE)))
    else:
        parts = [part(parser, random) for _ in range(random.choice((1, 2, 4, 8, 16, 40)))]
        text = random.choice(("", " ", "\n", ":", "=", ",")).join(parts)
    for _ in range(random.randrange(4)):
        text = damaged(text, parser, random)
    if random.random() < 0.02:
        text = text[: random.randrange(1, 60)] * (
            MAX_REPEATED_CHARACTERS // max(1, min(60, len(text)))
        )
    return text[: MAX_REPEATED_CHARACTERS * 2]


def part(parser: Parser, random: Random) -> str:
    shape = random.random()
    if shape < 0.45 and parser.words:
        return random.choice(parser.words)
    if shape < 0.6:
        return str(random.choice(NUMBERS) * random.choice((1, 1, -1)))
    if shape < 0.8:
        return random.choice(MARKS)
    if shape < 0.9:
        return f"{random.choice(NUMBERS):x}"
    return "".join(chr(random.randrange(32, 127)) for _ in range(random.randrange(8)))


def damaged(text: str, parser: Parser, random: Random) -> str:
    begin = random.randrange(len(text) + 1)
    end = begin + random.choice((0, 1, 4, 30))
    return text[:begin] + part(parser, random) * random.choice((1, 1, 2, 50)) + text[end:]


# ---------------------------------------------------------------------------------------------- run


def run(
    number: int, seed: int, report_progress: Callable[[int, int], None] = lambda done, faults: None
) -> tuple[list[Parser], float]:
    """Run `number` inputs over all parsers; the parsers, and the growth of memory in MiB."""
    all_of_them = parsers()
    random = Random(seed)
    begin_memory, done = 0.0, 0
    for count in itertools.count():
        for parser in all_of_them:
            if done >= number:
                return all_of_them, memory() - begin_memory
            if parser.weight < 1 and random.random() > parser.weight:
                continue
            for _ in range(max(1, int(parser.weight))):
                attempt(parser, random)
                done += 1
        if not begin_memory and done >= number // 10:
            gc.collect()
            begin_memory = memory()
        if count % 20 == 0:
            report_progress(done, sum(len(one.faults) for one in all_of_them))
    raise AssertionError("unreachable")


def attempt(parser: Parser, random: Random) -> None:
    text = text_for(parser, random)
    parser.inputs += 1
    begin = time.thread_time()
    try:
        limited(2 * MAX_CPU_SECONDS, lambda: parser.call(random, text))
    except TooLong:
        parser.faults.setdefault(f"more than {2 * MAX_CPU_SECONDS:g} s", shown(text))
    except parser.raises:
        pass
    except Exception as error:
        parser.faults.setdefault(
            f"{type(error).__name__}: {str(error)[:MAX_SHOWN_CHARACTERS]}", shown(text)
        )
    took = time.thread_time() - begin
    parser.slowest = max(parser.slowest, took)
    if took > MAX_CPU_SECONDS:
        parser.faults.setdefault(f"more than {MAX_CPU_SECONDS:g} s", shown(text))


def shown(text: str) -> str:
    checksum = zlib.crc32(text.encode("utf-8", "replace"))
    return f"{json.dumps(text[:MAX_SHOWN_CHARACTERS])} ({len(text)} characters, CRC {checksum:08x})"


def memory() -> float:
    """Resident memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def parsing(options: Options, progress: Progress) -> Iterator[Row]:
    """All parsers, `options.inputs` inputs with a new seed."""
    begin, seed = time.monotonic(), time.time_ns() & 0xFFFFFFFF
    tried, growth = run(
        options.inputs,
        seed,
        lambda done, faults: progress.show(f"parsers: {done:,} inputs, {faults} faults"),
    )
    slowest = max(tried, key=lambda one: one.slowest)
    faults = [(one.name, what, text) for one in tried for what, text in one.faults.items()]
    text = (
        f"{sum(one.inputs for one in tried):,} inputs over {len(tried)} parsers (seed {seed}), "
        f"{len(faults)} faults; "
        f"slowest {slowest.slowest * 1e3:.0f} ms CPU ({slowest.name}), {growth:+.0f} MiB"
    )
    yield Row("parsers", text, bool(faults) or growth > MAX_GROWTH_MIB, time.monotonic() - begin)
    for name, what, text in faults:
        yield Row("parsers", f"  {name}: {what} of {text}", True, 0.0)
