"""``nictop drops``: monitors dropped packets for some seconds, and prints why they were dropped."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import (
    add_format_option,
    add_hosts,
    add_schema_option,
    watch_seconds,
)
from nictop.cli.hosts import wanted_hosts
from nictop.errors import HostUnreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nictop.hosts.session import HostSession
    from nictop.report.drops import HostDrops

DEFAULT_SECONDS = 10.0
EXIT_NOT_MONITORED = 4
EPILOG = """\
examples:
  sudo nictop drops                     this host, 10 s
  nictop drops vm1 vm2 --sudo --seconds 30

Uses the drop monitor of the kernel (generic netlink NET_DM, as dropwatch does)
while it runs. The kernel may load its module drop_monitor, which stays loaded.

Exit codes: 0 monitored, 2 usage error, 3 host unreachable, 4 a host could not
be monitored: no root, not offered by its kernel, or used by another program.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Why packets are dropped: the kernel's drop reasons by NIC and function, their\n"
        "meaning, findings that explain them, commands for further diagnosis. Needs root."
    )
    parser.epilog = EPILOG
    add_hosts(parser)
    parser.add_argument(
        "--seconds",
        type=watch_seconds,
        default=DEFAULT_SECONDS,
        metavar="SECONDS",
        help="duration, 1 to 60 (default: %(default)g)",
    )
    add_format_option(parser, "text", "json")
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.report import drops
    from nictop.report.facts.hosts import UnreachableHost

    if options.schema:
        return output.write(drops.drops_schema())
    results = _monitor(options)
    if options.format == "json":
        output.write(drops.drops_json(results))
    else:
        glyphs = output.glyphs_for(options)
        output.write_text(drops.drops_text(results, output.terminal_columns(), glyphs), options)
    if any(isinstance(result, UnreachableHost) for result in results):
        return HostUnreachable.exit_code
    unmonitored = [result for result in results if result.report.state in drops.STATE_TEXTS]  # type: ignore[union-attr]
    return EXIT_NOT_MONITORED if unmonitored else 0


def _monitor(options: argparse.Namespace) -> Sequence[HostDrops]:
    import asyncio
    from functools import partial

    from nictop.cli.event_loop import result_of
    from nictop.cli.progress_line import ProgressLine, waiting_line
    from nictop.errors import NictopError
    from nictop.hosts.connect import connect
    from nictop.hosts.observe import HOSTS_TIMEOUT
    from nictop.hosts.session import HostSession, running, slowest_factor
    from nictop.report.facts.hosts import UnreachableHost
    from nictop.traffic.drops.session import DropsSession

    hosts = wanted_hosts(options.hosts)

    async def monitor(session: HostSession, line: ProgressLine) -> HostDrops:
        try:
            return await DropsSession(session, options.seconds, timeout=HOSTS_TIMEOUT).run(
                line.finish, line.log
            )
        except NictopError as error:
            return UnreachableHost(session.name, error.message.removeprefix(f"{session.name}: "))

    def limit(sessions: Sequence[HostSession]) -> float:
        return HOSTS_TIMEOUT * slowest_factor(sessions)

    async def monitor_all() -> Sequence[HostDrops]:
        access = {"sudo": options.sudo, "accept_new_host_keys": options.accept_new_host_keys}
        sessions = [
            HostSession(host, connect(host, options.interval, **access), watch_devices=True)
            for host in hosts
        ]
        async with (
            running(*sessions),
            waiting_line(sessions, None, partial(limit, sessions), logs=False) as line,
        ):
            return await asyncio.gather(*(monitor(session, line) for session in sessions))

    return result_of(monitor_all())
