"""The dialog of ``nictop fix`` on a terminal: lines that stay true while they stand."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nictop.changes.events import RuleVerdict
from nictop.cli.change import dialog
from nictop.cli.change.dialog import ChangeDialog
from nictop.cli.change.prompts import NO_ANSWER, Prompts
from nictop.replay.position import wall_clock_text


def dialog_with(deadline: float | None) -> ChangeDialog:
    change = SimpleNamespace(
        progress=SimpleNamespace(deadline=deadline), keep=lambda: None, undo=lambda why: None
    )
    return ChangeDialog(Namespace(yes=0), cast(Any, SimpleNamespace()), cast(Any, change))


@pytest.mark.parametrize(
    ("deadline", "note"), [(120.0, f" rolls back at {wall_clock_text(1_000_020.0)}"), (None, "")]
)
async def test_the_question_names_the_time_of_day_of_the_rollback(
    deadline: float | None,
    note: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seconds that are left would be wrong a second later, as nothing redraws the line."""
    clock = SimpleNamespace(monotonic=lambda: 100.0, time=lambda: 1_000_000.0)
    monkeypatch.setattr(dialog, "time", clock)
    asked = dialog_with(deadline)
    people = Prompts()
    people.lines.put_nowait(None)
    await asked._ask_to_keep(people)
    asked._question = asyncio.ensure_future(asyncio.sleep(0))
    asked._ask(RuleVerdict(True, ""), people)
    said = capsys.readouterr().err
    assert said.count(f"Keep this change? [y or n, then Enter]{note}\n") == 2, (
        "when it is asked, and after what was found since"
    )
    assert "s left" not in said


@pytest.mark.parametrize(
    ("answer", "why"),
    [(None, NO_ANSWER), ("ok", '"ok" is neither y nor n'), ("n", ""), ("", "")],
)
async def test_a_rollback_that_nobody_requested_says_why(answer: str | None, why: str) -> None:
    """A host that is asked to roll back says "on request": of the end of stdin that is untrue."""
    reasons: list[str] = []
    asked = dialog_with(None)
    cast(Any, asked._change).undo = reasons.append
    people = Prompts()
    question = asyncio.ensure_future(asked._ask_to_keep(people))
    await asyncio.sleep(0)  # what was typed before is dropped
    people.lines.put_nowait(answer)
    await question
    assert reasons == [why]
