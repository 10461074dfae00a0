"""Options of the commands that change a host (``nictop fix``, ``nictop setup``), and the host they
specify."""

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
    "Exit codes: 0 confirmed, 1 rolled back or not confirmed, 2 usage error or refused, "
    "3 host unreachable, 4 failed."
)


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Those of both commands, and of the jobs of ``setup``: without them no attribute is set, so
    that a job does not reset what precedes its name."""
    add_access_options(parser)
    add_allow_changes(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the plan (current and new values) and exit; needs no --allow-changes",
    )
    parser.add_argument(
        "--script",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print the commands as a shell script and exit; needs no --allow-changes",
    )
    parser.add_argument(
        "--yes",
        action="count",
        default=argparse.SUPPRESS,
        help=(
            "do not ask for confirmation; keep the change if the host still answers. Given twice: "
            "also if it affects "
            "the link of an SSH connection or default route"
        ),
    )
    parser.add_argument(
        "--keep-within",
        type=_keep_within,
        default=argparse.SUPPRESS,
        metavar="SECONDS",
        help=(
            f"seconds until rollback without confirmation, {MIN_KEEP_SECONDS:g} to "
            f"{MAX_KEEP_SECONDS:g} (default "
            f"{DEFAULT_KEEP_SECONDS:g})"
        ),
    )


def set_change_defaults(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(dry_run=False, script=False, yes=0, keep_within=DEFAULT_KEEP_SECONDS)


def allowed_by(options: argparse.Namespace, host: Host) -> bool:
    """Whether the probe is to be started so that it can carry out changes; every probe can read the
    plan of one, which is all that a dry run needs. Raises NictopError if that is needed and not
    allowed."""
    if options.dry_run and options.script:
        raise NictopError("--dry-run and --script cannot be combined", "omit one of them")
    if options.dry_run or options.script:
        return False
    allowed: bool = options.allow_changes or host.allow_changes
    if not allowed:
        raise NictopError(
            f"changes are disabled for {host.label}",
            "add --allow-changes, or allow_changes = true for this host in config.toml; --dry-run "
            "shows the plan",
        )
    return True


def hosts_of(word: str, beside: Sequence[str]) -> tuple[Host, ...]:
    """The host that is changed, then `beside`. Raises NictopError for a word that is not a host, or
    if the first one means several."""
    hosts = wanted_hosts([word])
    if len(hosts) != 1:
        raise NictopError(f"{word} is a group of {len(hosts)} hosts; a change applies to one host")
    return wanted_hosts([word, *beside])


def _keep_within(text: str) -> float:
    return parse_seconds(text, MIN_KEEP_SECONDS, MAX_KEEP_SECONDS)
