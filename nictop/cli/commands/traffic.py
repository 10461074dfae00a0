"""``nictop traffic``: runs between two hosts; ``--list``: the stored runs."""

from __future__ import annotations

import argparse
import os
import sys

from nictop.cli import output
from nictop.cli.terminal import is_dumb, is_terminal
from nictop.cli.traffic.options import add_arguments, request_of
from nictop.errors import NictopError
from nictop.model.text.terminal import clean

__all__ = ["add_arguments", "run"]


def run(options: argparse.Namespace) -> int:
    if options.list or options.schema:
        return _print_stored_or_schema(options)
    if options.since is not None or options.until is not None:
        from nictop.cli.traffic.interval import run_interval

        return run_interval(options)
    _check_endpoints(options)
    plain = options.plain or options.format is not None or not _has_terminal()
    request = request_of(options, plain=plain)
    if plain:
        from nictop.cli.traffic.plain import run_plain

        return run_plain(options, request)
    from nictop.cli.traffic.screen import run_on_screen

    return run_on_screen(options, request)


def _check_endpoints(options: argparse.Namespace) -> None:
    """Raises NictopError if hosts are missing, or given with --self-test, which needs none."""
    if options.foreign:
        _check_foreign(options)
    elif options.wait is not None:
        raise NictopError("--wait is for a foreign client", "nictop traffic ADDRESS HOST --foreign")
    if options.self_test:
        if options.client is not None:
            raise NictopError("--self-test takes no hosts", "omit the hosts")
        given = _endpoint_option(options)
        if given:
            raise NictopError(f"--self-test cannot be combined with {given}", "omit one of them")
    elif options.workload is not None or options.manual:
        _check_one_host(options)
    elif options.server is None:
        missing = "CLIENT and SERVER are" if options.client is None else "SERVER is"
        raise NictopError(
            f"{missing} missing", "nictop traffic CLIENT SERVER, or nictop traffic --self-test"
        )


def _check_foreign(options: argparse.Namespace) -> None:
    """Raises NictopError for ends of which none is an address, and for options about the host of
    the foreign one."""
    from nictop.traffic.plan.foreign import foreign_side

    if options.server is None:
        return
    side = foreign_side(options.client, options.server)
    for name in (f"{side}_nic", f"{side}_address"):
        if getattr(options, name):
            raise NictopError(f"--foreign excludes --{name.replace('_', '-')}", "omit one of them")
    if options.wait is not None and side == "server":
        raise NictopError("--wait is for a foreign client", "nictop traffic ADDRESS HOST --foreign")


def _check_one_host(options: argparse.Namespace) -> None:
    """Raises NictopError unless exactly one host is given."""
    name = "--manual" if options.manual else "--workload"
    if options.client is None:
        raise NictopError("HOST is missing", f"nictop traffic HOST {name} …")
    if options.server is not None:
        raise NictopError(
            f"{name} measures one host", f"--observe {clean(options.server)} monitors the other one"
        )


def _endpoint_option(options: argparse.Namespace) -> str:
    """The first option about endpoints or observers; "": none is given."""
    for name in (
        *("client_nic", "client_address", "server_nic", "server_address", "observe"),
        *("workload", "manual", "foreign"),
    ):
        if getattr(options, name):
            return f"--{name.replace('_', '-')}"
    return ""


def _has_terminal() -> bool:
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    return all(map(is_terminal, streams)) and not is_dumb()


def _print_stored_or_schema(options: argparse.Namespace) -> int:
    from nictop.report.runs import json as run_json

    if options.schema and options.list:
        return output.write(run_json.stored_runs_schema())
    if options.schema:
        return output.write(run_json.traffic_schema())
    if options.client is not None:
        raise NictopError("--list takes no hosts", "omit the hosts")
    if options.format == "markdown":
        raise NictopError("--list does not support --format markdown", "use --format text or json")
    from nictop.report.runs.text import stored_runs_text
    from nictop.traffic.results.selection import directory, stored_runs

    runs = stored_runs(directory(os.environ))
    if options.format == "json":
        return output.write(run_json.stored_runs_json(runs))
    text = stored_runs_text(runs, output.terminal_columns(), output.glyphs_for(options))
    return output.write_text(text, options)
