"""``nictop diff``: what differs between two hosts, two states of one, or two NICs."""

from __future__ import annotations

import argparse
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
    observe_hosts,
    reached_hosts,
    read_recorded_hosts,
)
from nictop.errors import NictopError
from nictop.probe.kernel.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.report.diff.compare import Side

    State = tuple[Snapshot, RatesWindow]

EXIT_DIFFERS = 1
DIFF_SECONDS = 1.0
"""Of the rates that some checks need."""
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
  nictop diff a.nictop/vm1 b.nictop/vm2     one host of each recording
  nictop diff vm1:ens224 vm1:ens256         two NICs of one host

Exit codes: 0 nothing differs beyond names, addresses and counters,
1 something does, 2 usage error, 3 a host is unreachable.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop diff [OPTIONS] A B"
    parser.description = (
        "Print what differs between two hosts, two states of a host, or two NICs:\n"
        "findings of one side first, then facts; expected differences are folded."
    )
    parser.epilog = EPILOG
    parser.add_argument("sides", nargs="*", metavar="A B", help="see below")
    add_access_options(parser)
    parser.add_argument(
        "--at", metavar="TIME", help="of the recordings: 14:03:20, +SECONDS or end (default: end)"
    )
    parser.add_argument(
        "--all", action="store_true", help="also expected differences: names, addresses, counters"
    )
    add_format_option(parser, "text", "json", "markdown", "html")
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.report.diff import document

    if options.schema:
        return output.write(document.diff_schema())
    from nictop.report.diff.compare import compare_sides

    left, right = _sides(options)
    diff = compare_sides(left, right)
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
    return EXIT_DIFFERS if diff.number else 0


def _sides(options: argparse.Namespace) -> list[Side]:
    """Raises NictopError for what is no host, and for a NIC that the host does not have."""
    if len(options.sides) == 1 and is_recording_argument(options.sides[0]):
        return _two_of(options.sides[0], options.at)
    if len(options.sides) != 2:
        raise NictopError("diff takes two sides", "nictop diff vm1 vm2; see nictop diff --help")
    words = [split_nic(word) for word in options.sides]
    names = [name for name, _ in words]
    live = [name for name in dict.fromkeys(names) if not is_recording_argument(name)]
    if options.at is not None and not any(map(is_recording_argument, names)):
        raise NictopError("--at needs a recording", "nictop diff vm1 FILE --at TIME")
    states = _live_states(live, options)
    wanted = next((snapshot.host for snapshot, _ in states.values()), "")
    found = [states.get(name) or _recorded(name, options.at, wanted) for name in names]
    labels = _labels(found)
    return [
        _side(name, nic, state, label)
        for (name, nic), state, label in zip(words, found, labels, strict=True)
    ]


def _live_states(names: list[str], options: argparse.Namespace) -> dict[str, State]:
    """Of the hosts with these names. Raises HostUnreachable."""
    if not names:
        return {}
    asked = argparse.Namespace(**{**vars(options), "hosts": names, "at": None})
    found = reached_hosts(observe_hosts(asked, DIFF_SECONDS))
    return dict(zip(names, found, strict=True))


def _two_of(path: str, time: str | None) -> list[Side]:
    """Both hosts of a recording. Raises NictopError if there are more, or less."""
    found = reached_hosts(read_recorded_hosts(path, time))
    if len(found) != 2:
        names = ", ".join(snapshot.host for snapshot, _ in found)
        raise NictopError(
            f"{path} is of {len(found)} hosts: {names}",
            "name both sides: nictop diff FILE/HOST FILE/HOST",
        )
    labels = _labels(found)
    return [_side(path, "", state, label) for state, label in zip(found, labels, strict=True)]


def split_nic(word: str) -> tuple[str, str]:
    """(host or recording, NIC)"""
    found = WITH_NIC.fullmatch(word)
    recorded = host_in_recording(word)
    host = word if recorded is None else recorded[1]
    if found is None or names_kind(host):
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


def _labels(states: Sequence[State]) -> list[str]:
    """Of both sides: the hosts; of recorded ones the time, unless it is the same for both."""
    from nictop.model.snapshot import recorded_age_text
    from nictop.model.text.words import recorded_text

    snapshots = [snapshot for snapshot, _ in states]
    is_one_host = len({snapshot.host for snapshot in snapshots}) == 1
    is_one_time = len({snapshot.recorded_at for snapshot in snapshots}) == 1
    labels = []
    for snapshot in snapshots:
        no_data = recorded_age_text(snapshot)
        time = ""
        if snapshot.recorded_at is not None and (is_one_host or not is_one_time):
            time, no_data = recorded_text(snapshot.recorded_at, no_data), ""
        host = "" if time and is_one_host else snapshot.host
        labels.append(" · ".join(part for part in (host, time, no_data) if part))
    return labels


def _side(name: str, nic: str, state: State, label: str) -> Side:
    """Raises NictopError for a NIC that it does not have. `name`: as it was typed."""
    from nictop.hosts.observe import with_window_rates
    from nictop.report.diff.compare import Side
    from nictop.rules import HostFacts, diagnose

    answer = with_window_rates(state)
    assert isinstance(answer, tuple)
    snapshot, window = answer
    if nic and all(link.name != nic for link in snapshot.links.values()):
        raise NictopError(
            f"{snapshot.host} has no interface {nic}", f"nictop show {name} lists them"
        )
    if nic:
        label += f":{nic}"
    diagnosis = diagnose([HostFacts(snapshot, window.parts)])
    return Side(label, snapshot, diagnosis, nic)
