"""``nictop report``: writes a report about hosts (live or recorded), stored runs and path tests."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import (
    MAX_WATCH_SECONDS,
    MIN_WATCH_SECONDS,
    add_access_options,
    watch_seconds,
)
from nictop.cli.hosts import (
    RECORDING_SUFFIX,
    add_time_option,
    are_incomplete,
    host_in_recording,
    is_recording,
    is_recording_argument,
    means_guest,
    names_kind,
)
from nictop.errors import HostUnreachable, NictopError
from nictop.probe.light_dataclasses import dataclass

if TYPE_CHECKING:
    from nictop.hosts.observe import Answer
    from nictop.replay.results import RecordedResults, RecordedTest
    from nictop.traffic.path.store import StoredPath
    from nictop.traffic.results.selection import StoredRun

REPORT_WATCH_SECONDS = 10.0
"""Default of --watch: the longest window that a rule needs."""
MIN_IDENTITY_CHARS = 4
"""Characters of the beginning of an identity; a shorter word is the name of a host."""
HEX_DIGITS = frozenset("0123456789abcdef")
FILE_SUFFIXES = {"html": "html", "markdown": "md"}
MARKDOWN_SUFFIXES = (".md", ".markdown")

EPILOG = """\
RECORDING is a file made by nictop record. RUN is a saved result: its id (at
least four characters), its file or its label (nictop traffic --list, nictop
path --list). Any other argument is a host. FILE is created with mode 0600 and
not overwritten without --force; - is stdout.

examples:
  nictop report vm1 vm2 -o ticket.html
  nictop report 5d0c -o sweep.html       a saved traffic test
  nictop report vm1 vm2 --redact         without names and addresses
  nictop report --format markdown -o -   or: -o ticket.md

Exit codes: 0 written, 2 usage error, 3 a host is unreachable or did not
answer completely in time (see the report).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop report [OPTIONS] [HOST|RECORDING|RUN ...]"
    parser.description = "Write a report for a ticket: hosts, findings with fixes, traffic tests."
    parser.epilog = EPILOG
    parser.add_argument(
        "hosts",
        nargs="*",
        metavar="HOST|RECORDING|RUN",
        help="contents of the report; default: this host",
    )
    add_access_options(parser)
    add_time_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file; default: nictop-report-DATE-TIME.html (or .md) in this directory",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument(
        "--format",
        choices=tuple(FILE_SUFFIXES),
        help="default: markdown if FILE ends in .md, else html",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace host and profile names, IP and MAC addresses, serial numbers and UUIDs with "
        "aliases",
    )
    parser.add_argument(
        "--watch",
        type=watch_seconds,
        default=REPORT_WATCH_SECONDS,
        metavar="SECONDS",
        help=(
            f"measure rates for {MIN_WATCH_SECONDS:g} to {MAX_WATCH_SECONDS:g} seconds (default "
            f"{REPORT_WATCH_SECONDS:g})"
        ),
    )


def run(options: argparse.Namespace) -> int:
    from nictop.files import check_new_file
    from nictop.hosts.observe import Unreachable
    from nictop.report.page import report_of

    named = classify_subjects(options.hosts)
    wall = time.time()
    format_name = options.format or _format_of(options.output)
    path = options.output or _default_name(format_name)
    if path != "-":
        check_new_file(path, replace=options.force)  # before hosts are observed
    at: str | None = options.at
    answers = _answers(named, at, options)
    recorded = _recorded_runs(named, at)
    runs, without_result = (*recorded.runs, *named.runs), recorded.missing
    path_tests = named.path_tests
    hidden: tuple[str, ...] = ()
    if options.redact:
        from nictop.report.redaction.redaction import redact

        answers, runs, path_tests, without_result, hidden = redact(
            answers, runs, path_tests, without_result
        )
    report = report_of(
        answers, runs, path_tests, wall=wall, without_result=without_result, hidden=hidden
    )
    if format_name == "html":
        from nictop.report.html.page import html_page as page
    else:
        from nictop.report.markdown import markdown_page as page
    _write(page(report), path, options)
    for sentence in hidden:
        output.print_status(sentence)
    if any(isinstance(answer, Unreachable) for answer in answers) or are_incomplete(answers):
        return HostUnreachable.exit_code
    return 0


def _default_name(format_name: str) -> str:
    return f"nictop-report-{time.strftime('%Y%m%d-%H%M%S')}.{FILE_SUFFIXES[format_name]}"


def _format_of(output: str | None) -> str:
    if output is not None and output.lower().endswith(MARKDOWN_SUFFIXES):
        return "markdown"
    return "html"


def _answers(named: Subjects, at: str | None, options: argparse.Namespace) -> tuple[Answer, ...]:
    """Answers of the recordings and of the hosts; if only runs are named, no host is observed."""
    from nictop.cli.hosts import observe_hosts, read_recorded_hosts

    if at is not None and not named.recordings:
        raise NictopError("--at needs a recording", "nictop report FILE --at TIME")
    found: list[Answer] = []
    for path in named.recordings:
        found += read_recorded_hosts(path, at)
    if named.observes_hosts:
        options.hosts, options.at = list(named.hosts), None
        found += observe_hosts(options, options.watch)
    return tuple(found)


def _recorded_runs(named: Subjects, at: str | None) -> RecordedResults:
    """The runs in the recordings that had ended by then, of all their hosts; for the others the
    reason is also printed."""
    from nictop.recording.segments import open_recording
    from nictop.recording.time_spec import resolve_time
    from nictop.replay.results import RecordedResults, recorded_results

    tests: list[RecordedTest] = []
    left_out: list[str] = []
    paths = [(host_in_recording(word) or (word,))[0] for word in named.recordings]
    for path in dict.fromkeys(paths):
        with open_recording(path, time_text=at) as recording:
            recording.limit_reading_time()
            found = asyncio.run(recorded_results(recording, resolve_time(at or "end", recording)))
        for test in found.missing:
            output.print_status(test.sentence)
        tests += found.tests
        left_out += found.left_out
    return RecordedResults(tuple(tests), tuple(left_out))


def _write(page: str, path: str, options: argparse.Namespace) -> None:
    from nictop.files import write_new_file
    from nictop.model.text.terminal import clean

    if path == "-":
        output.write(page)
        return
    write_new_file(path, page, replace=options.force)
    output.print_status(f"written: {clean(path)}")


@dataclass(frozen=True)
class Subjects:
    """The subjects of a report, in the order of the command line."""

    hosts: tuple[str, ...] = ()
    """As on the command line."""
    recordings: tuple[str, ...] = ()
    """Paths, or hosts in recordings (`host_in_recording`)."""
    runs: tuple[StoredRun, ...] = ()
    path_tests: tuple[StoredPath, ...] = ()

    @property
    def observes_hosts(self) -> bool:
        """Hosts are observed: those that are named, or this one if there are no other subjects."""
        others = (*self.recordings, *self.runs, *self.path_tests)
        return bool(self.hosts) or not others


def classify_subjects(words: Sequence[str]) -> Subjects:
    """Each word is a file, an identity or label of stored runs or path tests, or else a host.
    Raises NictopError for a file that is neither a recording nor a result."""
    hosts: list[str] = []
    recordings: list[str] = []
    runs: list[StoredRun] = []
    path_tests: list[StoredPath] = []
    stored: tuple[list[StoredRun], list[StoredPath]] | None = None
    for word in words:
        if _is_recording(word):
            recordings.append(word)
            continue
        if names_kind(word):
            hosts.append(word)
            continue
        if _is_file(word):
            runs_in_file, tests_in_file = _results_in_file(word)
            runs += runs_in_file
            path_tests += tests_in_file
            continue
        if stored is None:
            stored = _stored_results()
        runs_of_word, tests_of_word = _runs_of(word, stored[0]), _path_tests_of(word, stored[1])
        runs += runs_of_word
        path_tests += tests_of_word
        if not runs_of_word and not tests_of_word:
            hosts.append(word)
    return Subjects(tuple(hosts), tuple(recordings), tuple(runs), tuple(path_tests))


def _is_recording(word: str) -> bool:
    """A path may also be that of a result."""
    if not is_recording_argument(word):
        return False
    if word.endswith(RECORDING_SUFFIX) or is_recording(word):
        return True
    return host_in_recording(word) is not None


def _is_file(word: str) -> bool:
    """As for recordings: no other file takes the place of a host or of a label."""
    return word.endswith(".json") or (os.sep in word and not means_guest(word))


def _results_in_file(path: str) -> tuple[list[StoredRun], list[StoredPath]]:
    """One result, or all results of a directory."""
    from nictop.traffic.path.store import PATH_FILES
    from nictop.traffic.results.selection import read_run

    if os.path.isdir(path):
        return _results_in(Path(path), Path(path))
    with suppress(NictopError):  # else a run, or the reason why it is none
        return [], [PATH_FILES.read(Path(path))]
    return [read_run(Path(path))], []


def _stored_results() -> tuple[list[StoredRun], list[StoredPath]]:
    """Oldest first; none if there is no directory for them."""
    from nictop.traffic.path.store import PATH_FILES
    from nictop.traffic.results.selection import directory

    with suppress(NictopError):  # no home directory, so no results
        return _results_in(directory(os.environ), PATH_FILES.directory(os.environ))
    return [], []


def _results_in(runs: Path, paths: Path) -> tuple[list[StoredRun], list[StoredPath]]:
    """Those in two directories, oldest first."""
    from nictop.traffic.path.store import PATH_FILES
    from nictop.traffic.results.selection import stored_runs

    found = [run for _, run in reversed(stored_runs(runs).results)]
    return found, [path for _, path in reversed(PATH_FILES.stored(paths).results)]


def _path_tests_of(word: str, stored: Sequence[StoredPath]) -> list[StoredPath]:
    """The path tests with this label, identity or beginning of an identity; [] for a host."""
    from nictop.traffic.path.store import select_paths

    is_label = any(word == path.label for path in stored)
    if is_label or _is_prefix(word):
        with suppress(NictopError):
            return select_paths(word, stored)
    return []


def _is_prefix(word: str) -> bool:
    """It may be the beginning of an identity."""
    return len(word) >= MIN_IDENTITY_CHARS and HEX_DIGITS.issuperset(word)


def _runs_of(word: str, stored: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs with this label, identity or beginning of an identity, or one of their values; []
    for a host."""
    from nictop.traffic.results.selection import select_runs

    names: set[str] = set()
    for run in stored:
        names.update(filter(None, (run.label, run.identity, run.experiment)))
    is_name = word in names or word.rpartition(":")[0] in names
    is_beginning = _is_prefix(word) and any(name.startswith(word) for name in names)
    if is_name or is_beginning:
        with suppress(NictopError):
            return select_runs(word, stored)
    return []
