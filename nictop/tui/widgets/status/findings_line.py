"""One line about the findings, the same row whatever they are: the worst one, and how many more there are.

▲ ens224: no DHCP reply; auto-generated profile "Wired connection 1"                                          +5 (4)
"""

from __future__ import annotations

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import Diagnosis
from nictop.rules.wording import checks_text, verdict_text
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.findings.panel import WAITING, finding_line


def draw_findings(
    diagnosis: Diagnosis | None, cells: int, *, notice: str = "", several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> SpanLine:
    """At most `cells` cells. `notice`: why the chosen host is not live, which comes first."""
    findings = diagnosis.findings if diagnosis is not None else ()
    more = f" +{len(findings) - (not notice)} (4) " if len(findings) > (not notice) else ""
    more = more if len(more) < cells // 2 else ""
    room = cells - len(more)
    if notice:
        return ((fit(f" {glyphs.text(notice)}", room), "warn"), (more, "accent"))
    if diagnosis is None:
        return ((fit(WAITING, cells), "dim"),)
    if not findings:
        said, tone = verdict_text(diagnosis, glyphs=glyphs)
        rest = glyphs.text(f"{said[1:]} ({checks_text(diagnosis)})")
        return ((f" {said[0]}"[:cells], tone), (fit(rest, max(0, cells - 2)), "dim"))
    line = finding_line(findings[0], room, several_hosts=several_hosts, glyphs=glyphs)
    blank = max(0, room - sum(width(text) for text, _ in line))
    return (*line, (" " * blank, ""), (more, "accent"))


class FindingsLine(LineView):
    """`draw_findings`; a click shows all of them."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: tuple[Diagnosis | None, str, bool] = (None, "", False)

    def show(self, diagnosis: Diagnosis | None, *, notice: str, several_hosts: bool) -> None:
        self._content = (diagnosis, notice, several_hosts)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        diagnosis, notice, several = self._content
        cells = self.size.width
        self.show_lines((draw_findings(diagnosis, cells, notice=notice, several_hosts=several, glyphs=self.glyphs),))

    async def on_click(self) -> None:
        await self.run_action("app.view('findings')")
