"""One run, live, stored or recorded: title, chart, hosts, and sentences about it.

vm1:ens224 → vm2:ens224 · TCP ×1 · 20 s · 7 of 20 s ████░░░░░░      9.38 Gb/s
   10┤████████████████████
    0┤████████████████████
  CPU│▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄                                            ├100
TX vm1:ens224  CPU 41 % of 4  hottest CPU0 41 %  softirq 3 % of 4  …
goodput     9.41 Gb/s received by vm2, 100 % of line rate
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from nictop.model.facts import fit, width, wrap
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import replace
from nictop.report.runs.limits import bottleneck_headline, limit_lines
from nictop.report.runs.points import set_up_points
from nictop.report.runs.sentences import KIND_LABELS, ResultSentence, result_sentences
from nictop.traffic.live.run_view import RunView
from nictop.traffic.path.result import PathReport
from nictop.traffic.results.result import ExaminedLimit, LimitVerdict, Result
from nictop.traffic.results.selection import StoredRun
from nictop.tui.keys import RUN_PAGE_KEYS
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuScreen
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.status import ends_text, headline_text, options_text, progress_bar
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.charts.bar_chart import PointChart
from nictop.tui.widgets.traffic.chart import RunChart
from nictop.tui.widgets.traffic.hosts import RunHosts
from nictop.tui.widgets.traffic.latency_bars import LatencyBars
from nictop.tui.widgets.traffic.queue_bars import RunQueues
from nictop.tui.widgets.traffic.run_waiting import RunWaiting

LABEL_CELLS = 11
"""Of the label before a sentence."""
MORE_CELLS = 8
"""At the right of a table, for the mark that there is more below, and its key."""
MIN_SENTENCE_ROWS = 3
"""Rows that the sentences get on the smallest screen."""

MIN_COMMAND_CELLS = 16
"""Of a command in the title: with less room it is left out."""
TALL_ROWS, MEDIUM_ROWS = 34, 24
"""Rows of a screen on which hosts have more than a line."""
CHART_HOST_ROWS = 4
"""Rows of a host on a tall screen."""

RESULT_KINDS = (
    *("event", "failed", "type", "goodput", "transactions", "under load"),
    *("command", "measured", "figure", "traffic"),
)
"""Kinds of the sentences that say what came of the run."""
FAILURE_KINDS = ("failed", "event")
"""Kinds of sentences that say why nothing was measured."""
NOT_JUDGED_YET = (
    "bottleneck",
    "not known yet: what limits a test is judged from all of it, when it has ended",
)
"""(kind, text) of the sentence while a run is measured and nothing else is said of it."""

STYLES = {
    "event": "bad",
    "failed": "bad",
    "goodput": "title",
    "transactions": "title",
    "under load": "title",
    "command": "title",
    "measured": "title",
    "figure": "title",
    "held back": "accent",
    "not ranked": "warn",
    "type": "title",
    "path finding": "warn",
}
"""Kind of a sentence → its style."""


VERDICT_STYLES: dict[LimitVerdict | None, str] = {
    None: "dim",
    "cause": "accent",
    "possible": "",
    "excluded": "dim",
}
"""Verdict of a limit → the style of its line in the table of the bottleneck; None: its titles."""


def _incident_sentences(run_view: RunView | None) -> list[tuple[str, str]]:
    """Of a run that is running: what happened to its NICs; then its result says it."""
    if run_view is None or run_view.result is not None:
        return []
    return [("event", incident.sentence) for incident in run_view.incidents]


def sentence_lines(
    sentences: Sequence[tuple[str, str]],
    cells: int,
    *,
    glyphs: Glyphs,
    limits: Sequence[ExaminedLimit] = (),
) -> list[SpanLine]:
    """(kind, text) with the kind as a label, wrapped to `cells`; text is made clean. `limits`: the
    table in place of the sentence about the bottleneck; (): that sentence."""
    lines: list[SpanLine] = []
    before = ""
    for kind, text in sentences:
        if kind == "held back" and limits:
            lines += _bottleneck_lines(limits, cells, glyphs)
        else:
            label = "" if kind == before else KIND_LABELS.get(kind, kind)
            lines += _labelled_lines(label, text, _style_of(kind, text), cells, glyphs)
        before = kind
    return lines


def _style_of(kind: str, text: str) -> str:
    is_unverified = kind == "path" and text.startswith("not verified")
    if is_unverified or text.startswith(UNICODE.warning):
        return "warn"
    return STYLES.get(kind, "")


def _labelled_lines(
    label: str, text: str, style: str, cells: int, glyphs: Glyphs
) -> Iterator[SpanLine]:
    """The label is in the first line only."""
    shown = glyphs.text(text.replace(UNICODE.warning, glyphs.warning))
    for part in wrap(shown, max(10, cells - LABEL_CELLS - 2)):
        yield ((f" {label:<{LABEL_CELLS}}", "dim"), (part, style))
        label = ""


def _bottleneck_lines(
    limits: Sequence[ExaminedLimit], cells: int, glyphs: Glyphs
) -> Iterable[SpanLine]:
    label, style = KIND_LABELS["held back"], STYLES["held back"]
    yield ((f" {label:<{LABEL_CELLS}}", "dim"), (glyphs.text(bottleneck_headline(limits)), style))
    drawn = [
        replace(limit, limit=glyphs.text(limit.limit), value=glyphs.text(limit.value))
        for limit in limits
    ]
    for line in limit_lines(drawn, cells - LABEL_CELLS - 2 - MORE_CELLS):
        yield ((" " * (LABEL_CELLS + 1), ""), (line.text, VERDICT_STYLES[line.verdict]))


def with_verdict_in_sight(sentences: Sequence[ResultSentence]) -> list[ResultSentence]:
    """The verdict on the path right behind the result: what limits a run is long, and only worth
    reading if the packets took the path that is meant."""
    rest = list(sentences)
    kinds = [sentence.kind for sentence in rest]
    if "path" not in kinds:
        return rest
    verdict = rest.pop(kinds.index("path"))
    place = 0
    for number, sentence in enumerate(rest, 1):
        if sentence.kind in RESULT_KINDS:
            place = number
    return [*rest[:place], verdict, *rest[place:]]


class RunPage(FramedScreen):
    """A subclass chooses the run, and calls `draw`."""

    BINDINGS: ClassVar[list[BindingType]] = RUN_PAGE_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._drawing = False
        self._only_histogram = False
        """The histogram of latencies is shown in the place of the chart."""

    def compose_body(self) -> Iterable[Widget]:
        yield LineWidget(id="run-title")
        with Horizontal(id="run-plots"):
            yield RunChart(id="run-chart")
            yield RunQueues(id="run-queues")
            yield LatencyBars(id="run-latencies")
        yield PointChart(id="run-points")
        yield RunHosts(id="run-hosts")
        yield LineWidget(id="run-sentences")

    def on_mount(self) -> None:
        self.query_one("#run-title").can_focus = False
        self.query_one("#run-points").display = False
        sentences = self.query_one("#run-sentences", LineWidget)
        sentences.marks_more = True
        sentences.focus()

    # -------------------------------------------------------------------------------- what is shown

    def run_view(self) -> RunView | None:
        """The run; None: there is nothing to draw yet."""
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        """Nothing more will be measured, also if there is no result."""
        return False

    @property
    def is_stopping(self) -> bool:
        """It is being ended: its newest rate is not of now."""
        return False

    def run_results(self) -> Sequence[StoredRun]:
        """Runs that belong together, this one among them."""
        raise NotImplementedError

    def unread_ends(self) -> str:
        """What the first line begins with while the plan is not known."""
        return "Traffic test"

    def title_parts(self, run_view: RunView | None) -> Sequence[str]:
        """What the first line has after the ends."""
        raise NotImplementedError

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        """(kind, text) of sentences before the result of this run."""
        raise NotImplementedError

    def waiting(self) -> RunWaiting | None:
        """What is shown in the place of the chart while nothing was measured; here of a run that
        has ended so."""
        failure = self.failure_text()
        return RunWaiting("Nothing was measured.", failure) if failure else None

    def failure_text(self) -> str:
        """Why the run failed, by its result; "": it did not, or it has none yet."""
        result = self._result_of_run
        if result is not None:
            for sentence in result_sentences(result):
                if sentence.kind in FAILURE_KINDS:
                    return f"Test failed: {sentence.text}"
        return ""

    @property
    def _result_of_run(self) -> Result | None:
        """None: it has none yet."""
        run_view = self.run_view()
        return None if run_view is None else run_view.result

    def notes(self) -> Sequence[str]:
        """Remarks on it."""
        return ()

    def path_test(self) -> PathReport | None:
        """That before the run."""
        result = self._result_of_run
        if result is None or result.path_test is None:
            return None
        return result.path_test.report

    def draw(self) -> None:
        """Draw everything."""
        self._drawing = False
        if not self.query("#run-sentences"):
            return
        run_view = self.run_view()
        chart = self.query_one(RunChart)
        self._draw_sentences(run_view)
        self._show_parts(run_view)
        chart.show(run_view, self.waiting())
        self._divide(0 if run_view is None else len(run_view.hosts))
        self.query_one(RunHosts).show(chart.shown, chart.time, chart.view.span)
        self.query_one(RunQueues).show(chart.shown)
        self.query_one(LatencyBars).show(chart.shown)
        if self.query_one("#run-points").display:
            self.query_one(PointChart).show(set_up_points(self.run_results()))
        self._draw_title(run_view)

    def _show_parts(self, run_view: RunView | None) -> None:
        """Of a test of requests and responses, a wide screen has the histogram in the place of the
        queues."""
        plots = self.query_one("#run-plots")
        has_latencies = self._has_latencies(run_view)
        plots.set_class(has_latencies, "-latencies")
        plots.set_class(has_latencies and self._only_histogram, "-only-histogram")

    def _divide(self, hosts: int) -> None:
        """Rows of the hosts: a chart each where there is room, at least a line."""
        rows = self.size.height
        each = 1
        if rows >= TALL_ROWS and hosts < 3:
            each = CHART_HOST_ROWS
        elif rows >= MEDIUM_ROWS:
            each = 2
        self.query_one(RunHosts).take_rows(max(1, min(hosts * each, rows // 3)))

    def _draw_soon(self) -> None:
        if not self._drawing:
            self._drawing = True
            self.call_after_refresh(self.draw)

    def _draw_title(self, run_view: RunView | None) -> None:
        """Ends, progress and options from the left, as far as they fit; the goodput at the
        right."""
        view = self.query_one("#run-title", LineWidget)
        right = ""
        if run_view is not None and run_view.result is None and self.is_over:
            right = f" {self.glyphs.warning} no result"
        elif run_view is not None and not self.is_stopping:
            right = f" {headline_text(run_view, self.glyphs, view.size.width - 2)}"
        badge = " PAUSED " if self.query_one(RunChart).frozen else ""
        room = max(0, view.size.width - 1 - width(right) - width(badge) - 1)
        ends = self.unread_ends() if run_view is None else ends_text(run_view, room)
        title = self.glyphs.text(ends)
        shown = fit(title, min(width(title), room))
        rest = max(0, room - width(shown))
        texts = self._texts_of_title(run_view, rest)
        view.show_lines(
            [
                (
                    (f" {shown}", "title"),
                    (fit(texts, rest), ""),
                    (badge, "warn"),
                    (f"{right} ", "title"),
                )
            ]
        )

    def _texts_of_title(self, run_view: RunView | None, room: int) -> str:
        """Options and progress, each that still fits into `room` cells."""
        parts = [f" · {part}" for part in self.title_parts(run_view) if part]
        if run_view is not None:
            bar = "" if run_view.result is not None else progress_bar(run_view, self.glyphs)
            options = [f" · {option}" for option in options_text(run_view).split(" · ")]
            if run_view.plan.is_of_one_host:
                taken = sum(width(self.glyphs.text(part)) for part in parts)
                options = [self._shortened(f" · {options_text(run_view)}", room - taken)]
            parts = [*options[:2], *parts, f" {bar}" if bar else "", *options[2:]]
        text = ""
        for part in parts:
            more = self.glyphs.text(part)
            if width(text + more) <= room:
                text += more
        return text

    def _shortened(self, text: str, room: int) -> str:
        """A command, which may be long: cut to what the rest leaves, or what a title can have."""
        cells = max(MIN_COMMAND_CELLS, room)
        shown = self.glyphs.text(text)
        return shown if width(shown) <= cells else fit(shown, cells)

    def _draw_sentences(self, run_view: RunView | None) -> None:
        """In the rows that they need, less than a third of the screen; the rest scrolls."""
        view = self.query_one("#run-sentences", LineWidget)
        texts = [*_incident_sentences(run_view), *self.more_sentences()]
        limits: Sequence[ExaminedLimit] = ()
        result = None if run_view is None else run_view.result
        if result is not None:
            limits = result.limits
            texts += with_verdict_in_sight(result_sentences(result))
        texts += [("note", note) for note in self.notes()]
        is_measured = run_view is not None and run_view.is_measured
        if not texts and is_measured:
            texts = [NOT_JUDGED_YET]
        lines = sentence_lines(texts, self.size.width - 2, glyphs=self.glyphs, limits=limits)
        most = max(MIN_SENTENCE_ROWS, self.size.height // 3 - 2)
        view.take_rows(max(1, min(len(lines), most)) + view.gutter.height)
        view.show_lines(lines)

    def draw_resized(self) -> None:
        self.draw()

    def on_run_chart_view_changed(self) -> None:
        chart = self.query_one(RunChart)
        self.query_one(RunHosts).show(chart.shown, chart.time, chart.view.span)

    # ----------------------------------------------------------------------------------------- keys

    def action_cursor(self, columns: int) -> None:
        self.query_one(RunChart).move(columns)

    def action_newest(self) -> None:
        self.query_one(RunChart).leave()

    async def action_speed(self, step: int) -> None:
        """Zoom in or out."""
        self.query_one(RunChart).enlarge(step)

    def action_options(self) -> None:
        """Of a single bulk run without a path test there is one: whose CPU is drawn."""
        entries: list[MenuEntry] = []
        if len(self.run_results()) > 1:
            points = bool(self.query_one("#run-points").display)
            entries.append(MenuEntry("Bars of all variants", self.toggle_points, points))
        if self._has_latencies(self.run_view()):
            entries.append(
                MenuEntry("Latency histogram", self.toggle_histogram, self._only_histogram)
            )
        next_cpu = self.query_one(RunChart).next_cpu
        entries.append(MenuEntry("CPU of the next host or core", next_cpu))
        if self.path_test() is not None:
            words = "Path test before the run (ARP, RTT, MTU, firewall)"
            entries.append(MenuEntry(words, self.open_path_test))
        if len(entries) == 1:
            next_cpu()
        else:
            self.app.push_screen(MenuScreen("View options: test", entries))

    @staticmethod
    def _has_latencies(run_view: RunView | None) -> bool:
        return run_view is not None and run_view.plan.has_requests

    def open_path_test(self) -> None:
        """The result of the path test before the run."""
        from nictop.tui.screens.traffic.path_test import PathReportScreen

        report = self.path_test()
        if report is not None:
            first, second = (direction.sender.host for direction in report.result.directions)
            self.app.push_screen(PathReportScreen(first, second, report))

    def toggle_histogram(self) -> None:
        """The histogram of latencies in the place of the chart, or the chart."""
        self._only_histogram = not self._only_histogram
        self.show_points(False)

    def toggle_points(self) -> None:
        self.show_points(not self.query_one("#run-points").display)

    def action_copy(self) -> None:
        """What is said about the run, as text."""
        lines = [
            "".join(text for text, _ in line)
            for line in self.query_one("#run-sentences", LineWidget).lines
        ]
        if lines:
            self.nictop.copy_lines(lines, ["the result as text"])

    def show_points(self, shown: bool) -> None:
        """Bars of all set-ups, or the chart of one run."""
        self.query_one("#run-points").display = shown
        self.query_one("#run-plots").display = not shown
        self._draw_soon()
