"""The hosts of a command line: which ones are meant, and what each of them says when it is looked at once.

Reads nictop's configuration, or the recording that stands in the place of the hosts. Nothing is connected to before
every word is known to be a host.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nictop.cli.recorded import recorded_answers, recording_word
from nictop.errors import HostUnreachable

if TYPE_CHECKING:
    from nictop.hosts.observe import Answer
    from nictop.hosts.specification import Host
    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow


def wanted_hosts(words: Sequence[str]) -> tuple[Host, ...]:
    """The hosts that the words of the command line mean; this one when there are none. Raises NictopError."""
    from nictop.hosts.specification import LOCAL, Host, configuration_path, hosts, read_configuration

    if not words:
        return (Host(os.uname().nodename, LOCAL),)
    return hosts(words, read_configuration(configuration_path(os.environ)))


def answers(options: argparse.Namespace, seconds: float = 0.0) -> tuple[Answer, ...]:
    """What the hosts of the command line say, this one when there are none; of a recording, what they had said at the
    moment that is wanted. Raises NictopError for a word that is no host, before anything is connected to."""
    file = recording_word(options)
    if file is not None:
        return recorded_answers(file, options.at)
    import asyncio

    from nictop.hosts.connect import connect
    from nictop.hosts.observe import observe_all

    wanted = wanted_hosts(options.hosts)

    async def observed() -> tuple[Answer, ...]:
        sources = [
            connect(
                host,
                options.interval,
                parts=True,
                sudo=options.sudo,
                accept_new_host_keys=options.accept_new_host_keys,
            )
            for host in wanted
        ]
        return await observe_all(sources, interval=options.interval, seconds=seconds)

    return asyncio.run(observed())


def reached(answers: Iterable[Answer], *, all_of_them: bool = True) -> list[tuple[Snapshot, RatesWindow]]:
    """The hosts that answered. Raises HostUnreachable when one did not and all are wanted."""
    from nictop.hosts.observe import Unreachable

    found = []
    for answer in answers:
        if not isinstance(answer, Unreachable):
            found.append(answer)
        elif all_of_them:
            raise HostUnreachable(f"{answer.host}: {answer.sentence}")
    return found
