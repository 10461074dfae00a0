"""What is wrong with a request or a plan, as records: a screen shows each beside its field."""

from __future__ import annotations

from collections.abc import Iterable

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    field: str
    """Name of a field of `RunRequest`; "": none in particular, or an endpoint."""
    sentence: str
    hint: str = ""
    """What to do about it; "": the sentence says it."""


class InvalidRequest(NictopError):
    """A request or plan that cannot be run. The message names every problem."""

    def __init__(self, message: str, problems: Iterable[Problem], hint: str = "") -> None:
        super().__init__(message, hint)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, field: str, sentence: str, hint: str = "", *, said: str = "") -> InvalidRequest:
        """With one problem. `said`: its sentence beside the field, which need not name it."""
        return cls(sentence, (Problem(field, said or sentence, hint),), hint)


def sentences(problems: Iterable[Problem]) -> str:
    """All of them in one line."""
    return "; ".join(problem.sentence for problem in problems)
