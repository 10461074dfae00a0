"""The hosts of a run: which ones the command line means, and their sessions. Reads nictop's
configuration."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

from nictop.cli.hosts import named_hosts
from nictop.errors import NictopError
from nictop.hosts.connect import connect
from nictop.hosts.session import HostSession
from nictop.hosts.specification import Configuration, Host, configuration_path, read_configuration
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.traffic.plan.request import RunRequest

RUN_SAMPLE_SECONDS = 0.2
"""Between two readings, as during the run."""


def run_hosts(
    options: argparse.Namespace, request: RunRequest
) -> tuple[tuple[Host, ...], RunRequest]:
    """Client, server and observers, and the request with the names under which they are watched.
    Raises NictopError for a word that is not a host, and for an end that means several."""
    known = read_configuration(configuration_path(os.environ))
    names, words = [], []
    for side, word in (("client", request.client), ("server", request.server)):
        if side == request.foreign_side:
            names.append(word)
            continue
        names.append(one_host(word, side, known).label)
        words.append(word)
    words = list(dict.fromkeys(words)) if request.is_of_one_host else words
    every = named_hosts([*words, *options.observe], known)
    observers = tuple(host.label for host in every if host.label not in names)
    return every, replace(request, client=names[0], server=names[1], observers=observers)


def one_host(word: str, side: str, known: Configuration) -> Host:
    """The host that a word means. Raises NictopError if it is not a host, or means several."""
    meant = named_hosts([word], known)
    if len(meant) != 1:
        raise NictopError(f"{clean(word)} is a group of {len(meant)} hosts; a test has one {side}")
    return meant[0]


def sessions_of(
    options: argparse.Namespace, meant: Iterable[Host], request: RunRequest | None = None
) -> list[HostSession]:
    """Their sessions; nothing is connected to before their items are processed. Only that of the
    host of a workload may run a command."""
    return [
        HostSession(
            host,
            connect(
                host,
                RUN_SAMPLE_SECONDS,
                sudo=options.sudo,
                allow_workload=runs_workload(request, host),
                accept_new_host_keys=options.accept_new_host_keys,
            ),
            window=False,
        )
        for host in meant
    ]


def runs_workload(request: RunRequest | None, host: Host) -> bool:
    """The command of the request is to run on this host."""
    return request is not None and request.test == "workload" and host.label == request.client
