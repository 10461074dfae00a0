"""``nictop setup``: a guided job of one NIC, applied as by ``nictop fix``; --yes confirms it only when it is proven.

Exit codes: those of ``nictop fix``.
"""

from __future__ import annotations

import argparse

from nictop.cli.arguments import add_common_options
from nictop.cli.change.options import EXIT_CODES, add_change_options, allowed_by, hosts_of

MAX_SETUP_NUMBER = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set up one NIC of one host. What would be typed is shown first; the host takes it back by itself unless it is "
        "told in time to keep it. Each job ends with the check that proves it, and --yes keeps only what is proven."
    )
    parser.epilog = EXIT_CODES
    parser.add_argument("host", metavar="HOST", help="as for nictop check; local is this one")
    jobs = parser.add_subparsers(dest="job", metavar="JOB", title="jobs", required=True)

    address = _job(
        jobs,
        "give-address",
        "an address, by NetworkManager or else until the next reboot",
        "NIC",
    )
    method = address.add_mutually_exclusive_group(required=True)
    method.add_argument("--static", metavar="ADDRESS/PREFIX", help="this one: 192.0.2.10/24, or of IPv6")
    method.add_argument("--dhcp", action="store_true", help="ask for one")
    address.add_argument(
        "--default-route", action="store_true", help="what goes elsewhere may leave here; without it it never does"
    )
    address.add_argument("--gateway", default="", metavar="ADDRESS", help="with --static and --default-route")
    address.add_argument("--new-profile", action="store_true", help="make one, even where one could be used")

    queues = _job(jobs, "use-queues", "that many queues in each direction", "NIC")
    queues.add_argument("number", type=_number, metavar="N", help="how many")

    functions = _job(jobs, "make-vfs", "virtual functions of a physical function that has none", "PORT")
    functions.add_argument("number", type=_number, metavar="N", help="how many")

    interrupts = _job(jobs, "spread-interrupts", "one interrupt to one CPU, the next to the next", "NIC")
    interrupts.add_argument("--cpus", type=_cpus, metavar="LIST", help="for example 0-3,8 (default: all)")


def _job(
    jobs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, nic: str
) -> argparse.ArgumentParser:
    parser = jobs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
    parser.add_argument(
        "nic", metavar=nic, help="name of the interface" + (", or PCI address" if nic == "PORT" else "")
    )
    add_common_options(parser)
    add_change_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    (host,) = hosts_of(options.host, ())
    allowed = allowed_by(options, host)
    from nictop.cli.change.run import run_setup

    return run_setup(options, host, allowed=allowed)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) <= MAX_SETUP_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_SETUP_NUMBER}")
    return int(text)


def _cpus(text: str) -> tuple[int, ...]:
    from nictop.model.queues.cpu_lists import parse_cpu_list

    found = parse_cpu_list(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of CPUs")
    return tuple(found)
