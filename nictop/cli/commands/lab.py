"""``nictop lab``: a network of namespaces of this machine, to try every view, fix and test in."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from nictop.cli.arguments import add_allow_changes, number_between, whole_number
from nictop.cli.output import print_status
from nictop.cli.terminal import require_terminal
from nictop.errors import NictopError
from nictop.lab.request import (
    DEFAULT_MTU,
    FAULTS,
    JOINS,
    MAX_DELAY_MS,
    MAX_LOSS_PERCENT,
    MAX_MTU,
    MAX_RATE_MBIT,
    MAX_VLAN_ID,
    MIN_DELAY_MS,
    MIN_LOSS_PERCENT,
    MIN_MTU,
    MIN_RATE_MBIT,
    LabRequest,
    checked,
    namespace_names,
    summary,
)

EPILOG = """\
examples:
  sudo nictop lab                                 two hosts, watched
  sudo nictop lab --fault mtu --allow-changes     4 shows the fault, f repairs it
  sudo nictop lab --join bridge --hosts 3 --rate 100
  sudo nictop lab --delay 20 --loss 1 -- bash     a shell in the lab
  sudo nictop lab --fault mtu -- nictop check local/netns:a local/netns:b

Hosts of the lab: local/netns:a, local/netns:b, local/netns:c (--hosts 3) and
local/netns:switch (--join bridge). No other process sees them; another terminal
enters with: sudo nsenter --mount --target PID (of nictop, or of COMMAND).

Faults of netns:b:
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Watch network namespaces that are made for it on this machine, joined by veth\n"
        "or by a bridge: every view, fix and test can be tried without a VM. They end\n"
        "with nictop, however it ends. Needs root, or user namespaces."
    )
    parser.epilog = EPILOG + "".join(f"  {name:19}{text}\n" for name, text in FAULTS.items())
    parser.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="after --: run it in the lab, instead of the live screen",
    )
    network = parser.add_argument_group("network")
    network.add_argument(
        "--hosts",
        dest="host_count",
        type=int,
        choices=(2, 3),
        default=2,
        help="default: %(default)s; three by veth: b forwards between a and c",
    )
    network.add_argument("--join", choices=JOINS, default=JOINS[0], help="default: %(default)s")
    for option, metavar, kind, text in (
        ("--delay", "MS", _delay, "delay of what each host sends, in milliseconds"),
        ("--loss", "PERCENT", _loss, "loss of what each host sends"),
        ("--rate", "MBIT", _rate, "largest rate of each host, in Mb/s"),
        ("--vlan", "ID", _vlan_id, "the hosts use this VLAN"),
    ):
        network.add_argument(option, type=kind, default=0, metavar=metavar, help=text)
    network.add_argument(
        "--mtu",
        type=_mtu,
        default=DEFAULT_MTU,
        metavar="MTU",
        help=f"of all NICs, {MIN_MTU} (which IPv6 needs) to {MAX_MTU} (default: %(default)s)",
    )
    network.add_argument(
        "--fault",
        action="append",
        choices=tuple(FAULTS),
        default=[],
        metavar="FAULT",
        help="make one in netns:b, see below; may be repeated",
    )
    add_allow_changes(parser)


def _delay(text: str) -> float:
    return number_between(text, MIN_DELAY_MS, MAX_DELAY_MS, "a number of milliseconds")


def _loss(text: str) -> float:
    return number_between(text, MIN_LOSS_PERCENT, MAX_LOSS_PERCENT, "a number of percent")


def _rate(text: str) -> float:
    return number_between(text, MIN_RATE_MBIT, MAX_RATE_MBIT, "a number of Mb/s")


def _vlan_id(text: str) -> int:
    return whole_number(text, MAX_VLAN_ID, f"a VLAN (1 to {MAX_VLAN_ID})")


def _mtu(text: str) -> int:
    number = whole_number(text, MAX_MTU, f"an MTU ({MIN_MTU} to {MAX_MTU})")
    if number < MIN_MTU:
        raise argparse.ArgumentTypeError(f"{text!r} is not an MTU ({MIN_MTU} to {MAX_MTU})")
    return number


def run(options: argparse.Namespace) -> int:
    request = checked(
        LabRequest(
            hosts=options.host_count,
            join=options.join,
            delay_ms=options.delay,
            loss_percent=options.loss,
            rate_mbit=options.rate,
            vlan=options.vlan,
            mtu=options.mtu,
            faults=tuple(options.fault),
        )
    )
    if not options.words:
        require_terminal("without a terminal, run a command in the lab: nictop lab -- COMMAND")
    from nictop.lab.build import build_lab
    from nictop.lab.mounts import enter_own_mounts

    enter_own_mounts()
    build_lab(request)
    if options.words:
        print_status(summary(request))
        return _become(options.words)
    return _watch(namespace_names(request), options)


def _become(words: Sequence[str]) -> int:
    """This process is the command from then on: it has the signals and the exit code of it."""
    try:
        os.execvp(words[0], list(words))
    except OSError as error:
        raise NictopError(f"cannot start {words[0]}: {error.strerror}") from None


def _watch(names: Sequence[str], options: argparse.Namespace) -> int:
    from nictop.cli.commands.live import watch
    from nictop.hosts.specification import parse_host

    return watch([parse_host(f"netns:{name}=local/netns:{name}") for name in names], options)
