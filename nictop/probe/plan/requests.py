"""Validate a change request: the object in a `records.Request` → `ChangeCommand`, or ValueError
with a sentence. Pure.

Strict: a request that changes a host must be valid as a whole.
"""

from __future__ import annotations

from nictop.probe.records import MAX_KEEP_WITHIN, MIN_KEEP_WITHIN
from nictop.probe.traffic.requests import request_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGE_STEPS = ("prepare", "apply", "keep", "undo")
MAX_FINGERPRINT_CHARS = 64
PLAN_TIMEOUT = 50.0
"""Seconds to read the plan of a change: on a slow host each nmcli takes some. Less than nictop
waits for the reply (`changes.events.ChangeTimeouts`)."""


class ChangeCommand:
    """A valid `records.ChangeRequest`, with the same fields."""

    def __init__(self, request: Mapping[str, object]) -> None:
        """Raises ValueError with a sentence. The words of the actions are checked by `grammar`."""
        self.id = request_id(request)
        step = request.get("step")
        if not isinstance(step, str) or step not in CHANGE_STEPS:
            raise ValueError(f"step is not one of {', '.join(CHANGE_STEPS)}")
        self.step = step
        self.actions: tuple[tuple[str, ...], ...] = ()
        self.keep_within, self.fingerprint, self.twice = MIN_KEEP_WITHIN, "", False
        if step in ("prepare", "apply"):
            self.actions = checked_actions(request.get("actions"))
        if step == "apply":
            self._check_apply(request)

    def _check_apply(self, request: Mapping[str, object]) -> None:
        seconds = request.get("keep_within", 30.0)
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
            raise ValueError("keep_within is not a number of seconds")
        if not MIN_KEEP_WITHIN <= seconds <= MAX_KEEP_WITHIN:
            raise ValueError(
                f"keep_within is not {MIN_KEEP_WITHIN:g} to {MAX_KEEP_WITHIN:g} seconds"
            )
        fingerprint, twice = request.get("fingerprint"), request.get("twice", False)
        if not isinstance(fingerprint, str) or not 0 < len(fingerprint) <= MAX_FINGERPRINT_CHARS:
            raise ValueError("fingerprint is not that of a prepared change")
        if not isinstance(twice, bool):
            raise ValueError("twice is not true or false")
        self.keep_within, self.fingerprint, self.twice = float(seconds), fingerprint, twice


def checked_actions(value: object) -> tuple[tuple[str, ...], ...]:
    """Lists of words as tuples. Raises ValueError."""
    if not isinstance(value, list) or not value:
        raise ValueError("actions is not a list of actions")
    for words in value:
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("an action is not a list of words")
    return tuple(tuple(words) for words in value)
