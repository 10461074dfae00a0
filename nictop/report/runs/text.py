"""Traffic runs, experiments, and the list of stored runs, as text. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean
from nictop.model.text.units import wall_time_text
from nictop.report.render.text import text_of
from nictop.report.runs.experiment_document import experiment_blocks
from nictop.report.runs.run_document import RUN_LABEL_CELLS, run_blocks
from nictop.report.runs.sentences import TEST_TEXTS, hosts_text
from nictop.report.stored_list import list_blocks
from nictop.report.text_table import labelled_lines
from nictop.traffic.results.caveats import caveat_of, with_caveat
from nictop.traffic.results.measures import deciding_text
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun, StoredRuns

LIST_TITLES = ("written", "run", "experiment", "what", "result")
NO_RESULTS = "no stored results\n"
MAX_COMMAND_CELLS = 40
"""Of the command of a workload in a list."""


def run_text(result: Result, columns: int, glyphs: Glyphs = UNICODE) -> str:
    """One run, with a final newline. At most `columns` cells (40 to 200) per line unless a word of
    a command is wider. `glyphs`: for the marks; the caller encodes the other text
    (`Glyphs.encode`)."""
    return text_of(run_blocks(result), columns, glyphs)


def experiment_text(runs: Sequence[StoredRun], columns: int, glyphs: Glyphs = UNICODE) -> str:
    """One line per set-up: median, lowest, highest, share of the ceiling, CPU cost of each host;
    then sentences about them. A single run as by `run_text`. With a final newline; "": there are no
    runs."""
    return text_of(experiment_blocks(runs), columns, glyphs)


def stored_runs_text(runs: StoredRuns, columns: int, glyphs: Glyphs = UNICODE) -> str:
    """A line per run, newest first: time, run, experiment, description, goodput and what it
    lacks."""
    rows = [_list_row(run, glyphs) for _, run in runs.results]
    blocks = list_blocks(LIST_TITLES, rows, _narrow_row, runs.left_out, runs.unreadable)
    return text_of(blocks, columns, glyphs) or NO_RESULTS


def _list_row(run: StoredRun, glyphs: Glyphs) -> tuple[str, ...]:
    result = run.result
    figure = with_caveat(deciding_text(result), caveat_of(result), glyphs)
    if result.failure is not None:
        figure = f"{glyphs.critical} failed"
    what = " ".join(filter(None, _description(run)))
    return wall_time_text(run.written), run.identity, run.experiment, what, figure


def _description(run: StoredRun) -> Iterator[str]:
    """``a → b``, ``rr``, ``TCP``, the label, and the varied parameter of one run."""
    plan = run.result.plan
    yield hosts_text(plan)
    if plan.is_of_one_host:
        yield shortened_command(plan.workload) or TEST_TEXTS[plan.test]
    else:
        if plan.test != "bulk":
            yield plan.test
        yield plan.protocol.upper()
    yield run.label
    if run.group != run.value:
        yield run.group
    if run.value:
        yield f"{run.variable} {run.value}".strip()


def shortened_command(command: str) -> str:
    """Of a workload, for a line of a table."""
    text = clean(command)
    return text if len(text) <= MAX_COMMAND_CELLS else f"{text[: MAX_COMMAND_CELLS - 1]}…"


def _narrow_row(row: tuple[str, ...], room: int) -> Iterator[str]:
    written, identity, *rest = row
    text = " · ".join((written, *rest))
    yield from labelled_lines(identity, text, room, label_cells=RUN_LABEL_CELLS)
