"""``nictop path``: tests the path between two hosts, and prints what it found with the commands
that fix it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import (
    HOST_FORMS,
    add_access_options,
    add_endpoint_options,
    add_format_option,
    add_schema_option,
)
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
  nictop path vm1 vm2 --observe root@pve
                                        also what their hypervisor drops
  nictop path --list                    saved results: each test is saved
  nictop report 3fa2                    a saved result as a report

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
    ends.add_argument(
        "--observe",
        action="append",
        default=[],
        metavar="HOST",
        help="also read this host, such as the hypervisor",
    )
    ends.add_argument(
        "--port", metavar="PORT", help="UDP and TCP port of the test (default: any free one)"
    )
    group = parser.add_argument_group("output")
    add_format_option(group, "text", "json")
    group.add_argument(
        "--fail-on",
        choices=("critical", "warning", "info"),
        default="warning",
        help="lowest severity that sets exit code 1 (default: %(default)s)",
    )
    group.add_argument("--label", default="", metavar="WORDS", help="label for the saved result")
    group.add_argument("--list", action="store_true", help="list saved results and exit")
    group.add_argument(
        "--show", metavar="ID", help="print a saved result (its id, beginning of its id, or label)"
    )
    add_schema_option(group)


def run(options: argparse.Namespace) -> int:
    from nictop.report import path as path_report

    if options.schema:
        return output.write(path_report.path_schema(listed=options.list))
    if options.list:
        _check_no_hosts(options, "--list")
        return _list(options)
    if options.show is not None:
        _check_no_hosts(options, "--show")
        return _print(_stored(options.show), options)
    if options.peer is None:
        raise NictopError("two hosts are needed", "nictop path HOST HOST")
    report = _test(options)
    code = _print(report, options)
    _save(report, options.label)
    return code


def _check_no_hosts(options: argparse.Namespace, option: str) -> None:
    """Raises NictopError."""
    if options.host is not None:
        raise NictopError(f"{option} takes no hosts", "omit the hosts")


def _list(options: argparse.Namespace) -> int:
    from nictop.report import path as path_report
    from nictop.traffic.path.store import stored_paths

    paths = stored_paths()
    if options.format == "json":
        return output.write(path_report.stored_paths_json(paths))
    return output.write_text(
        path_report.stored_paths_text(paths, output.terminal_columns()), options
    )


def _stored(word: str) -> PathReport:
    """The newest result that this word selects."""
    from nictop.traffic.path.store import select_paths, stored_paths
    from nictop.traffic.plan.quantities import quoted

    found = select_paths(word, [path for _, path in stored_paths().results])
    if not found:
        raise NictopError(
            f"no saved path test {quoted(word)}", "nictop path --list shows saved results"
        )
    return found[0].test.report


def _save(report: PathReport, label: str) -> None:
    """Print its id; the result is printed already, so that a failure is no error."""
    from nictop.traffic.path.store import save_path, stored_path

    path = stored_path(report, label)
    try:
        save_path(path)
    except NictopError as error:
        output.print_status(error.message)
    else:
        output.print_status(f"saved: {path.identity}")


def _print(report: PathReport, options: argparse.Namespace) -> int:
    """Print a result; the exit code for it."""
    from nictop.report import path as path_report
    from nictop.rules import SEVERITIES

    if options.format == "json":
        output.write(path_report.path_json(report))
    else:
        glyphs = output.glyphs_for(options)
        output.write_text(path_report.path_text(report, output.terminal_columns(), glyphs), options)
    limit = SEVERITIES.index(options.fail_on)
    if any(SEVERITIES.index(finding.severity) <= limit for finding in report.findings):
        return EXIT_FINDINGS
    if any(direction.failure for direction in report.result.directions):
        return EXIT_INCOMPLETE
    return 0


def _test(options: argparse.Namespace) -> PathReport:
    from nictop.cli.event_loop import result_of
    from nictop.cli.hosts import named_hosts
    from nictop.cli.progress_line import wait_for_hosts
    from nictop.cli.traffic.hosts import one_host, sessions_of
    from nictop.hosts.observe import HOSTS_TIMEOUT
    from nictop.hosts.session import running
    from nictop.hosts.specification import configuration_path, read_configuration
    from nictop.traffic.path.result import PathRequest
    from nictop.traffic.path.session import PathSession
    from nictop.traffic.plan.quantities import parse_whole_number

    port = 0
    if options.port is not None:
        port = parse_whole_number(options.port, "--port")
        if not 0 < port < 65536:
            raise NictopError(f"--port must be 1 to 65535, not {port}")
    known = read_configuration(configuration_path(os.environ))
    hosts = [
        one_host(options.host, "first host", known),
        one_host(options.peer, "second host", known),
    ]
    observed = named_hosts(options.observe, known) if options.observe else ()
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
        sessions = sessions_of(options, dict.fromkeys([*hosts, *observed]))
        async with running(*sessions):
            await wait_for_hosts(sessions, HOSTS_TIMEOUT)
            return await PathSession(request, sessions, timeout=HOSTS_TIMEOUT).run(
                output.print_status
            )

    return result_of(test())
