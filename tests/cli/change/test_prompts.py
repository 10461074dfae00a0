"""Questions of ``nictop fix``: only what is typed after a question answers it."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest

from nictop.cli.change.prompts import Prompts


@pytest.mark.parametrize("question", ["apply it?", "really apply it?"])
async def test_what_was_typed_before_a_question_is_no_answer_to_it(question: str) -> None:
    """A second yes that came with the first one has not been asked for; the end of stdin stays its
    end."""
    people = Prompts()
    for line in ("yes", "yes", None):
        people.lines.put_nowait(line)
    assert not await people.confirm(question)
    assert not await people.confirm(question), "nobody answers any more"


@pytest.mark.parametrize(
    "typed", [b"\xff", b"yes\xff", b"\xd9es", b"\0yes", "\u202eyes".encode(), b"yes" * 5000]
)
async def test_an_invalid_answer_is_a_no(typed: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: reading))
    people = Prompts()
    monkeypatch.setattr(people, "discard", lambda: None)  # it was typed after the question
    try:
        os.write(writing, typed + b"\n")
        os.close(writing)
        while people.read():
            pass
        assert not await people.confirm("apply it?")
        assert people.lines.get_nowait() is None
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("answer", "is_yes", "said"),
    [
        ("y", True, ""),
        ("yes", True, ""),
        ("n", False, ""),
        ("", False, ""),
        ("ok", False, '"ok" is neither y nor n, taken as no\n'),
    ],
)
async def test_how_to_answer_is_in_the_question(
    answer: str, is_yes: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    people = Prompts()
    asked = asyncio.ensure_future(people.confirm("Apply on vm1?"))
    await asyncio.sleep(0)  # what was typed before is dropped
    people.lines.put_nowait(answer)
    assert await asked is is_yes
    assert capsys.readouterr().err == f"Apply on vm1? [y or n, then Enter]\n{said}"
