"""What a command's event loop costs beside the command."""

from __future__ import annotations

from nictop.cli.event_loop import result_of


class Answer:
    """Of a large host: its text would be megabytes."""

    was_written = False

    def __repr__(self) -> str:
        self.was_written = True
        return "Answer"


async def answered(answer: Answer) -> Answer:
    return answer


def test_no_text_is_made_of_what_a_command_has_read() -> None:
    answer = Answer()
    assert result_of(answered(answer)) is answer
    assert not answer.was_written
