"""The hosts of a command line, live or in a recording: which ones, and one complete answer of each.

Reads nictop's configuration, or the recording that is named instead of hosts. Nothing is connected to before every word
is known to be a valid host.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nictop.errors import HostUnreachable, NictopError

if TYPE_CHECKING:
    from nictop.hosts.observe import Answer
    from nictop.hosts.specification import Host
    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.recording.reader import Recording

NOTHING_RECORDED = "nothing was known of it at this moment of the recording"


def add_time_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        metavar="TIME",
        help="HOST is a recording (see nictop record): the moment in it, as 14:03:20, 2026-11-21T14:03:20, "
        "+SECONDS from its beginning, or end (the default)",
    )


def wanted_hosts(words: Sequence[str]) -> tuple[Host, ...]:
    """The hosts that the words of the command line mean; this one if there are none. Raises NictopError."""
    from nictop.hosts.specification import LOCAL, Host, configuration_path, hosts, read_configuration

    if not words:
        return (Host(os.uname().nodename, LOCAL),)
    return hosts(words, read_configuration(configuration_path(os.environ)))


def answers(options: argparse.Namespace, seconds: float = 0.0) -> tuple[Answer, ...]:
    """One answer per host of the command line, this one if there are none; of a recording, the state at `--at`. Raises
    NictopError for a word that is not a valid host, before anything is connected to."""
    path = recording_path(options)
    if path is not None:
        return recorded_answers(path, options.at)
    import asyncio

    from nictop.hosts.connect import connect
    from nictop.hosts.observe import observe_all
    from nictop.hosts.session import HostSession

    hosts = wanted_hosts(options.hosts)

    async def observed() -> tuple[Answer, ...]:
        sessions = []
        for host in hosts:
            source = connect(
                host,
                options.interval,
                parts=True,
                sudo=options.sudo,
                accept_new_host_keys=options.accept_new_host_keys,
            )
            sessions.append(HostSession(host, source, watch_devices=True))
        return await observe_all(sessions, interval=options.interval, seconds=seconds)

    return asyncio.run(observed())


def reached(answers: Iterable[Answer], *, all_of_them: bool = True) -> list[tuple[Snapshot, RatesWindow]]:
    """The hosts that answered. Raises HostUnreachable if one did not and all are wanted."""
    from nictop.hosts.observe import Unreachable

    found = []
    for answer in answers:
        if not isinstance(answer, Unreachable):
            found.append(answer)
        elif all_of_them:
            raise HostUnreachable(f"{answer.host}: {answer.sentence}")
    return found


def recording_path(options: argparse.Namespace) -> str | None:
    """The recording that the command line names instead of hosts; None: it names hosts. Raises NictopError if it names
    both, or a time without a recording."""
    from nictop.recording.file.open import is_recording

    words: list[str] = options.hosts
    files = [word for word in words if "/" in word or is_recording(word)]
    if options.at is not None and not words:
        raise NictopError("--at wants a recording", "nictop show FILE --at TIME")
    if options.at is None and not files:
        return None
    if len(words) > 1:
        raise NictopError("a recording stands alone", "one recording, or hosts")
    return words[0]


def recorded_answers(path: str, time_text: str | None) -> tuple[Answer, ...]:
    """The state of every host of a recording at that time, by default its end. Raises NictopError."""
    from nictop.recording.reader import Recording
    from nictop.recording.time_spec import moment

    with Recording.open(path) as recording:
        time = moment(time_text or "end", recording)
        if not recording.hosts:
            raise NictopError(f"{path}: no host was heard in this recording yet")
        return tuple(_recorded_answer(recording, name, time) for name in recording.hosts)


def _recorded_answer(recording: Recording, name: str, time: float) -> Answer:
    from nictop.hosts.observe import Unreachable
    from nictop.hosts.session import HostSession
    from nictop.hosts.specification import RECORDED, Host
    from nictop.model.window import WINDOW
    from nictop.probe.records import Request

    session = HostSession(Host(name, RECORDED))
    reader = recording.reader(name, recording.since(name, time, WINDOW))
    while (recorded := reader.next()) is not None and recorded.time <= time:
        if not isinstance(recorded.item, Request):
            session.process(recorded.item, recorded.time)
    if session.snapshot.inventory is None:
        return Unreachable(name, session.snapshot.message or NOTHING_RECORDED)
    return session.snapshot, session.window
