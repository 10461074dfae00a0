"""Text about a change while its dialog is not open. Names in it are as the hosts report them, not yet clean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nictop.changes.progress import ChangeProgress


def change_status(progress: ChangeProgress | None, now: float) -> str:
    """For the status line: ``keep the change? 17 s: f``; "" while there is nothing to decide or to see. `now`:
    CLOCK_MONOTONIC."""
    if progress is None or progress.stage in ("preparing", "prepared") or progress.outcome == "cancelled":
        return ""
    if progress.stage == "ended":
        return f"change {progress.outcome}: f"
    if progress.is_applied and progress.deadline is not None:
        return f"keep the change? {math.ceil(max(0.0, progress.deadline - now))} s: f"
    return {"applying": "a change is applied: f", "applied": "a change is ended: f"}.get(
        progress.stage, "a change is undone: f"
    )


def end_text(progress: ChangeProgress) -> str:
    """Its result, for a notice."""
    from nictop.changes.wording import OUTCOME_TEXTS

    said = OUTCOME_TEXTS[progress.outcome or "unknown"]
    return f"{said}: {progress.text}" if progress.text else said
