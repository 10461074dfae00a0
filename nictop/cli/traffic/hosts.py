"""The hosts of a run: which ones the command line means, and their sessions. Reads nictop's configuration."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import replace

from nictop.errors import NictopError
from nictop.hosts.connect import connect
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host, configuration_path, hosts, read_configuration
from nictop.model.text.terminal import clean
from nictop.traffic.plan.request import RunRequest

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


def sessions_of(options: argparse.Namespace, meant: Iterable[Host]) -> list[HostSession]:
    """Their sessions; nothing is connected to before their items are processed."""
    return [
        HostSession(
            host,
            connect(host, INTERVAL, sudo=options.sudo, accept_new_host_keys=options.accept_new_host_keys),
            window=False,
        )
        for host in meant
    ]
