"""The hosts of a run: which ones the command line means, and their sessions until the run is over.

Reads nictop's configuration. Whatever ends it, every connection is closed and every namespace of a self-test removed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

from nictop.cli.output import narrate
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.connect import connect
from nictop.hosts.observe import HOSTS_TIMEOUT
from nictop.hosts.session import HostSession, running
from nictop.hosts.specification import LOCAL, Host, configuration_path, hosts, read_configuration
from nictop.model.text.terminal import clean
from nictop.traffic.experiment.self_test import self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.run.host import RunHost

INTERVAL = 0.2
"""Seconds between two readings, as in the run that follows."""


def run_hosts(options: argparse.Namespace, wish: RunRequest) -> tuple[tuple[Host, ...], RunRequest]:
    """Client, server and observers, and the wish with the names under which they are watched. NictopError for a word
    that is no host, and for an end that would be several."""
    known = read_configuration(configuration_path(os.environ))
    names = []
    for side, word in (("client", wish.client), ("server", wish.server)):
        meant = hosts([word], known)
        if len(meant) != 1:
            raise NictopError(f"{clean(word)} means {len(meant)} hosts, and a run has one {side}")
        names.append(meant[0].label)
    every = hosts([wish.client, wish.server, *options.observe], known)
    observers = tuple(host.label for host in every if host.label not in names)
    return every, replace(wish, client=names[0], server=names[1], observers=observers)


@asynccontextmanager
async def connected_hosts(
    options: argparse.Namespace, wish: RunRequest
) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
    """All hosts of a run by name, each with inventory and counters. Raises HostUnreachable if one sends none."""
    if options.self_test:
        async with self_test_pair(wish) as test:
            narrate(test.sentence)
            sessions = [HostSession(Host(one.name, LOCAL), one, window=False) for one in test.sources]
            async with _run_hosts(sessions) as found:
                yield found, test.wish
        return
    meant, wish = run_hosts(options, wish)
    sessions = []
    for host in meant:
        source = connect(host, INTERVAL, sudo=options.sudo, accept_new_host_keys=options.accept_new_host_keys)
        sessions.append(HostSession(host, source, window=False))
    narrate(f"connecting to {', '.join(clean(host.label) for host in meant)}")
    async with _run_hosts(sessions) as found:
        yield found, wish


@asynccontextmanager
async def _run_hosts(sessions: list[HostSession]) -> AsyncGenerator[dict[str, RunHost], None]:
    async with running(*sessions):
        hosts = {session.name: RunHost(session) for session in sessions}
        await asyncio.gather(*map(_wait_for_readings, sessions))
        yield hosts


async def _wait_for_readings(session: HostSession) -> None:
    in_time = await session.until(lambda: session.is_unreachable or session.has_readings, HOSTS_TIMEOUT)
    if session.is_unreachable:
        raise HostUnreachable(f"{session.name}: {session.snapshot.message}")
    if not in_time:
        raise HostUnreachable(f"{session.name}: no complete answer within {HOSTS_TIMEOUT:g} s")
