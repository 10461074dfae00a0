"""``nictop setup``: a guided job of one NIC, applied as by ``nictop fix``; --yes confirms it only
when it is proven.

Exit codes: those of ``nictop fix``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nictop.cli.arguments import EXAMPLES_HEAD, add_common_options, whole_number
from nictop.cli.change.options import (
    EXIT_CODES,
    add_change_options,
    allowed_by,
    hosts_of,
    set_change_defaults,
)

if TYPE_CHECKING:
    Jobs = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_SETUP_NUMBER = 65535
DEFAULT_LED_SECONDS = 10

EXAMPLES = f"""\
{EXAMPLES_HEAD}  nictop setup vm1 address ens224 --static 192.0.2.10/24 --dry-run
  nictop setup vm1 address ens224 --static 192.0.2.10/24 --allow-changes
  nictop setup vm1 address ens224 --dhcp --allow-changes
  nictop setup vm1 mtu ens224 9000 --dry-run

"""

JOB_EXAMPLES = {
    "address": "ens224 --static 192.0.2.10/24 --dry-run",
    "mtu": "ens224 9000 --with vm2 --dry-run",
    "queues": "ens224 4 --dry-run",
    "vfs": "ens224 8 --dry-run",
    "irq-affinity": "ens224 --cpus 0-3 --dry-run",
    "led": "ens224 --seconds 20 --allow-changes",
}
"""Job → what follows its name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set up one NIC of one host. The plan is shown first. The host rolls the change back "
        "automatically if it "
        "is not confirmed in time or the connection is lost. Each job checks its result; with "
        "--yes it is "
        "confirmed only if this check succeeds."
    )
    parser.epilog = f"{EXAMPLES}Options of a job: nictop setup HOST JOB --help. {EXIT_CODES}"
    parser.add_argument("host", metavar="HOST", help="host as for nictop check; local: this host")
    set_change_defaults(parser)
    parser.set_defaults(beside=[])
    add_change_options(parser)
    jobs = parser.add_subparsers(dest="job", metavar="JOB", title="jobs", required=True)
    _add_address(jobs)
    _add_mtu(jobs)
    _add_queues(jobs)
    _add_vfs(jobs)
    _add_irq_affinity(jobs)
    _add_led(jobs)


def _add_address(jobs: Jobs) -> None:
    about = "set the IP address (without NetworkManager: until reboot)"
    parser = _job(jobs, "address", about, "NIC")
    method = parser.add_mutually_exclusive_group(required=True)
    method.add_argument(
        "--static",
        metavar="ADDRESS/PREFIX",
        help="static address, e.g. 192.0.2.10/24 or 2001:db8::10/64",
    )
    method.add_argument("--dhcp", action="store_true", help="use DHCP")
    parser.add_argument(
        "--default-route",
        action="store_true",
        help="allow a default route via this interface (without this option: never)",
    )
    parser.add_argument(
        "--gateway",
        default="",
        metavar="ADDRESS",
        help="default gateway, with --static and --default-route",
    )
    parser.add_argument(
        "--new-profile",
        action="store_true",
        help="create a new profile even if an existing profile could be used",
    )


def _add_mtu(jobs: Jobs) -> None:
    about = "set the MTU, and tell what else must fit (VLANs, bridges, other hosts)"
    parser = _job(jobs, "mtu", about, "NIC")
    parser.add_argument(
        "number", type=_number, metavar="BYTES", help="MTU in bytes, within the range of the device"
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="beside",
        metavar="HOST",
        help="also read this host, to tell whether its MTU fits; it is not changed (repeatable)",
    )


def _add_queues(jobs: Jobs) -> None:
    parser = _job(jobs, "queues", "set the number of queues (ethtool -L)", "NIC")
    parser.add_argument("number", type=_number, metavar="N", help="queues in each direction")


def _add_vfs(jobs: Jobs) -> None:
    about = "create virtual functions (VFs) on a physical function that has none"
    parser = _job(jobs, "vfs", about, "PORT", "interface name or PCI address")
    parser.add_argument("number", type=_number, metavar="N", help="number of VFs")


def _add_irq_affinity(jobs: Jobs) -> None:
    about = "set the IRQ affinity: one CPU per interrupt, in turn"
    parser = _job(jobs, "irq-affinity", about, "NIC")
    parser.add_argument(
        "--cpus", type=_cpus, metavar="LIST", help="CPUs to use, e.g. 0-3,8 (default: all)"
    )


def _add_led(jobs: Jobs) -> None:
    about = "blink the LED of the port, to find it (ethtool -p)"
    parser = _job(jobs, "led", about, "NIC")
    parser.add_argument(
        "--seconds",
        type=_number,
        default=DEFAULT_LED_SECONDS,
        metavar="N",
        help="1 to 60 (default: %(default)s)",
    )


def _job(
    jobs: Jobs, name: str, about: str, device: str, device_help: str = "interface name"
) -> argparse.ArgumentParser:
    """The parser of a job; `device`: what its first argument is called."""
    parser = jobs.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False
    )
    parser.epilog = f"{EXAMPLES_HEAD}  nictop setup vm1 {name} {JOB_EXAMPLES[name]}"
    parser.add_argument("nic", metavar=device, help=device_help)
    add_common_options(parser)
    add_change_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    _check_request(options)
    host, *beside = hosts_of(options.host, options.beside)
    allowed = allowed_by(options, host)
    from nictop.cli.change.run import run_setup

    return run_setup(options, host, beside, allowed=allowed)


def _check_request(options: argparse.Namespace) -> None:
    """What is wrong whatever the host says, before it is connected to. Raises NictopError."""
    from nictop.changes.guided.set_up import check_led_seconds

    if options.job == "led":
        check_led_seconds(options.seconds)
    elif options.job == "address":
        from nictop.changes.guided.address import check_request
        from nictop.cli.change.run import address_request

        check_request(address_request(options))


def _number(text: str) -> int:
    return whole_number(text, MAX_SETUP_NUMBER, f"a number from 1 to {MAX_SETUP_NUMBER}")


def _cpus(text: str) -> tuple[int, ...]:
    from nictop.model.queues.cpu_lists import parse_cpu_list

    found = parse_cpu_list(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a CPU list, e.g. 0-3,8")
    return tuple(found)
