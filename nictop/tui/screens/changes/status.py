"""Text about a change while its dialog is closed. Names in it are as the hosts report them, not yet
clean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nictop.changes.events import Outcome
    from nictop.changes.progress import ChangeProgress

STATES: dict[Outcome, str] = {
    "kept": "kept",
    "overridden": "kept, changed since",
    "undone": "rolled back",
    "restarted": "ended by a restart",
    "refused": "refused",
    "cancelled": "cancelled",
    "unreachable": "not applied",
    "failed": "failed",
    "unknown": "result unknown",
}


def change_status(progress: ChangeProgress | None, now: float, key: str) -> str:
    """For the status line: ``keep change? 17 s (f: details)``; "" before it is applied, and after
    its end was seen. `now`: CLOCK_MONOTONIC; `key`: label of the key that opens the dialog."""
    if progress is None or progress.outcome == "cancelled":
        return ""
    if progress.shown_stage in ("preparing", "prepared"):
        return ""
    return f"{_state_text(progress, now)} ({key}: details)"


def _state_text(progress: ChangeProgress, now: float) -> str:
    """Of a change that the host applies or has applied."""
    if progress.stage == "ended":
        return f"change {STATES[progress.outcome or 'unknown']}"
    if progress.is_applied and progress.deadline is not None:
        return f"keep change? {math.ceil(max(0.0, progress.deadline - now))} s"
    if progress.shown_stage == "applying":
        return "applying change"
    if progress.stage == "disconnected":
        return f"{_loss(progress)} during a change"
    if progress.stage == "reconnected":
        return "asking for the outcome of a change"
    if progress.decision == "keep":
        return "keeping change"
    return "rolling back change"


def _loss(progress: ChangeProgress) -> str:
    from nictop.changes.wording import NO_RESULT_TEXT

    return "no reply" if progress.loss == NO_RESULT_TEXT else "connection lost"


def end_text(progress: ChangeProgress) -> str:
    """The result, for a notice."""
    from nictop.changes.wording import ending_text, failure_before_rollback
    from nictop.model.text.terminal import clean

    texts = (failure_before_rollback(progress), ending_text(progress), clean(progress.outside))
    return "; ".join(filter(None, texts))
