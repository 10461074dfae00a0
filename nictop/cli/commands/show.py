"""``nictop show``: the facts of the live screen, printed once."""

from __future__ import annotations

import argparse

from nictop.cli import output
from nictop.cli.arguments import add_hosts
from nictop.cli.hosts import add_lldp_option, add_time_option, observe_hosts, reached_hosts
from nictop.errors import HostUnreachable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print interfaces, queues, CPUs and errors once, as text or JSON."
    add_hosts(parser)
    add_time_option(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: %(default)s")
    add_lldp_option(parser)
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of --format json and exit")


def run(options: argparse.Namespace) -> int:
    if options.schema:
        from nictop.report.facts import host as show
        from nictop.report.facts import hosts as show_hosts

        return output.write(show_hosts.hosts_schema() if options.hosts else show.show_schema())
    found = observe_hosts(options, modules=("nictop.report.facts.hosts",))
    from nictop.report.facts import host as show
    from nictop.report.facts import hosts as show_hosts

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
