"""The hosts of a command line, live or in a recording, and one complete answer of each.

Reads nictop's configuration, or the recording that is named instead of hosts. No connection is made
before all arguments are known to be valid hosts.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module

from nictop.cli import SUMMARIES
from nictop.errors import HostUnreachable, NictopError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.hosts.observe import Answer, Step
    from nictop.hosts.session import HostSession
    from nictop.hosts.specification import Configuration, Host
    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.recording.reader import Recording
    from nictop.wire.probe_process import StartedProbe
    from nictop.wire.source import Source

NOT_RECORDED_MESSAGE = "the recording has no inventory of this host"


NEAR = 0.8
"""Likeness (`difflib`) of a word and the command that was meant."""
RECORDING_SUFFIX = ".nictop"
FILE_NAMES_HINT = f"the name of a recording has a / or ends with {RECORDING_SUFFIX}: ./FILE"
SSH_CONFIGURATION_FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
HOST_FILES = (*SSH_CONFIGURATION_FILES, "~/.ssh/known_hosts", "/etc/hosts")
MAX_HOST_FILE_BYTES = 1 << 20
ONLY_INTERFACES = "only interfaces were read, which no check can do with"
MAX_PRINTED_TROUBLES = 3
"""Of one host."""
MAX_NAMED_HOSTS = 20
"""Of a recording, in a hint."""
MAX_INCLUDED_FILES = 64
"""Of one Include of ssh_config(5)."""


class StoreOneTime(argparse.Action):
    """Refuses a second one, which would replace the first without a word."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "one time only; nictop diff compares two")
        setattr(namespace, self.dest, values)


def add_time_option(
    parser: argparse.ArgumentParser,
    meaning: str = "HOST is a recording (FILE.nictop or ./FILE): print its state at TIME",
    default: str = "end",
) -> None:
    parser.add_argument(
        "--at",
        metavar="TIME",
        action=StoreOneTime,
        help=f"{meaning}: 14:03:20, 2026-11-21T14:03:20, +SECONDS (since it began to connect) "
        f"or end (default: {default})",
    )


def add_lldp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lldp",
        action="store_true",
        help="listen up to 35 s for LLDP and CDP frames of the switch (needs root on the host); "
        "sends nothing",
    )


def add_agents_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ask-agents",
        action="store_true",
        help="also ask the QEMU guest agent of each running virtual machine for system, CPUs, "
        "interfaces and addresses; nothing is started in a guest",
    )


def wanted_hosts(arguments: Sequence[str]) -> tuple[Host, ...]:
    """The hosts on the command line; this one if there are none. Raises NictopError, also for an
    argument that is not a known host but a file, or nearly a command: nictop would try to resolve
    it for ever."""
    from nictop.hosts.specification import LOCAL, Host, configuration_path, read_configuration

    if not arguments:
        return (Host(os.uname().nodename, LOCAL),)
    return named_hosts(arguments, read_configuration(configuration_path(os.environ)))


def named_hosts(words: Sequence[str], configuration: Configuration) -> tuple[Host, ...]:
    """The hosts that these words mean. Raises NictopError as `wanted_hosts` does."""
    from nictop.hosts.specification import requested_hosts

    for word in words:
        if word in configuration.hosts or word in configuration.groups or word in SUMMARIES:
            continue
        if _is_file(word) and not _is_known_host(word):
            raise _file_error(word)
        meant = _near_command(word)
        if meant and not _is_known_host(word):
            raise NictopError(
                f'unknown command or host "{word}". Did you mean "{meant}"?',
                f"for a host of this name: nictop USER@{word}",
            )
    return requested_hosts(words, configuration)


def _is_file(word: str) -> bool:
    """It is an existing file, or is written like the name of a recording. A directory may have the
    name of a host, but for one with recordings."""
    from nictop.recording.keep import has_segments

    if names_kind(word):
        return False
    return looks_like_recording(word) or os.path.isfile(word) or has_segments(word)


def looks_like_recording(word: str) -> bool:
    """It is written like a path or the name of a recording, or means a host in one;
    ``USER@x.nictop`` is a host, and so is ``pve/101``."""
    if host_in_recording(word) is not None:
        return True
    if names_kind(word):
        return False
    if "/" in word and not means_guest(word):
        return True
    return word.endswith(RECORDING_SUFFIX) and "@" not in word


def host_in_recording(word: str) -> tuple[str, str] | None:
    """(recording, host in it) of ``monday.nictop/vm1`` or ``/var/log/nictop/vm1``, where nothing of
    that path exists behind the recording; None: the word is not written like that."""
    if os.path.lexists(word):
        return None
    end = word.rfind("/")
    while end > 0:
        path, host = word[:end], word[end + 1 :]
        if host and _is_path(path, word) and is_recording(path):
            return path, host
        end = word.rfind("/", 0, end)
    return None


def _is_path(path: str, word: str) -> bool:
    """The beginning of this word can only mean a file or a directory of this machine."""
    if path.endswith(RECORDING_SUFFIX) and "@" not in path:
        return True
    if not _is_host_part(path.partition("/")[0]):
        return True
    return not names_kind(word) and not means_guest(word)


def means_guest(word: str) -> bool:
    """It has a slash, and is not the path of a file: ``pve/101``, ``local/netns:blue``. What stands
    in a directory of this machine is a path, unless it has the kind of a guest."""
    if names_kind(word):
        return True
    host, slash, _ = _place(word).partition("/")
    if not slash or not _is_host_part(host) or word.endswith(RECORDING_SUFFIX):
        return False
    return not os.path.isdir(host)


def names_recorded_kind(host: str) -> bool:
    """The host of a recording is reached by ``KIND:NAME``, with what is before it or without."""
    from nictop.wire.guests.levels import has_kind

    return any(has_kind(part) for part in host.split("/"))


def names_kind(word: str) -> bool:
    """What is reached through a host by ``KIND:NAME``, as ``pve/vm1/docker:web``: never a file, nor
    a host with the name of a NIC."""
    from nictop.wire.guests.levels import has_kind

    host, _, below = _place(word).partition("/")
    return _is_host_part(host) and any(has_kind(part) for part in below.split("/"))


def _place(word: str) -> str:
    """Without its label."""
    return word.rpartition("=")[2]


def _is_host_part(text: str) -> bool:
    """It is not the beginning of a path: "", ``.``, ``..`` or ``~``."""
    return bool(text.strip(".")) and not text.startswith("~")


def _file_error(word: str) -> NictopError:
    """What is wrong with a file where a host is expected."""
    from nictop.recording.file.open import open_for_reading
    from nictop.recording.segments import open_recording

    if looks_like_recording(word):
        path, _ = host_in_recording(word) or (word, "")
        open_recording(path).close()  # RecordingError: why it is none
        return NictopError(
            f"{word} is a recording, not a host",
            "nictop replay FILE opens it; show, check and report read it too",
        )
    if not os.path.isdir(word):
        os.close(open_for_reading(word))  # RecordingError: it cannot be read
    kind = "directory with recordings" if os.path.isdir(word) else "file"
    return NictopError(
        f"{word} is a {kind} here, and not a known host",
        f"for a host of this name: USER@{word}; for the {kind}: ./{word}",
    )


def _near_command(word: str) -> str:
    """The command that was meant: the same letters in another order, or nearly all of them; "":
    none."""
    from difflib import get_close_matches

    if not word.isalpha():
        return ""
    same = [name for name in SUMMARIES if sorted(name) == sorted(word)]
    return next(iter(same or get_close_matches(word, SUMMARIES, n=1, cutoff=NEAR)), "")


def _is_known_host(word: str) -> bool:
    """It is named in a file of ssh, whose names may be patterns, or in /etc/hosts."""
    from fnmatch import fnmatchcase

    for text in _texts_with_includes(HOST_FILES):
        for name in re.split(r"[\s,]+", text):
            is_of_some = bool(name.strip("*?"))  # "*" is every host
            if is_of_some and fnmatchcase(word, name):
                return True
    return False


def ssh_host_names() -> list[str]:
    """Names in the ``Host`` lines of ssh_config(5), without patterns."""
    names = []
    for text in _texts_with_includes(SSH_CONFIGURATION_FILES):
        for line in re.findall(
            r"^[ \t]*host(?:[ \t]*=|[ \t])(.+)$", text, re.IGNORECASE | re.MULTILINE
        ):
            names += [name.strip('"') for name in line.partition("#")[0].split()]
    return [name for name in names if not re.search(r"[*?!]", name)]


def _texts_with_includes(files: Iterable[str]) -> Iterator[str]:
    """Texts of these files and of those that they include; what cannot be read is left out."""
    from glob import glob

    paths = [os.path.expanduser(path) for path in files]
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(MAX_HOST_FILE_BYTES)
        except OSError:
            continue
        yield text
        for pattern in re.findall(r"^[ \t]*include[ \t]+(.+)$", text, re.IGNORECASE | re.MULTILINE):
            for pattern_word in pattern.split():
                found = glob(
                    os.path.join(os.path.expanduser("~/.ssh"), os.path.expanduser(pattern_word))
                )
                paths += [file for file in found if file not in paths][:MAX_INCLUDED_FILES]


def observe_hosts(
    options: argparse.Namespace,
    seconds: float = 0.0,
    *,
    modules: Sequence[str] = (),
    last: Sequence[Callable[[], Step]] = (),
) -> tuple[Answer, ...]:
    """One answer per host of the command line (this one if there are none), or the state of a
    recording at `--at`. `seconds`: length of the window of rates; `modules`: imported while
    readings are waited for, as the caller needs them then; `last`: make the last steps of each live
    host. Raises NictopError for an argument that is not a valid host, before any connection is
    made."""
    path = recording_path(options)
    if path is not None:
        if getattr(options, "lldp", False):
            raise NictopError("--lldp listens on live hosts, not in a recording")
        if getattr(options, "ask_agents", False):
            raise NictopError("--ask-agents asks the guests of live hosts, not of a recording")
        return read_recorded_hosts(path, options.at)
    from nictop.hosts.connect import early_local_probe

    hosts = wanted_hosts(options.hosts)
    with early_local_probe(hosts, options.interval, parts=True, sudo=options.sudo) as started:
        return _observe_live(options, hosts, started, seconds=seconds, modules=modules, last=last)


def _observe_live(
    options: argparse.Namespace,
    hosts: Sequence[Host],
    started: StartedProbe | None,
    *,
    seconds: float,
    modules: Sequence[str],
    last: Sequence[Callable[[], Step]],
) -> tuple[Answer, ...]:
    """See `observe_hosts`. `started`: see `hosts.connect.connect`."""
    from nictop.cli.progress_line import telling, waiting_line

    with telling(f"starting: {', '.join(host.label for host in hosts)}"):
        # the imports take longest on a busy machine
        import asyncio

        from nictop.cli.event_loop import result_of
        from nictop.hosts.connect import connect
        from nictop.hosts.observe import (
            HOSTS_TIMEOUT,
            MAX_CONCURRENT_HOSTS,
            observe_all,
            time_limit,
        )
        from nictop.hosts.session import HostSession

    timeout = HOSTS_TIMEOUT
    if getattr(options, "lldp", False):
        from nictop.cli import output
        from nictop.hosts.lldp import LISTENING_SECONDS, ListenForLldp, LldpRequest

        last, timeout = (*last, ListenForLldp), timeout + LldpRequest.timeout
        output.print_status(f"listening for LLDP, up to {LISTENING_SECONDS:g} s")
    if getattr(options, "ask_agents", False):
        from nictop.hosts.agents import ANSWER_SECONDS, agents_are_asked

        last, timeout = (*last, lambda: agents_are_asked), timeout + ANSWER_SECONDS

    def longest(sessions: Sequence[HostSession]) -> float:
        turns = math.ceil(len(sessions) / MAX_CONCURRENT_HOSTS)
        limits = (
            time_limit(session, interval=options.interval, seconds=seconds, timeout=timeout)
            for session in sessions
        )
        return turns * max(limits)

    async def observed() -> tuple[Answer, ...]:
        sessions = []
        for host in hosts:
            source = connect(
                host,
                options.interval,
                parts=True,
                sudo=options.sudo,
                accept_new_host_keys=options.accept_new_host_keys,
                started=started,
            )
            sessions.append(HostSession(host, source, watch_devices=True))
        importing = asyncio.ensure_future(_import(modules, sessions))
        try:
            async with waiting_line(sessions, seconds, partial(longest, sessions)):
                answers = await observe_all(
                    sessions, interval=options.interval, seconds=seconds, timeout=timeout, last=last
                )
            _print_troubles(answers)
            return answers
        finally:
            importing.cancel()

    return result_of(observed())


def connect_host(host: Host, options: argparse.Namespace) -> Source:
    """Connects to a host as the options of the command line say; what is wrong comes from the
    source."""
    from nictop.hosts.connect import connect

    return connect(
        host,
        options.interval,
        sudo=options.sudo,
        accept_new_host_keys=options.accept_new_host_keys,
    )


def _print_troubles(answers: Iterable[Answer]) -> None:
    """What is to be known about the connection to a host, and what its probe could not do."""
    from nictop.cli.output import print_status
    from nictop.hosts.observe import Unreachable
    from nictop.model.text.terminal import clean

    for answer in answers:
        if not isinstance(answer, Unreachable):
            for trouble in answer[0].troubles[-MAX_PRINTED_TROUBLES:]:
                print_status(f"{clean(answer[0].host)}: {clean(trouble.message)}")


async def _import(modules: Sequence[str], sessions: Sequence[HostSession]) -> None:
    """Import them once a host has sent an inventory: then it knows what it has to read, and only
    time has to pass."""
    from nictop.hosts.session import until

    await until(
        sessions,
        lambda: any(session.snapshot.inventory is not None for session in sessions),
        math.inf,
    )
    for name in modules:
        import_module(name)


def are_incomplete(answers: Iterable[Answer]) -> bool:
    """A host did not answer completely in time."""
    from nictop.hosts.observe import Unreachable

    return any(
        not isinstance(answer, Unreachable) and bool(answer[0].incomplete) for answer in answers
    )


def as_far_as_checked(answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """An incomplete answer with interfaces alone is none for the checks, which need the platform
    and the settings."""
    from nictop.hosts.observe import Unreachable
    from nictop.model.snapshot import has_platform

    found: list[Answer] = []
    for answer in answers:
        if isinstance(answer, Unreachable) or not answer[0].incomplete or has_platform(answer[0]):
            found.append(answer)
        else:
            snapshot, _ = answer
            found.append(Unreachable(snapshot.host, f"{ONLY_INTERFACES}: {snapshot.incomplete}"))
    return tuple(found)


def reached_hosts(
    answers: Iterable[Answer], *, require_all: bool = True
) -> list[tuple[Snapshot, RatesWindow]]:
    """Snapshot and rates of the hosts that answered. Raises HostUnreachable if one did not and
    `require_all` is set."""
    from nictop.hosts.observe import Unreachable

    found = []
    for answer in answers:
        if not isinstance(answer, Unreachable):
            found.append(answer)
        elif require_all:
            reason = answer.sentence.removeprefix(f"{answer.host}: ")
            error = HostUnreachable(f"{answer.host}: {reason}")
            error.exit_code = answer.exit_code
            raise error
    return found


def recording_path(options: argparse.Namespace) -> str | None:
    """The recording that the command line names instead of hosts; None: it names hosts. Raises
    NictopError if it names both, or a time without a recording."""
    arguments: list[str] = options.hosts
    if not arguments and options.at is None:
        return None
    files = [argument for argument in arguments if is_recording_argument(argument)]
    if options.at is not None and not arguments:
        raise NictopError("--at needs a recording", "nictop show FILE --at TIME")
    if options.at is None and not files:
        return None
    if len(arguments) > 1:
        raise NictopError(
            "a recording cannot be combined with hosts or another recording",
            "give one recording, or hosts",
        )
    if not files:
        raise NictopError(
            f"--at needs a recording, and {arguments[0]} is not written like one", FILE_NAMES_HINT
        )
    return files[0]


def is_recording_argument(word: str) -> bool:
    """It means a recording, which may not exist: `open_recording` says why it is none. A file whose
    name has neither ``/`` nor ``.nictop`` never takes the place of a host."""
    if not looks_like_recording(word):
        return False
    return is_recording(word) or not _is_known_host(word)


def is_recording(path: str) -> bool:
    """It is one, or a directory of them (``record --keep``)."""
    from nictop.recording.file.open import is_recording_file
    from nictop.recording.keep import has_segments

    return is_recording_file(path) or has_segments(path)


def read_recorded_hosts(word: str, time_text: str | None) -> tuple[Answer, ...]:
    """The state of every host of a recording at that time, by default its end; of one host if the
    word names it (`host_in_recording`). Raises NictopError."""
    from nictop.cli.output import print_status
    from nictop.recording.file.frames import EmptyRecording
    from nictop.recording.segments import open_recording
    from nictop.recording.time_spec import resolve_time

    path, wanted = host_in_recording(word) or (word, "")
    with open_recording(path, time_text=time_text) as recording:
        time = resolve_time(time_text or "end", recording)
        if not recording.hosts:
            raise EmptyRecording(f"{path}: no data of any host in this recording yet")
        if wanted:
            wanted = _recorded_host(path, wanted, recording)
        if recording.left_out:
            print_status(f"{path}: {recording.left_out}")
        recording.limit_reading_time()
        names = (wanted,) if wanted else recording.hosts
        return tuple(_recorded_answer(recording, name, time) for name in names)


def _recorded_host(path: str, wanted: str, recording: Recording) -> str:
    """Raises NictopError unless one host is meant."""
    found = recording.hosts_named(wanted)
    if len(found) == 1:
        return found[0]
    listed = ", ".join((found or recording.hosts)[:MAX_NAMED_HOSTS])
    problem = f"has several hosts {wanted}" if found else f"has no host {wanted}"
    raise NictopError(f"{path} {problem}", f"its hosts: {listed}")


def _recorded_answer(recording: Recording, name: str, time: float) -> Answer:
    from nictop.hosts.observe import Unreachable
    from nictop.hosts.session import HostSession
    from nictop.hosts.specification import RECORDED, Host
    from nictop.model.snapshot import at_recorded_time
    from nictop.model.window import RATES_WINDOW_SECONDS
    from nictop.recording.reboots import reboots_in

    session = HostSession(Host(name, RECORDED), memory_share=recording.memory_share)
    begin = recording.start_time(name, time, RATES_WINDOW_SECONDS)
    reader = recording.reader(name, begin, with_history=True)
    while (recorded := reader.next()) is not None and recorded.time <= time:
        if recorded.received is not None:
            session.process(recorded.received, recorded.time)
    if session.snapshot.inventory is None:
        has_readings = session.counted_at is not None or bool(session.snapshot.links)
        why = _why_not_recorded(recording, name, time, has_readings=has_readings)
        return Unreachable(name, session.snapshot.message or why)
    age = None if session.counted_at is None else time - session.counted_at
    recorded_at = recording.wall_time(time)
    reboots = reboots_in(recording, name, time)
    return at_recorded_time(session.snapshot, recorded_at, age, reboots), session.window


def _why_not_recorded(recording: Recording, name: str, time: float, *, has_readings: bool) -> str:
    """``no data of this host yet at +1.0 s …; it begins at +2.6 s: --at +3``: a recording begins
    with connecting, and `nictop record --time` counts from the first reading. `has_readings`: of a
    host whose interfaces were not all read."""
    begin = _begin_of_data(recording, name, time)
    if begin is None:
        return NOT_RECORDED_MESSAGE
    whole = math.ceil(begin)
    typed = f"+{whole}" if recording.begin + whole <= recording.end else "end"
    at = f"+{time - recording.begin:.1f} s"
    if has_readings:
        return (
            f"its interfaces were being read at {at}, and were with +{begin:.1f} s: use --at "
            f"{typed}; nictop replay shows what was known before"
        )
    return (
        f"no data of this host yet at {at}: the recording begins with connecting, its data with "
        f"+{begin:.1f} s; use --at {typed}"
    )


def _begin_of_data(recording: Recording, name: str, time: float) -> float | None:
    """Seconds from the begin of the recording until the first inventory of a host after `time`;
    None: there is none."""
    from nictop.probe.records import Line

    reader = recording.reader(name, time)
    while (recorded := reader.next()) is not None:
        line = recorded.item
        if isinstance(line, Line) and line.inventory is not None and recorded.time > time:
            return recorded.time - recording.begin
    return None
