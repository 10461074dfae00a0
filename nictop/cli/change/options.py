"""Options of the commands that change a host (``nictop fix``, ``nictop setup``), and the host they specify."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.cli.arguments import add_access_options, add_allow_changes, parse_seconds
from nictop.cli.hosts import wanted_hosts
from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.hosts.specification import Host

MIN_KEEP_SECONDS, MAX_KEEP_SECONDS, DEFAULT_KEEP_SECONDS = 5.0, 600.0, 30.0
"""Seconds that a change may wait to be kept: the limits of the probe (`nictop.probe.records`)."""
EXIT_CODES = (
    "Exit codes: 0 kept, 1 undone or not confirmed, 2 usage or refused, 3 no answer from the host, 4 it failed."
)


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Those of both commands."""
    add_access_options(parser)
    add_allow_changes(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what would be changed from what to what, and end; needs no --allow-changes",
    )
    parser.add_argument("--script", action="store_true", help="print the commands as a shell script, and end")
    parser.add_argument(
        "--yes",
        action="count",
        default=0,
        help="apply it unasked, and keep it once the host has answered after it; given twice: also where it touches "
        "the link of an SSH connection or of a default route",
    )
    parser.add_argument(
        "--keep-within",
        type=_keep_within,
        default=DEFAULT_KEEP_SECONDS,
        metavar="SECONDS",
        help=f"how long the host waits to be told to keep it, {MIN_KEEP_SECONDS:g} to {MAX_KEEP_SECONDS:g} "
        f"(default {DEFAULT_KEEP_SECONDS:g})",
    )


def allowed_by(options: argparse.Namespace, host: Host) -> bool:
    """Whether the probe is to be started so that it can prepare changes, and carry them out: a dry run ends when one is
    prepared. Raises NictopError if that is needed and not allowed."""
    if options.dry_run and options.script:
        raise NictopError("--dry-run asks the host, --script does not", "leave one of them away")
    allowed: bool = options.allow_changes or host.allow_changes or options.dry_run
    if not allowed and not options.script:
        raise NictopError(
            f"nictop only reads {host.label}, unless that is allowed",
            "--allow-changes, or allow_changes = true for this host in the configuration; --script prints the commands",
        )
    return allowed and not options.script


def hosts_of(word: str, beside: Sequence[str]) -> tuple[Host, ...]:
    """The host that is changed, then `beside`. Raises NictopError for a word that is not a host, or if the first one
    means several."""
    meant = wanted_hosts([word])
    if len(meant) != 1:
        raise NictopError(f"{word} means {len(meant)} hosts, and one is changed at a time")
    return wanted_hosts([word, *beside])


def _keep_within(text: str) -> float:
    return parse_seconds(text, MIN_KEEP_SECONDS, MAX_KEEP_SECONDS)
