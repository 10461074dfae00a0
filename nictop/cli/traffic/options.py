"""The command line of ``nictop traffic``, and its `RunRequest`.

Pure. Invalid values and options that exclude each other raise NictopError before any host is
connected to.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from nictop.cli.arguments import (
    DEFAULT_READ_INTERVAL_SECONDS,
    HOST_FORMS,
    add_access_options,
    add_endpoint_options,
    add_schema_option,
)
from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.traffic.plan import quantities as amounts
from nictop.traffic.plan.formats import FORMATS
from nictop.traffic.plan.plan import (
    DEFAULT_WORKLOAD_SECONDS,
    GENERATED_TESTS,
    ONE_HOST_TESTS,
    Direction,
    Judge,
    TestKind,
)
from nictop.traffic.plan.request import RunRequest, Values, parse_values, with_sizes
from nictop.traffic.plan.validation import validate_request
from nictop.traffic.plan.variables import VARIABLES

FILES_TIME_SECONDS = 60
"""The longest that ``--files`` may take by default."""
EPILOG = """\
examples:
  nictop traffic vm1 vm2                       vm1 sends to vm2 for 10 s
  nictop traffic vm1 vm2 --observe root@pve    also monitor the hypervisor
  nictop traffic vm1 vm2 --reverse --streams 4
  nictop traffic vm1 vm2 --client-nic ens224 --server-nic ens224
  nictop traffic vm1 vm2 --server-address 192.0.2.2   by the NIC of this address
  nictop traffic vm1 vm2 --repeat 5 --sweep length=512,4K,128K,1M
  nictop traffic vm1 vm2 --test rr             request/response: latency
  nictop traffic vm1 vm2 --test rr --size 1,64,4K --repeat 5
  nictop traffic vm1 vm2 --test crr --files 1000 --size 4K
  nictop traffic vm1 vm2 --test loaded         latency under load
  nictop traffic vm1 vm2 --bitrate 1G --repeat 5 --compare nic=ens4,ens5
  nictop traffic vm1 vm2 --repeat 5 --compare queues=/1,/4 \\
      --between 'ssh root@vm2 ethtool -L ens3 combined "${NICTOP_VALUE#/}"'
  nictop traffic vm1 --workload 'fio job.fio'  measure a command of yours on vm1
  nictop traffic vm1 --workload 'fio --bs=$NICTOP_VALUE job.fio' \\
      --sweep bs=4K,64K,1M
  nictop traffic vm1 --observe root@pve --manual   what flows until Enter
  nictop traffic root@pve --guest win10 --manual   the same of a guest
  nictop traffic vm1 192.0.2.50 --foreign      to an iperf3 -s that runs already
  nictop traffic 192.0.2.50 vm1 --foreign      from a client that you start
  nictop traffic --self-test                   this machine only
  nictop traffic --list                        saved results

Exit codes: 0 success, 2 usage error or an option that a host does not support,
3 host unreachable, 4 test failed, 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """In groups, each for one question."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = (
        "nictop traffic [OPTIONS] CLIENT SERVER\n"
        "       nictop traffic [OPTIONS] HOST --workload COMMAND | --manual\n"
        "       nictop traffic [OPTIONS] RECORDING [HOST] --from TIME --to TIME\n"
        "       nictop traffic [OPTIONS] --self-test | --list"
    )
    parser.description = (
        "Traffic test: CLIENT sends to SERVER. Prints goodput or latency, bottleneck, CPU\n"
        "cost per host and the NICs that carried the packets. Uses iperf3 if both hosts\n"
        "have it, else a built-in generator. Installs nothing and changes no settings.\n"
        "With --workload or --manual, what one host does is measured."
    )
    parser.epilog = EPILOG
    parser.add_argument("client", nargs="?", metavar="CLIENT", help=HOST_FORMS)
    parser.add_argument(
        "server", nargs="?", metavar="SERVER", help="the same; receives the traffic"
    )
    add_access_options(parser)
    _add_endpoints(parser.add_argument_group("endpoints"))
    _add_load(parser.add_argument_group("load"))
    _add_workload(parser.add_argument_group("your own workload, on one host"))
    _add_variants(parser.add_argument_group("repeats and variants"))
    _add_output(parser.add_argument_group("output"))


def _add_endpoints(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--observe",
        action="append",
        default=[],
        metavar="HOST",
        help="also monitor this host (repeatable)",
    )
    add_endpoint_options(group, {"client-": "client", "server-": "server"})
    group.add_argument(
        "--foreign",
        action="store_true",
        help="nictop does not log in to one end: SERVER is the IP address of an iperf3 server that "
        "runs already (iperf3 -s), or CLIENT is the IP address of a host on which you start the "
        "command that nictop prints",
    )
    group.add_argument(
        "--wait",
        metavar="SECONDS",
        help="with --foreign: until CLIENT must have come (default 300)",
    )
    group.add_argument("--port", metavar="PORT", help="first port to try (default 5201)")
    group.add_argument(
        "--self-test",
        action="store_true",
        help="no hosts: between two network namespaces of this machine, or over loopback",
    )


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--test",
        choices=GENERATED_TESTS,
        default="bulk",
        help="bulk (default): full speed; rr: request and response; crr: connect, request, "
        "response, close; "
        "loaded: rr idle, then during a bulk flow",
    )
    group.add_argument(
        "--size",
        metavar="SIZE,...",
        help="rr, crr, loaded: bytes of request and response, 64:4K of each; several: one variant "
        "each (default 64)",
    )
    group.add_argument(
        "--rate",
        metavar="N",
        help="rr, loaded: N requests/s on schedule, latency from the scheduled time (loaded: "
        "default 200)",
    )
    group.add_argument(
        "--files",
        metavar="N",
        help="crr: end after N transactions, as for N small files (at most --time, default 60)",
    )
    way = group.add_mutually_exclusive_group()
    way.add_argument("--reverse", action="store_true", help="the server sends, the client receives")
    way.add_argument(
        "--bidirectional", action="store_true", help="both send and receive (iperf3 3.7 or newer)"
    )
    group.add_argument(
        "--time",
        metavar="SECONDS",
        help="measured seconds (default 10); loaded: of each phase, of which the whole intervals "
        "between reports count",
    )
    group.add_argument(
        "--omit", metavar="SECONDS", help="seconds before that, not measured (default 0)"
    )
    group.add_argument(
        "--streams", "--parallel", metavar="N", help="parallel streams, connections (default 1)"
    )
    group.add_argument(
        "--udp", action="store_true", help="use UDP rather than TCP; loaded: for the requests"
    )
    group.add_argument(
        "--bitrate",
        metavar="RATE",
        help="target bitrate of each stream in bits per second: 500M, 2.5G",
    )
    group.add_argument(
        "--length",
        metavar="SIZE",
        help="block size, UDP: datagram size: 512, 128K, 1M (over 1M: built-in generator)",
    )
    group.add_argument("--mss", metavar="BYTES", help="TCP maximum segment size")
    group.add_argument("--window", metavar="SIZE", help="socket buffer size")
    group.add_argument(
        "--congestion", metavar="NAME", help="TCP congestion control: cubic, bbr, ..."
    )
    group.add_argument("--dscp", metavar="DSCP", help="DSCP value: ef, af41, 46, 0x2e")
    group.add_argument("--client-cpu", metavar="CPU", help="CPU affinity of the client")
    group.add_argument("--server-cpu", metavar="CPU", help="CPU affinity of the server")
    group.add_argument("--zerocopy", action="store_true", help="zero-copy send")
    group.add_argument(
        "--generator",
        choices=("auto", "iperf3", "builtin", "ntttcp"),
        default="auto",
        help="auto (default): iperf3 if both hosts support the options; ntttcp: for Linux and "
        "Windows, the client sends",
    )


def _add_workload(group: argparse._ArgumentGroup) -> None:
    what = group.add_mutually_exclusive_group()
    what.add_argument(
        "--workload",
        metavar="COMMAND",
        help="run this shell command on CLIENT, as the user of the login, and measure from its "
        "start to its end (at most --time, default 3600)",
    )
    what.add_argument(
        "--manual", action="store_true", help="measure what flows now, until Enter is pressed"
    )
    group.add_argument(
        "--guest",
        default="",
        metavar="NAME",
        help="with --manual: CLIENT is a hypervisor, and the NIC of this guest of it is measured, "
        "whatever runs in it",
    )
    group.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="CLIENT is a recording: what a host of it carried from this time (14:03:20, +90) ...",
    )
    group.add_argument(
        "--to",
        dest="until",
        metavar="TIME",
        help="... to this one; SERVER is the name of the host, if it has several",
    )
    group.add_argument(
        "--value",
        default="",
        metavar="REGEX",
        help="finds the command's own figure in its output; known without it: "
        f"{', '.join(FORMATS)}",
    )
    group.add_argument(
        "--by",
        choices=get_args(Judge),
        help="what the verdict of a comparison is about (default: the command's figure, else its "
        "duration)",
    )


def _add_variants(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--repeat", metavar="N", help="runs per variant (default 1; 5 recommended)")
    group.add_argument("--rest", metavar="SECONDS", help="pause between runs (default 2)")
    group.add_argument(
        "--sweep",
        metavar="WHAT=V,V,...",
        help=f"one variant per value; WHAT: {', '.join(VARIABLES)}; of a workload any name "
        "(value: $NICTOP_VALUE)",
    )
    group.add_argument("--compare", metavar="WHAT=A,B", help="A and B alternately, with a verdict")
    group.add_argument(
        "--between",
        default="",
        metavar="COMMAND",
        help="shell command on this machine that sets queues, mtu or setup (value: $NICTOP_VALUE)",
    )
    group.add_argument("--label", default="", metavar="WORDS", help="label for the saved results")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--plain", action="store_true", help="no screen: progress to stderr, result to stdout"
    )
    group.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        help="format of the result; implies --plain (default: text)",
    )
    group.add_argument("--list", action="store_true", help="list saved results and exit")
    add_schema_option(group)


def _request_rate(text: str, what: str) -> int:
    """Raises NictopError."""
    try:
        return amounts.parse_whole_number(text, what)
    except NictopError as error:
        raise NictopError(error.message, "it is in requests/s; --bitrate sets bits/s") from None


_PARSERS: dict[str, Callable[[str, str], int | float]] = {
    "time": amounts.parse_whole_number, "omit": amounts.parse_whole_number,
    "streams": amounts.parse_whole_number, "repeat": amounts.parse_whole_number,
    "files": amounts.parse_whole_number, "rate": _request_rate,
    "port": amounts.parse_whole_number, "wait": amounts.parse_whole_number,
    "bitrate": amounts.parse_bit_rate,
    "length": amounts.parse_byte_count, "mss": amounts.parse_byte_count,
    "window": amounts.parse_byte_count, "dscp": amounts.parse_dscp,
    "client_cpu": amounts.parse_cpu, "server_cpu": amounts.parse_cpu, "rest": amounts.parse_seconds,
}  # fmt: skip
"""Name of an option and field of the request → parser of its value."""


def request_of(options: argparse.Namespace, *, plain: bool) -> RunRequest:
    """With the hosts as they were typed. `plain`: one line every `--interval` seconds, by default
    one second."""
    numbers = _numbers(options)
    test = _test(options)
    is_of_one_host = test in ONE_HOST_TESTS
    parse = partial(parse_values, of_workload=is_of_one_host)
    request = RunRequest(
        client=options.client or "",
        server=(options.client if is_of_one_host else options.server) or "",
        client_nic=options.client_nic,
        client_address=options.client_address,
        server_nic=options.server_nic,
        server_address=options.server_address,
        generator=options.generator,
        direction=_direction(options),
        protocol="udp" if options.udp else "tcp",
        congestion=options.congestion,
        zerocopy=options.zerocopy,
        interval=_interval(options, plain),
        ip_version=options.ip_version,
        test=test,
        foreign=options.foreign,
        foreign_client=options.foreign and _is_client_foreign(options),
        guest=options.guest,
        workload=options.workload or "",
        value_pattern=options.value,
        judged_by=options.by,
        sweep=None if options.sweep is None else parse(options.sweep),
        compare=None if options.compare is None else _two(parse(options.compare)),
        between=options.between,
        label=options.label,
    )
    if "files" in numbers:
        numbers.setdefault("time", FILES_TIME_SECONDS)
    if is_of_one_host:
        numbers.setdefault("time", DEFAULT_WORKLOAD_SECONDS)
    request = replace(request, **numbers)
    if options.size is not None:
        request = with_sizes(request, options.size, "--size")
    _check_pattern(options.value)
    validate_request(request)
    return request


def _is_client_foreign(options: argparse.Namespace) -> bool:
    """Of two ends of which one is an address: that is the client."""
    from nictop.traffic.plan.foreign import foreign_side

    if options.client is None or options.server is None:
        return False
    return foreign_side(options.client, options.server) == "client"


def _check_pattern(typed: str) -> None:
    """Raises NictopError unless it is a regular expression."""
    try:
        re.compile(typed)
    except re.error as error:
        raise NictopError(f"--value is not a regular expression: {error}") from None


def _numbers(options: argparse.Namespace) -> dict[str, Any]:
    """Those that were typed, by their field of the request."""
    found = {}
    for name, parse in _PARSERS.items():
        word = getattr(options, name)
        if word is not None:
            found[name] = parse(word, _option(name))
    return found


def _interval(options: argparse.Namespace, plain: bool) -> float:
    """Seconds; on a screen another default."""
    interval: float = options.interval
    if interval == DEFAULT_READ_INTERVAL_SECONDS and not plain:
        return RunRequest.interval
    return interval


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _test(options: argparse.Namespace) -> TestKind:
    """Raises NictopError for options that exclude each other."""
    name = "--manual" if options.manual else "--workload"
    if not options.manual and options.workload is None:
        kind: TestKind = options.test
        return kind
    if options.test != "bulk":
        raise NictopError(f"{name} excludes --test", "omit one of them")
    for other in ("server_nic", "server_address", "client_address"):
        if getattr(options, other):
            raise NictopError(f"{name} excludes {_option(other)}", "--client-nic chooses the NIC")
    if options.generator != "auto":
        raise NictopError(f"{name} excludes --generator", "omit one of them")
    return "manual" if options.manual else "workload"


def _direction(options: argparse.Namespace) -> Direction:
    if options.bidirectional:
        return "bidirectional"
    return "reverse" if options.reverse else "forward"


def _two(varied: Values) -> Values:
    name, found = varied
    if len(found) != 2:
        raise NictopError(
            f"--compare needs two values of {name}, not {len(found)}", f"e.g. --compare {name}=A,B"
        )
    return varied
