"""What a probe is asked to change: the object in a request → `ChangeCommand`, or a sentence about what is wrong. Pure.

Strict: what changes a host must be understood whole.
"""

from __future__ import annotations

from nictop.probe.records import LONGEST_KEPT, SHORTEST_KEPT
from nictop.probe.traffic.requests import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS = ("prepare", "apply", "keep", "undo")
LONGEST_FINGERPRINT = 64


class ChangeCommand:
    """A `records.ChangeRequest` that makes sense: fields of the same names."""

    def __init__(self, request: Mapping[str, object]) -> None:
        """Raises ValueError with a sentence. What the actions mean is for `grammar`."""
        self.id = name_of(request)
        step = request.get("step")
        if not isinstance(step, str) or step not in STEPS:
            raise ValueError(f"step is not one of {', '.join(STEPS)}")
        self.step = step
        self.actions: tuple[tuple[str, ...], ...] = ()
        self.keep_within, self.fingerprint, self.twice = SHORTEST_KEPT, "", False
        if step in ("prepare", "apply"):
            self.actions = actions_of(request.get("actions"))
        if step == "apply":
            self._take_apply(request)

    def _take_apply(self, request: Mapping[str, object]) -> None:
        seconds = request.get("keep_within", 30.0)
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise ValueError("keep_within is not a number of seconds")
        if not SHORTEST_KEPT <= seconds <= LONGEST_KEPT:
            raise ValueError(f"keep_within is not from {SHORTEST_KEPT:g} to {LONGEST_KEPT:g} seconds")
        fingerprint, twice = request.get("fingerprint"), request.get("twice", False)
        if not isinstance(fingerprint, str) or not 0 < len(fingerprint) <= LONGEST_FINGERPRINT:
            raise ValueError("fingerprint is not that of a prepared change")
        if not isinstance(twice, bool):
            raise ValueError("twice is not true or false")
        self.keep_within, self.fingerprint, self.twice = float(seconds), fingerprint, twice


def actions_of(value: object) -> tuple[tuple[str, ...], ...]:
    """Lists of words; ValueError for anything else."""
    if not isinstance(value, list) or not value:
        raise ValueError("actions is not a list of actions")
    for words in value:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("an action is not a list of words")
    return tuple(tuple(words) for words in value)
