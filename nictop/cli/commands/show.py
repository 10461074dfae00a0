"""``nictop show``: the facts of the live screen, printed once."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import add_hosts, add_schema_option
from nictop.cli.hosts import (
    add_lldp_option,
    add_time_option,
    are_incomplete,
    observe_hosts,
    reached_hosts,
    recording_path,
)
from nictop.errors import HostUnreachable, NictopError

if TYPE_CHECKING:
    from nictop.model.snapshot import Snapshot
    from nictop.rules import Diagnosis

SHOW_SECONDS = 1.0
"""Of the rates: in a shorter time the work of the probe itself makes a CPU busy."""

EPILOG = """\
examples:
  nictop show                              this host
  nictop show vm1 root@pve                 other hosts
  nictop show monday.nictop --at 14:03:20  a recording at that time
  nictop show vm1 --connections --nic ens224
  nictop show vm1 --format json

Exit codes: 0 printed, 2 usage error, 3 a host is unreachable or did not answer completely.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.description = "Print interfaces, queues, CPUs and errors once, as text or JSON."
    add_hosts(parser)
    add_time_option(parser)
    parser.add_argument(
        "--format",
        choices=("text", "json", "jsonl"),
        default="text",
        help="jsonl: one line of JSON for each reading, until Ctrl-C; after the first of a host "
        "only what has changed (default: %(default)s)",
    )
    parser.add_argument(
        "--connections",
        action="store_true",
        help="who uses a NIC: its TCP connections and UDP sockets by rate, with process, peer and "
        "what limits them",
    )
    parser.add_argument(
        "--nic", metavar="NAME", help="with --connections: this NIC (default: the busiest one)"
    )
    add_lldp_option(parser)
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.nic is not None and not options.connections:
        raise NictopError("--nic needs --connections", "nictop show --connections --nic NAME")
    if options.format == "jsonl":
        return _show_stream(options)
    if options.connections:
        return _show_connections(options)
    if options.schema:
        return _write_schema(options)
    found = observe_hosts(
        options, SHOW_SECONDS, modules=("nictop.report.facts.hosts", "nictop.rules.all")
    )
    from nictop.hosts.observe import facts_of, with_window_rates
    from nictop.report.facts import hosts as show_hosts
    from nictop.rules import diagnose

    if not options.hosts:
        reached_hosts(found)
    diagnosis = diagnose(facts_of(found))
    found = tuple(map(with_window_rates, found))
    if not options.hosts:
        ((snapshot, _),) = reached_hosts(found)
        return _write_host(snapshot, diagnosis, options)
    if options.format == "json":
        output.write(show_hosts.hosts_json(found, diagnosis))
    else:
        text = show_hosts.hosts_text(found, output.terminal_columns(), diagnosis)
        output.write_text(text, options)
    if show_hosts.unreachable_hosts(found) or are_incomplete(found):
        return HostUnreachable.exit_code
    return 0


def _write_schema(options: argparse.Namespace) -> int:
    from nictop.report.facts import host as show
    from nictop.report.facts import hosts as show_hosts

    if options.hosts:
        return output.write(show_hosts.hosts_schema())
    return output.write(show.show_schema())


def _write_host(snapshot: Snapshot, diagnosis: Diagnosis, options: argparse.Namespace) -> int:
    """The host of the command line without HOST: this machine, or that of a recording."""
    from nictop.report.facts import host as show
    from nictop.report.facts import hosts as show_hosts

    findings = show_hosts.findings_about(snapshot, diagnosis)
    if options.format == "json":
        output.write(show.show_json(snapshot, findings))
    else:
        text = show.show_text(snapshot, output.terminal_columns(), findings)
        output.write_text(text, options)
    return HostUnreachable.exit_code if snapshot.incomplete else 0


def _show_stream(options: argparse.Namespace) -> int:
    for name in ("connections", "schema", "lldp"):
        if getattr(options, name):
            raise NictopError(f"--{name} and --format jsonl cannot be combined")
    from nictop.cli.show_stream import run as run_stream

    return run_stream(options)


def _show_connections(options: argparse.Namespace) -> int:
    if options.schema:
        from nictop.report.facts import connections as show

        return output.write(show.connections_schema())
    from functools import partial

    from nictop.hosts.connections import ReadConnections
    from nictop.hosts.observe import Unreachable

    modules = ("nictop.report.facts.connections",)
    nic = options.nic or ""
    found = observe_hosts(options, modules=modules, last=[partial(ReadConnections, nic)])
    if recording_path(options) is None:  # of a live host only those of this NIC were read
        nic = ""
    from nictop.report.facts import connections as show

    if not options.hosts:
        reached_hosts(found)
    if options.format == "json":
        output.write(show.connections_json(found, nic))
    else:
        output.write_text(show.connections_text(found, output.terminal_columns(), nic), options)
    codes = [answer.exit_code for answer in found if isinstance(answer, Unreachable)]
    if are_incomplete(found):
        codes.append(HostUnreachable.exit_code)
    return max(codes, default=0)
