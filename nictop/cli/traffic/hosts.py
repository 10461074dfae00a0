"""The hosts of a run: who is meant by the words, connected and heard until the run is over.

Reads nictop's configuration. Whatever ends it, every connection is closed and every namespace of a self-test removed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from nictop.cli.output import narrate
from nictop.errors import HostUnreachable, NictopError
from nictop.hosts.connect import connect
from nictop.hosts.observe import HOSTS_PATIENCE
from nictop.hosts.specification import Host, configuration_path, hosts, read_configuration
from nictop.model.text.terminal import clean
from nictop.traffic.experiment.self_test import self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.run.host import RunHost
from nictop.wire.source import Source

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
async def heard_hosts(
    options: argparse.Namespace, wish: RunRequest
) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
    """All hosts of a run by name, each with its first inventory and counters. HostUnreachable when one gives none."""
    if options.self_test:
        async with self_test_pair(wish) as test:
            narrate(test.sentence)
            async with _heard(test.sources) as found:
                yield found, test.wish
        return
    meant, wish = run_hosts(options, wish)
    sources = [
        connect(host, INTERVAL, sudo=options.sudo, accept_new_host_keys=options.accept_new_host_keys) for host in meant
    ]
    narrate(f"connecting to {', '.join(clean(host.label) for host in meant)}")
    async with _heard(sources) as found:
        yield found, wish


@asynccontextmanager
async def _heard(sources: Sequence[Source]) -> AsyncGenerator[dict[str, RunHost], None]:
    found = {source.name: RunHost(source) for source in sources}
    followers = [asyncio.ensure_future(host.follow()) for host in found.values()]
    try:
        await asyncio.gather(*(_known(host) for host in found.values()))
        yield found
    finally:
        await asyncio.gather(*(source.close() for source in sources), return_exceptions=True)
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)


async def _known(host: RunHost) -> None:
    """Wait for the first picture of a host."""
    in_time = await host.until(partial(_told_or_gone, host), HOSTS_PATIENCE)
    snapshot = host.snapshot
    if snapshot.state in ("lost", "failed"):
        raise HostUnreachable(f"{host.name}: {snapshot.message}")
    if not in_time:
        raise HostUnreachable(f"{host.name}: no complete answer within {HOSTS_PATIENCE:g} s")


def _told_or_gone(host: RunHost) -> bool:
    snapshot = host.snapshot
    return snapshot.state in ("lost", "failed") or (snapshot.inventory is not None and snapshot.counters is not None)
