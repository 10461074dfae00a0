"""``python -m tests.campaign.hostile_esxi KIND``: simulates a malicious ESXi host, as forced
command of a real sshd.

Answers the commands that nictop sends to the shell; each of the `KINDS` makes some of the outputs.
Uses only the standard library, like `hostile_host`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from tests.campaign.hostile_host import Json, write, yield_cpus

MAX_BYTES = 4_000_000
"""Of one output; nictop takes 4 MiB."""
MARK = re.compile(rb"nictop-[0-9a-f]{16}-[0-9]+")
Outputs = Callable[[int], "Mapping[str, bytes | Iterator[bytes]]"]
KINDS: dict[str, Outputs] = {}
"""Name → beginning of a command → its output. The argument: number of the command."""


def kind(function: Outputs) -> Outputs:
    KINDS[f"esxi-{function.__name__}".replace("_", "-")] = function
    return function


def encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def as_many(make: Callable[[int], object], begin: int = 0) -> list[object]:
    """As many values as fit in an output."""
    count = MAX_BYTES // (len(encoded(make(begin + 99_999))) + 1)
    return [make(begin + number) for number in range(count)]


def statistics(**more: object) -> bytes:
    return encoded({"stats": [{"interval": 1.0, "ports": [], **more}]})


def port(number: int, **more: object) -> Json:
    rates = {"rxpps": 8, "rxmbps": 0.1, "rxsize": 1000, "txpps": 8, "txmbps": 0.1, "txsize": 1000}
    return {
        "id": number,
        "name": f"vm{number}.eth0",
        "uplink": "false",
        "switch": "vSwitch0",
        **rates,
        **more,
    }


def nic(number: int) -> Json:
    return {
        "Name": f"vmnic{number}",
        "Driver": "ixgben",
        "LinkStatus": "Up",
        "AdminStatus": "Up",
        "MTU": 1500,
    }


@kind
def smallest_objects(_: int) -> dict[str, bytes]:
    return {"": b"[" + b"{}," * (MAX_BYTES // 3) + b"{}]"}


@kind
def smallest_numbers(_: int) -> dict[str, bytes]:
    return {"": b'{"stats":[' + b"0," * (MAX_BYTES // 2) + b"0]}"}


@kind
def deep_nesting(_: int) -> dict[str, bytes]:
    return {
        "": b"[" * (MAX_BYTES // 2) + b"]" * (MAX_BYTES // 2),
        "net-stats": b'{"x":' * (MAX_BYTES // 5),
    }


@kind
def other_names_of_fields(call: int) -> dict[str, bytes]:
    names = {f"{call}-{number}": 0 for number in range(MAX_BYTES // 16)}
    return {"": encoded([names]), "net-stats": statistics(**names)}


@kind
def long_names_of_fields(_: int) -> dict[str, bytes]:
    names = {"é" * (MAX_BYTES // 6): 0}
    return {"": encoded([names]), "net-stats": statistics(**names)}


@kind
def many_fields_of_nics(call: int) -> dict[str, bytes]:
    """Of each NIC as much as an output may hold."""
    details = {f"{call}-{number}": "x" * 30 for number in range(MAX_BYTES // 60)}
    return {
        "": encoded([details]),
        "network nic list": encoded([{**details, **nic(number)} for number in range(9)]),
        "net-stats": statistics(),
    }


@kind
def other_ports_in_each_reading(call: int) -> dict[str, bytes]:
    ports = [port(2000 * call + number, name=f"vm{call}-{number}.eth0") for number in range(2000)]
    return {"": b"[]", "net-stats": statistics(ports=ports)}


@kind
def many_ports(_: int) -> dict[str, bytes]:
    return {"": b"[]", "net-stats": statistics(ports=as_many(port))}


@kind
def many_worlds(_: int) -> dict[str, bytes]:
    def world(number: int) -> object:
        return {"id": number, "name": f"vmx-vcpu-0:vm{number}", "used": 1e-300}

    return {"": b"[]", "net-stats": statistics(vcpus=dict(enumerate(as_many(world))))}


@kind
def many_worlds_near_the_limit(_: int) -> dict[str, bytes]:
    worlds = {
        str(number): {"id": number, "name": f"vmx-vcpu-0:vm{number}", "used": 5.0}
        for number in range(8192)
    }
    ports = [port(number, vcpu=[number], sys=[number + 4096]) for number in range(2048)]
    return {"": b"[]", "net-stats": statistics(vcpus=worlds, ports=ports)}


@kind
def many_machines_and_functions(_: int) -> dict[str, bytes]:
    def machine(number: int) -> object:
        return {"DisplayName": f"vm{number}", "WorldID": number, "Name": f"vm{number}"}

    def address(number: int) -> object:
        return {"Address": f"0000:{number >> 8 & 255:02x}:{number >> 3 & 31:02x}.{number & 7}",
            "VendorID": 1,
                "DeviceID": 2,
                "VMkernelName": f"PF_0.{number >> 8 & 255}.0_VF_{number & 255}"}  # fmt: skip

    functions = [{"VFID": number, "OwnerWorldID": number + 1} for number in range(256)]
    return {
        "": b"[]",
        "system version get": encoded({"Product": "VMware ESXi", "Version": "7.0.3"}),
        "network nic list": encoded([nic(number) for number in range(64)]),
        "network sriovnic list": encoded([nic(number) for number in range(64)]),
        "network sriovnic vf list": encoded(functions),
        "vm process list": encoded(as_many(machine)),
        "network vm list": encoded(as_many(machine)),
        "hardware pci list": encoded([address(number) for number in range(16_000)]),
        "net-stats": statistics(),
    }


@kind
def output_without_end(_: int) -> dict[str, Iterator[bytes]]:
    return {"": itertools.repeat(b"x" * 65536)}


@kind
def texts_that_are_formats(call: int) -> dict[str, bytes]:
    text = "{0:>20000000}%(x)999999999d[/red](a+)+$\x1b[2J"
    return {
        "": encoded([dict.fromkeys(("Name", "Product", "Version", "Driver", "DisplayName"), text)]),
        "net-stats": statistics(
            ports=[port(number, name=text, switch=text) for number in range(2000)]
        ),
    }


@kind
def no_json(_: int) -> dict[str, bytes]:
    return {"": b"\x1b[2J\xff{" * (MAX_BYTES // 6)}


def main(name: str) -> None:
    yield_cpus()
    command = os.environ["SSH_ORIGINAL_COMMAND"]
    if command != "exec sh":
        words = shlex.split(command)
        first, second = words[words.index("sh") + 6 :][:2]
        write(f"\n{second}-{first} esxi 7.0.3\n".encode())
        return
    call = 0
    for line in sys.stdin.buffer:
        found = MARK.search(line)
        if found is None:
            continue
        call += 1
        for part in answer(name, shlex.split(line.decode()), call):
            write(part)
        write(b"\n%s end 0\n" % found[0])


def answer(name: str, words: list[str], call: int) -> Iterable[bytes]:
    """The begin of the output of a command, and the output."""
    mark, command = words[4], " ".join(words[5 : words.index("</dev/null;")])
    yield f"\n{mark} begin 99999999\n".encode()
    fixed = {
        "uname -n": b"esx1",
        "uname -r": b"7.0.3",
        "uname -m": b"x86_64",
        "id -u": b"0",
        "date +%s": b"1700000000",
    }
    if command in fixed:
        yield fixed[command] + b"\n"
        return
    outputs = KINDS[name](call)
    arguments = command.removeprefix("esxcli --debug --formatter=json ")
    output = next(
        found
        for begin, found in sorted(outputs.items(), reverse=True)
        if arguments.startswith(begin)
    )
    yield from [output] if isinstance(output, bytes) else output


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(sys.argv[1])
