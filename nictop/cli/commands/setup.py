"""``nictop setup``: a guided job of one NIC, applied as by ``nictop fix``; --yes confirms it only when it is proven.

Exit codes: those of ``nictop fix``.
"""

from __future__ import annotations

import argparse

from nictop.cli.arguments import add_common_options
from nictop.cli.change.options import EXIT_CODES, add_change_options, allowed_by, hosts_of, set_change_defaults

MAX_SETUP_NUMBER = 65535
DEFAULT_LED_SECONDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set up one NIC of one host. The plan is shown first. The host rolls the change back automatically if it "
        "is not confirmed in time or the connection is lost. Each job checks its result; with --yes it is "
        "confirmed only if this check succeeds."
    )
    parser.epilog = f"Options of a job: nictop setup HOST JOB --help. {EXIT_CODES}"
    parser.add_argument("host", metavar="HOST", help="host as for nictop check; local: this host")
    set_change_defaults(parser)
    parser.set_defaults(beside=[])
    add_change_options(parser)
    jobs = parser.add_subparsers(dest="job", metavar="JOB", title="jobs", required=True)

    address = _job(
        jobs,
        "address",
        "set the IP address (without NetworkManager: until reboot)",
        "NIC",
    )
    method = address.add_mutually_exclusive_group(required=True)
    method.add_argument(
        "--static", metavar="ADDRESS/PREFIX", help="static address, e.g. 192.0.2.10/24 or 2001:db8::10/64"
    )
    method.add_argument("--dhcp", action="store_true", help="use DHCP")
    address.add_argument(
        "--default-route",
        action="store_true",
        help="allow a default route via this interface (without this option: never)",
    )
    address.add_argument(
        "--gateway", default="", metavar="ADDRESS", help="default gateway, with --static and --default-route"
    )
    address.add_argument(
        "--new-profile", action="store_true", help="create a new profile even if an existing profile could be used"
    )

    mtu = _job(jobs, "mtu", "set the MTU, and tell what else must fit (VLANs, bridges, other hosts)", "NIC")
    mtu.add_argument("number", type=_number, metavar="BYTES", help="MTU in bytes, within the range of the device")
    mtu.add_argument(
        "--with",
        action="append",
        default=[],
        dest="beside",
        metavar="HOST",
        help="also read this host, to tell whether its MTU fits; it is not changed (repeatable)",
    )

    queues = _job(jobs, "queues", "set the number of queues (ethtool -L)", "NIC")
    queues.add_argument("number", type=_number, metavar="N", help="queues in each direction")

    functions = _job(jobs, "vfs", "create virtual functions (VFs) on a physical function that has none", "PORT")
    functions.add_argument("number", type=_number, metavar="N", help="number of VFs")

    interrupts = _job(jobs, "irq-affinity", "set the IRQ affinity: one CPU per interrupt, in turn", "NIC")
    interrupts.add_argument("--cpus", type=_cpus, metavar="LIST", help="CPUs to use, e.g. 0-3,8 (default: all)")

    led = _job(jobs, "led", "blink the LED of the port, to find it (ethtool -p)", "NIC")
    led.add_argument(
        "--seconds", type=_number, default=DEFAULT_LED_SECONDS, metavar="N", help="1 to 60 (default: %(default)s)"
    )


def _job(
    jobs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str, nic: str
) -> argparse.ArgumentParser:
    parser = jobs.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False)
    parser.add_argument("nic", metavar=nic, help="interface name" + (" or PCI address" if nic == "PORT" else ""))
    add_common_options(parser)
    add_change_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    host, *beside = hosts_of(options.host, options.beside)
    allowed = allowed_by(options, host)
    from nictop.cli.change.run import run_setup

    return run_setup(options, host, beside, allowed=allowed)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:6]) <= MAX_SETUP_NUMBER:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_SETUP_NUMBER}")
    return int(text)


def _cpus(text: str) -> tuple[int, ...]:
    from nictop.model.queues.cpu_lists import parse_cpu_list

    found = parse_cpu_list(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a CPU list, e.g. 0-3,8")
    return tuple(found)
