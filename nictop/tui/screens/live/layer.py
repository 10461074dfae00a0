"""One layer of an interface: its place in the chain, what the checks found there with the fix and
the evidence, and all facts about it.

╭ vm1 ens224: profile ───────────────────────────────────────────╮
│ slot ✓ │ driver ✓ ixgbevf │ name ✓ │ link ✓ 10G                │
│▸profile ▲ Wired connection 1 │ address – │ gateway –           │
│                                                                │
│ ▲ warning  ens224: uses the auto-generated profile             │
│ FIX        rename the profile to the interface                 │
│ ── Manager ─────────────────────────────────────────────────── │
│ [ Previous ]  [ Next ]  [ Copy fix ]  [▸Close ]                │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.model.chain import ChainState, Step
from nictop.model.facts.steps import step_sections
from nictop.rules.by_device import device_findings, findings_of
from nictop.rules.wording import is_checked
from nictop.tui.screens.live.row_dialog import RowDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.devices.chain import draw_chain
from nictop.tui.widgets.devices.detail import chain_of, draw_facts
from nictop.tui.widgets.findings.page import draw_finding
from nictop.tui.widgets.findings.panel import first_fix

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row
    from nictop.rules import Finding, Fix
    from nictop.rules.chain import ChainStep

STATE_TEXTS: dict[ChainState, str] = {
    "passed": "Works as far as was read; no check that ran has found a problem.",
    "failed": "Does not work; no check calls that a fault.",
    "unknown": "Not known",
    "none": "This interface has no such layer",
    "waits": "Waits: a layer before it does not work.",
}
"""Of a layer without a finding; the reason follows."""
NOT_CHECKED, NOT_CHECKED_AGAIN = "Not checked yet", "Not checked again yet"
"""Before the first checks, and after an event that they do not know."""


class LayerScreen(RowDialog):
    """`step`: the layer that is shown first."""

    def __init__(self, ifindex: int | None, address: str, step: Step) -> None:
        super().__init__(ifindex, address)
        self._step = step

    # -------------------------------------------------------------------------------- what is shown

    def _layers(self, row: Row) -> Sequence[ChainStep]:
        diagnosis = self.nictop.display.diagnosis
        findings = findings_of(row, device_findings(diagnosis, self.nictop.hosts.chosen))
        return chain_of(row, self.snapshot, findings, is_checked=self._is_checked)

    @property
    def _is_checked(self) -> bool:
        """The checks have run on what is shown."""
        return is_checked(self.nictop.display.diagnosis, self.snapshot)

    @property
    def _unchecked_text(self) -> str:
        """ "": the checks have run on what is shown, and no event came since."""
        if not self._is_checked:
            return NOT_CHECKED
        return NOT_CHECKED_AGAIN if self.snapshot.unread_event is not None else ""

    @property
    def dialog_title(self) -> str:
        return f"{self.subject}: {self._step}"

    def lines_of(self, row: Row, cells: int) -> Sequence[SpanLine]:
        layers = self._layers(row)
        chosen = self._index(layers)
        if chosen is None:
            return list(self.wrapped("Nothing is known of this layer.", cells, indent=" "))
        layer = layers[chosen]
        lines = [*draw_chain(layers, cells, chosen, glyphs=self.glyphs), ()]
        for finding in layer.findings:
            lines += [*draw_finding(finding, cells, has_arrows=False, glyphs=self.glyphs), ()]
        if not layer.findings:
            text = _state_text(layer, self._unchecked_text)
            lines += self.wrapped(text, cells, indent=" ")
        return [*lines, *draw_facts(step_sections(layer.step, row, self.snapshot), cells)]

    def _index(self, layers: Sequence[ChainStep]) -> int | None:
        """Of the shown layer; None: the interface does not have it any more."""
        for index, layer in enumerate(layers):
            if layer.step == self._step:
                return index
        return None

    @property
    def _fix(self) -> tuple[Finding, Fix] | None:
        """The first one of the worst finding."""
        row = self.row
        layers = () if row is None else self._layers(row)
        index = self._index(layers)
        return None if index is None else first_fix(layers[index].findings)

    # ----------------------------------------------------------------------------------------- keys

    def show_buttons(self, row: ButtonRow) -> None:
        buttons = [Button("layer(-1)", "Previous"), Button("layer(1)", "Next")]
        if self._fix is not None:
            buttons.append(Button("copy", "Copy fix"))
        buttons.append(Button("cancel", "Close"))
        row.show(buttons, stage="shown", chosen="cancel")

    def action_layer(self, step: int) -> None:
        row = self.row
        layers = () if row is None else self._layers(row)
        index = self._index(layers)
        if index is not None:
            self._step = layers[(index + step) % len(layers)].step
            self.query_one("#dialog-text").scroll_to(y=0, animate=False)
            self.draw()

    def action_copy(self) -> None:
        shown = self._fix
        if shown is not None:
            finding, fix = shown
            self.nictop.copy_command(finding.host, fix)


def _state_text(layer: ChainStep, unchecked: str) -> str:
    if unchecked and layer.state == "unknown":
        return f"{unchecked}: {layer.text}" if layer.text else f"{unchecked}."
    if unchecked and layer.state == "failed":
        return f"Does not work: {layer.text}. {unchecked}."
    text = STATE_TEXTS[layer.state]
    if not layer.text or layer.state not in ("unknown", "none", "failed"):
        return text
    return f"{text.rstrip('.')}: {layer.text}"
