"""``nictop path``: tests the path between two hosts, and prints what it found with the commands that fix it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import HOST_FORMS, add_access_options, add_endpoint_options
from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.traffic.path.result import PathReport

EXIT_FINDINGS = 1
EXIT_INCOMPLETE = 4
EPILOG = """\
examples:
  nictop path vm1 vm2
  nictop path vm1 vm2 --nic ens224 --peer-nic ens224
  nictop path vm1 vm2 --port 5201       may a traffic test use this port?
  nictop path vm1 vm2 --sudo            also duplicate addresses, and what a
                                        firewall or rp_filter drops

Exit codes: 0 no findings at or above the threshold (--fail-on), 1 findings,
2 usage error, 3 host unreachable, 4 a direction could not be tested.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop path [OPTIONS] HOST HOST"
    parser.description = (
        "Path test: who answers ARP, round-trip time, largest packet each way, routes and\n"
        "firewalls between two hosts. Sends a few hundred packets in a few seconds.\n"
        "Installs nothing and changes no settings."
    )
    parser.epilog = EPILOG
    parser.add_argument("host", nargs="?", metavar="HOST", help=HOST_FORMS)
    parser.add_argument("peer", nargs="?", metavar="HOST", help="the other end")
    add_access_options(parser)
    ends = parser.add_argument_group("endpoints")
    add_endpoint_options(ends, {"": "first host", "peer-": "second host"})
    ends.add_argument("--port", metavar="PORT", help="UDP and TCP port of the test (default: any free one)")
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    group.add_argument(
        "--fail-on",
        choices=("critical", "warning", "info"),
        default="warning",
        help="lowest severity that sets exit code 1 (default: %(default)s)",
    )
    group.add_argument("--schema", action="store_true", help="print the JSON schema of --format json and exit")


def run(options: argparse.Namespace) -> int:
    from nictop.report import path as path_report
    from nictop.rules import SEVERITIES

    if options.schema:
        return output.write(path_report.path_schema())
    if options.peer is None:
        raise NictopError("two hosts are needed", "nictop path HOST HOST")
    report = _test(options)
    if options.format == "json":
        output.write(path_report.path_json(report))
    else:
        glyphs = output.glyphs_for(options)
        output.write_text(path_report.path_text(report, output.terminal_columns(), glyphs), options)
    limit = SEVERITIES.index(options.fail_on)
    if any(SEVERITIES.index(one.severity) <= limit for one in report.findings):
        return EXIT_FINDINGS
    return EXIT_INCOMPLETE if any(one.failure for one in report.result.directions) else 0


def _test(options: argparse.Namespace) -> PathReport:
    import asyncio

    from nictop.cli.traffic.hosts import one_host, sessions_of
    from nictop.hosts.observe import HOSTS_TIMEOUT
    from nictop.hosts.session import running
    from nictop.hosts.specification import configuration_path, read_configuration
    from nictop.traffic.path.result import PathRequest
    from nictop.traffic.path.session import PathSession
    from nictop.traffic.plan.quantities import parse_whole_number

    port = 0 if options.port is None else parse_whole_number(options.port, "--port")
    if options.port is not None and not 0 < port < 65536:
        raise NictopError(f"--port must be 1 to 65535, not {port}")
    known = read_configuration(configuration_path(os.environ))
    hosts = [one_host(options.host, "first host", known), one_host(options.peer, "second host", known)]
    request = PathRequest(
        hosts[0].label,
        hosts[1].label,
        options.nic,
        options.address,
        options.peer_nic,
        options.peer_address,
        options.ip_version,
        port,
    )

    async def test() -> PathReport:
        sessions = sessions_of(options, dict.fromkeys(hosts))
        async with running(*sessions):
            return await PathSession(request, sessions, timeout=HOSTS_TIMEOUT).run(output.print_status)

    return asyncio.run(test())
