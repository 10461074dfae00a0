"""Questions of ``nictop fix``: only what is typed after a question answers it."""

from __future__ import annotations

import pytest

from nictop.cli.change.prompts import Prompts


@pytest.mark.parametrize("question", ["apply it?", "really apply it?"])
async def test_what_was_typed_before_a_question_is_no_answer_to_it(question: str) -> None:
    """A second yes that came with the first one has not been asked for; the end of stdin stays its end."""
    people = Prompts()
    for line in ("yes", "yes", None):
        people.lines.put_nowait(line)
    assert not await people.confirm(question)
    assert not await people.confirm(question), "nobody answers any more"
