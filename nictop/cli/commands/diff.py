"""``nictop diff``: what differs between two hosts, two states of one, or two NICs."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import (
    add_access_options,
    add_format_option,
    add_schema_option,
)
from nictop.cli.hosts import (
    host_in_recording,
    is_recording_argument,
    names_kind,
    names_recorded_kind,
    observe_hosts,
    reached_hosts,
    read_recorded_hosts,
)
from nictop.errors import HostUnreachable, NictopError
from nictop.probe.kernel.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.report.diff.findings import Side

    State = tuple[Snapshot, RatesWindow]

EXIT_DIFFERS = 1
DIFF_SECONDS = 1.0
"""Of the rates that some checks need."""
ONE_TIME_SECONDS = 1.0
"""Times of two recordings that are as close are one: users type whole seconds."""
WITH_NIC = pattern(r"(?P<host>[^\[\]:]+|.*\]):(?P<nic>(?![0-9]+$)[^/:]+)")
"""``vm1:ens224``; after a colon only digits are a port. What has a ``KIND:NAME`` has no NIC: names
may have colons."""
EPILOG = """\
A and B are hosts, recordings, or one NIC of either: vm1, root@pve:2222,
vm1:ens224, monday.nictop, monday.nictop:ens224. NICs of two hosts are matched
by name, subnet, slot and driver; so are bonds, bridges and VLANs with an
address, and the veth of a container. Of a recording of several hosts,
monday.nictop/vm1 is one; without a name that of the other side. What is
reached by KIND:NAME (local/docker:web) has no :NIC behind it.

examples:
  nictop diff vm1 vm2                       two guests
  nictop diff monday.nictop                 both hosts of a recording
  nictop diff vm1 monday.nictop --at 14:03  this host, and as it was
  nictop diff monday.nictop/vm1 monday.nictop/vm1 --at 14:03 --at 14:10
                                            two moments of a recording
  nictop diff a.nictop/vm1 b.nictop/vm2     one host of each recording
  nictop diff vm1:ens224 vm1:ens256         two NICs of one host

Exit codes: 0 nothing is known to differ beyond names, addresses and counters,
of one host at two times beyond counters and times (what was not read or
checked on one side is listed), 1 something does, 2 usage error, 3 a host is
unreachable or did not answer completely in time.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop diff [OPTIONS] A B"
    parser.description = (
        "Print what differs between two hosts, two states of a host, or two NICs:\n"
        "findings of one side and between both hosts first, then facts; of lists only\n"
        "what the other side does not have. Expected differences are folded."
    )
    parser.epilog = EPILOG
    parser.add_argument("sides", nargs="*", metavar="A B", help="see below")
    add_access_options(parser)
    parser.add_argument(
        "--at",
        metavar="TIME",
        action="append",
        help="of the recordings: 14:03:20, +SECONDS or end (default: end); given twice: of A, of B",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also expected differences: names, addresses, counters; of one host: counters, times",
    )
    add_format_option(parser, "text", "json", "markdown", "html")
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.report.diff import document

    if options.schema:
        return output.write(document.diff_schema())
    from nictop.report.diff.compare import compare_sides

    left, right = _sides(options)
    diff = compare_sides(left, right, is_one_moment=left.diagnosis is right.diagnosis)
    if options.format == "json":
        output.write(document.diff_json(diff))
    elif options.format == "markdown":
        output.write(document.diff_markdown(diff, everything=options.all))
    elif options.format == "html":
        output.write(document.diff_html(diff, everything=options.all))
    else:
        text = document.diff_text(
            diff,
            output.terminal_columns(),
            everything=options.all,
            glyphs=output.glyphs_for(options),
        )
        output.write_text(text, options)
    if diff.number:
        return EXIT_DIFFERS
    if left.snapshot.incomplete or right.snapshot.incomplete:
        return HostUnreachable.exit_code
    return 0


def _sides(options: argparse.Namespace) -> list[Side]:
    """Raises NictopError for what is no host, and for a NIC that the host does not have."""
    times = _times(options.at)
    if len(options.sides) == 1 and is_recording_argument(options.sides[0]):
        return _two_of(options.sides[0], times)
    if len(options.sides) != 2:
        raise NictopError("diff takes two sides", "nictop diff vm1 vm2; see nictop diff --help")
    words = [split_nic(word) for word in options.sides]
    names = [name for name, _ in words]
    live = [name for name in dict.fromkeys(names) if not is_recording_argument(name)]
    _check_times(options.at or [], names, live)
    states = _states(names, times, _live_states(live, options))
    if not live:
        _refuse_one_moment(words, states)
    return _sides_of(words, states)


def _check_times(given: list[str], names: Sequence[str], live: Sequence[str]) -> None:
    """Only a recording has times. Raises NictopError."""
    if given and len(live) == len(set(names)):
        raise NictopError("--at needs a recording", "nictop diff vm1 FILE --at TIME")
    if live and len(given) > 1:
        raise NictopError(
            f"two times need two recordings, and {live[0]} is a host",
            "nictop diff HOST FILE --at TIME",
        )


def _states(
    names: Sequence[str], times: Sequence[str | None], live: Mapping[str, State]
) -> list[State]:
    """Of both sides. `live`: those of the hosts. A recording may have one of them, too."""
    wanted_host = ""
    if live:
        snapshot, _ = next(iter(live.values()))
        wanted_host = snapshot.host
    states = []
    for name, time in zip(names, times, strict=True):
        state = live.get(name) or _recorded(name, time, wanted_host)
        states.append(state)
    return states


def _times(given: list[str] | None) -> tuple[str | None, str | None]:
    """Of A and of B. Raises NictopError for more than two."""
    if not given:
        return None, None
    if len(given) > 2:
        raise NictopError("--at may be given twice: for A and for B")
    return given[0], given[-1]


def _refuse_one_moment(words: Sequence[tuple[str, str]], states: Sequence[State]) -> None:
    """Raises NictopError if both are one host, or one NIC, at one time of one recording."""
    places = {
        (os.path.realpath(_file_of(word)), nic, snapshot.host, snapshot.recorded_at)
        for (word, nic), (snapshot, _) in zip(words, states, strict=True)
    }
    if len(places) == 1:
        raise NictopError(
            "both sides are the same moment of one recording",
            "two moments of it: nictop diff FILE FILE --at TIME --at TIME",
        )


def _file_of(word: str) -> str:
    """The recording, without the host in it."""
    found = host_in_recording(word)
    return word if found is None else found[0]


def _live_states(names: list[str], options: argparse.Namespace) -> dict[str, State]:
    """Of the hosts with these names. Raises HostUnreachable."""
    if not names:
        return {}
    asked = argparse.Namespace(**{**vars(options), "hosts": names, "at": None})
    found = reached_hosts(observe_hosts(asked, DIFF_SECONDS))
    return dict(zip(names, found, strict=True))


def _two_of(word: str, times: tuple[str | None, str | None]) -> list[Side]:
    """Both hosts of a recording; of a recording of one host, its two times. Raises NictopError if
    there are more hosts."""
    first = second = reached_hosts(read_recorded_hosts(word, times[0]))
    if times[1] != times[0]:
        second = reached_hosts(read_recorded_hosts(word, times[1]))
    if len(first) == len(second) == 1 and first is not second:
        words, found = [(word, "")] * 2, [first[0], second[0]]
        _refuse_one_moment(words, found)
        return _sides_of(words, found)
    if len(first) != 2 or len(second) != 2:
        names = ", ".join(snapshot.host for snapshot, _ in first)
        raise NictopError(
            f"{word} is of {len(first)} hosts: {names}",
            "name both sides: nictop diff FILE/HOST FILE/HOST",
        )
    return _sides_of([(word, "")] * 2, [first[0], second[1]])


def split_nic(word: str) -> tuple[str, str]:
    """(host or recording, NIC)"""
    found = WITH_NIC.fullmatch(word)
    recorded = host_in_recording(word)
    has_kind = names_kind(word) if recorded is None else names_recorded_kind(recorded[1])
    if found is None or has_kind:
        return word, ""
    return found["host"], found["nic"]


def _recorded(path: str, time: str | None, wanted: str) -> State:
    """The host of a recording; of several that with the name `wanted`. Raises NictopError."""
    found = reached_hosts(read_recorded_hosts(path, time))
    named = [state for state in found if state[0].host == wanted]
    if len(found) == 1 or named:
        return (named or found)[0]
    names = ", ".join(snapshot.host for snapshot, _ in found)
    raise NictopError(
        f"{path} has several hosts: {names}",
        f"one of them: {path}/{found[0][0].host}",
    )


def _labels(words: Sequence[tuple[str, str]], states: Sequence[State]) -> list[str]:
    """Of both sides: the hosts; of recorded ones the time, unless it is the same for both. The time
    alone if nothing else differs."""
    from nictop.model.snapshot import recorded_age_text
    from nictop.model.text.words import recorded_text

    snapshots = [snapshot for snapshot, _ in states]
    is_one_host = len({snapshot.host for snapshot in snapshots}) == 1
    is_one_time = len({snapshot.recorded_at for snapshot in snapshots}) == 1
    are_two_nics = len({nic for _, nic in words}) > 1
    has_time = not is_one_time or (is_one_host and not are_two_nics)
    labels = []
    for snapshot in snapshots:
        no_data = recorded_age_text(snapshot)
        time = ""
        if snapshot.recorded_at is not None and has_time:
            time, no_data = recorded_text(snapshot.recorded_at, no_data), ""
        host = "" if time and is_one_host else snapshot.host
        labels.append(" · ".join(part for part in (host, time, no_data) if part))
    return labels


def _sides_of(words: Sequence[tuple[str, str]], states: Sequence[State]) -> list[Side]:
    """Two hosts at one time have one diagnosis, with the rules that compare hosts. `words`: (host
    or recording, NIC) as typed. Raises NictopError for a NIC that a host does not have."""
    from nictop.hosts.observe import with_window_rates
    from nictop.report.diff.findings import Side
    from nictop.rules import HostFacts, diagnose

    hosts = []
    for (word, nic), state in zip(words, states, strict=True):
        answer = with_window_rates(state)
        assert isinstance(answer, tuple)
        _require_nic(answer[0], nic, word)
        hosts.append(HostFacts(answer[0], answer[1].parts))
    if _are_two_at_one_time([host.snapshot for host in hosts]):
        diagnoses = [diagnose(hosts)] * 2
    else:
        diagnoses = [diagnose([host]) for host in hosts]
    labels = _labels(words, states)
    sides = []
    for (_, nic), host, diagnosis, label in zip(words, hosts, diagnoses, labels, strict=True):
        sides.append(Side(f"{label}:{nic}" if nic else label, host.snapshot, diagnosis, nic))
    return sides


def _are_two_at_one_time(snapshots: Sequence[Snapshot]) -> bool:
    """Both now, or both at one time of recordings: what is between two hosts is not known of
    different times."""
    left, right = snapshots
    if left.host == right.host:
        return False
    if left.recorded_at is None or right.recorded_at is None:
        return left.recorded_at is right.recorded_at
    return abs(left.recorded_at - right.recorded_at) < ONE_TIME_SECONDS


def _require_nic(snapshot: Snapshot, nic: str, word: str) -> None:
    """Raises NictopError. `word`: its host, as it was typed."""
    if nic and all(link.name != nic for link in snapshot.links.values()):
        raise NictopError(
            f"{snapshot.host} has no interface {nic}", f"nictop show {word} lists them"
        )
