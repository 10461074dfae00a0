"""The command line of ``nictop traffic``, and its `RunRequest`.

Pure. Invalid values and options that exclude each other raise NictopError before any host is connected to.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nictop.cli.arguments import DEFAULT_READ_INTERVAL_SECONDS, HOSTS_HELP, add_access_options
from nictop.errors import NictopError
from nictop.model.text.words import count_noun
from nictop.traffic.plan import quantities as amounts
from nictop.traffic.plan.plan import Direction
from nictop.traffic.plan.request import RunRequest, Values, parse_values
from nictop.traffic.plan.validation import validate_request
from nictop.traffic.plan.variables import VARIABLES

EPILOG = """\
examples:
  nictop traffic vm1 vm2                       10 s from vm1 to vm2
  nictop traffic vm1 vm2 --observe root@pve    also what it costs the hypervisor
  nictop traffic vm1 vm2 --reverse --streams 4
  nictop traffic vm1 vm2 --client-nic ens224 --server-nic ens224
  nictop traffic vm1 vm2 --repeat 5 --sweep length=512,4K,128K,1M
  nictop traffic vm1 vm2 --repeat 5 --compare queues=/1,/4 \\
      --between 'ssh root@vm2 ethtool -L ens3 combined ...'
  nictop traffic --self-test                   without a second host
  nictop traffic --list                        what has been measured

Exit codes: 0 done, 2 usage, or an option that a host cannot do; 3 no answer
from a host; 4 the run failed; 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """In groups, each for one question."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop traffic [OPTIONS] CLIENT SERVER\n       nictop traffic [OPTIONS] --self-test | --list"
    parser.description = (
        "Send traffic from one host to another and tell what arrives, what holds it\n"
        "back, what it costs each host, and which NICs carried it. Changes nothing there\n"
        "and leaves nothing behind; iperf3 where both hosts have it, else a generator of\n"
        "its own."
    )
    parser.epilog = EPILOG
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=f"{HOSTS_HELP.partition(';')[0]}")
    parser.add_argument("server", nargs="?", metavar="SERVER", help="the same; it is sent to")
    add_access_options(parser)
    _add_ends(parser.add_argument_group("ends"))
    _add_load(parser.add_argument_group("load"))
    _add_several(parser.add_argument_group("several runs"))
    _add_output(parser.add_argument_group("output"))


def _add_ends(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--observe", action="append", default=[], metavar="HOST", help="look at this host too (several times)"
    )
    for side in ("client", "server"):
        group.add_argument(f"--{side}-nic", default="", metavar="NIC", help=f"of the {side}, as that host names it")
        group.add_argument(f"--{side}-address", default="", metavar="IP", help=f"of the {side}")
    version = group.add_mutually_exclusive_group()
    version.add_argument("-4", "--ipv4", dest="ip_version", action="store_const", const=4, help="IPv4 only")
    version.add_argument("-6", "--ipv6", dest="ip_version", action="store_const", const=6, help="IPv6 only")
    group.add_argument("--port", metavar="PORT", help="first one to try (default 5201)")
    group.add_argument(
        "--self-test", action="store_true", help="no hosts: between two network namespaces here, or over loopback"
    )


def _add_load(group: argparse._ArgumentGroup) -> None:
    way = group.add_mutually_exclusive_group()
    way.add_argument("--reverse", action="store_true", help="the server sends")
    way.add_argument("--bidirectional", action="store_true", help="both send (iperf3 3.7)")
    group.add_argument("--time", metavar="SECONDS", help="that count (default 10)")
    group.add_argument("--omit", metavar="SECONDS", help="before that, which do not (default 0)")
    group.add_argument("--streams", metavar="N", help="connections at once (default 1)")
    group.add_argument("--udp", action="store_true", help="UDP instead of TCP")
    group.add_argument("--bitrate", metavar="RATE", help="of each stream: 500M, 2.5G (bits per second)")
    group.add_argument("--length", metavar="SIZE", help="of a message or datagram: 512, 128K, 1M; to 8M without iperf3")
    group.add_argument("--mss", metavar="BYTES", help="largest TCP segment")
    group.add_argument("--window", metavar="SIZE", help="of the socket buffers")
    group.add_argument("--congestion", metavar="NAME", help="congestion control: cubic, bbr, ...")
    group.add_argument("--dscp", metavar="DSCP", help="ef, af41, 46, 0x2e")
    group.add_argument("--client-cpu", metavar="CPU", help="that the client runs on")
    group.add_argument("--server-cpu", metavar="CPU", help="that the server runs on")
    group.add_argument("--zerocopy", action="store_true", help="send without copying")
    group.add_argument(
        "--generator",
        choices=("auto", "iperf3", "builtin"),
        default="auto",
        help="auto: iperf3 where both hosts have one that can do it (default)",
    )


def _add_several(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--repeat", metavar="N", help="runs of each set-up (default 1); five are worth having")
    group.add_argument("--rest", metavar="SECONDS", help="between two runs (default 2)")
    group.add_argument(
        "--sweep", metavar="WHAT=V,V,...", help=f"a run for each value of one of: {', '.join(VARIABLES)}"
    )
    group.add_argument("--compare", metavar="WHAT=A,B", help="runs of A and B by turns, and a verdict")
    group.add_argument(
        "--between",
        default="",
        metavar="COMMAND",
        help="shell command here that sets what nictop does not: queues, mtu, setup",
    )
    group.add_argument("--label", default="", metavar="WORDS", help="name under which the results are kept")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--plain", action="store_true", help="no screen: progress on stderr, result on stdout")
    group.add_argument(
        "--format", choices=("text", "json", "markdown"), help="of the result; without a screen (default: text)"
    )
    group.add_argument("--list", action="store_true", help="list the results that are kept, and exit")
    group.add_argument("--schema", action="store_true", help="print only the JSON schema of --format json")


_PARSERS: dict[str, Callable[[str, str], int | float]] = {
    "time": amounts.parse_whole_number, "omit": amounts.parse_whole_number, "streams": amounts.parse_whole_number,
    "repeat": amounts.parse_whole_number, "port": amounts.parse_whole_number, "bitrate": amounts.parse_bit_rate,
    "length": amounts.parse_byte_count, "mss": amounts.parse_byte_count, "window": amounts.parse_byte_count,
    "dscp": amounts.parse_dscp,
    "client_cpu": amounts.parse_cpu, "server_cpu": amounts.parse_cpu, "rest": amounts.parse_seconds,
}  # fmt: skip
"""Name of an option and field of the request → parser of its value."""


def request_of(options: argparse.Namespace, *, plain: bool) -> RunRequest:
    """With the hosts as they were typed. `plain`: one line every `--interval` seconds, by default one second."""
    typed = {name: word for name in _PARSERS if (word := getattr(options, name)) is not None}
    numbers: dict[str, Any] = {name: _PARSERS[name](word, _option(name)) for name, word in typed.items()}
    request = RunRequest(
        client=options.client or "",
        server=options.server or "",
        client_nic=options.client_nic,
        client_address=options.client_address,
        server_nic=options.server_nic,
        server_address=options.server_address,
        generator=options.generator,
        direction=_direction(options),
        protocol="udp" if options.udp else "tcp",
        congestion=options.congestion,
        zerocopy=options.zerocopy,
        interval=options.interval
        if plain or options.interval != DEFAULT_READ_INTERVAL_SECONDS
        else RunRequest.interval,
        ip_version=options.ip_version,
        sweep=None if options.sweep is None else parse_values(options.sweep),
        compare=None if options.compare is None else _two(parse_values(options.compare)),
        between=options.between,
        label=options.label,
    )
    request = replace(request, **numbers)
    validate_request(request)
    return request


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _direction(options: argparse.Namespace) -> Direction:
    if options.bidirectional:
        return "bidirectional"
    return "reverse" if options.reverse else "forward"


def _two(varied: Values) -> Values:
    name, found = varied
    if len(found) != 2:
        raise NictopError(
            f"--compare: {count_noun(len(found), 'value')} of {name}, not two", f"write it like {name}=A,B"
        )
    return varied
