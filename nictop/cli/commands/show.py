"""``nictop show``: the facts of the live screen, printed once."""

from __future__ import annotations

import argparse

from nictop.cli import output
from nictop.cli.arguments import add_hosts
from nictop.cli.hosts import add_lldp_option, add_time_option, observe_hosts, reached_hosts, recording_path
from nictop.errors import HostUnreachable, NictopError

SHOW_SECONDS = 1.0
"""Of the rates: in a shorter time the work of the probe itself makes a CPU busy."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print interfaces, queues, CPUs and errors once, as text or JSON."
    add_hosts(parser)
    add_time_option(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    parser.add_argument(
        "--connections",
        action="store_true",
        help="who uses a NIC: its TCP connections and UDP sockets by rate, with process, peer and what limits them",
    )
    parser.add_argument("--nic", metavar="NAME", help="with --connections: this NIC (default: the busiest one)")
    add_lldp_option(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of --format json and exit")


def run(options: argparse.Namespace) -> int:
    if options.nic is not None and not options.connections:
        raise NictopError("--nic needs --connections", "nictop show --connections --nic NAME")
    if options.connections:
        return _show_connections(options)
    if options.schema:
        from nictop.report.facts import host as show
        from nictop.report.facts import hosts as show_hosts

        return output.write(show_hosts.hosts_schema() if options.hosts else show.show_schema())
    found = observe_hosts(options, SHOW_SECONDS, modules=("nictop.report.facts.hosts",))
    from nictop.hosts.observe import with_window_rates
    from nictop.report.facts import host as show
    from nictop.report.facts import hosts as show_hosts

    found = tuple(map(with_window_rates, found))
    if options.hosts:
        if options.format == "json":
            output.write(show_hosts.hosts_json(found))
        else:
            output.write_text(show_hosts.hosts_text(found, output.terminal_columns()), options)
        return HostUnreachable.exit_code if show_hosts.unreachable_hosts(found) else 0
    ((snapshot, _),) = reached_hosts(found)
    if options.format == "json":
        return output.write(show.show_json(snapshot))
    return output.write_text(show.show_text(snapshot, output.terminal_columns()), options)


def _show_connections(options: argparse.Namespace) -> int:
    if options.schema:
        from nictop.report.facts import connections as show

        return output.write(show.connections_schema())
    from functools import partial

    from nictop.hosts.connections import ReadConnections
    from nictop.hosts.observe import Unreachable

    modules = ("nictop.report.facts.connections",)
    found = observe_hosts(options, modules=modules, last=[partial(ReadConnections, options.nic or "")])
    nic = (options.nic or "") if recording_path(options) is not None else ""
    from nictop.report.facts import connections as show

    if not options.hosts:
        reached_hosts(found)
    if options.format == "json":
        output.write(show.connections_json(found, nic))
    else:
        output.write_text(show.connections_text(found, output.terminal_columns(), nic), options)
    return max((one.exit_code for one in found if isinstance(one, Unreachable)), default=0)
