"""The NetworkManager part of a change, called by the guard process; each function does nothing when
a change has none.

`checkpoint` is imported only when needed. Its data crosses a pipe, and is a plain dictionary here.
"""

from __future__ import annotations

import json
import time
from typing import Any

from nictop.probe.changes.apply import NMCLI_TIMEOUT, PROGRAM_TIMEOUT
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.plan.plan import ChangePlan

OWNER_CHECK_SECONDS = 1.0
"""Seconds between checks whether NetworkManager still runs, while nmcli does."""
NETWORKMANAGER_ENDED = "NetworkManager stopped during the change"

CheckpointFields = dict[str, Any]
"""`checkpoint.Checkpoint` as a dictionary."""


class RolledBack(Exception):
    """The change must be undone, for the reason given as a sentence. `failed`: because of an
    error."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.failed = reason, failed


def begin(plan: ChangePlan, keep_within: float) -> CheckpointFields | None:
    """The checkpoint; None: the change has no NetworkManager operations. Raises ValueError."""
    if not plan.networkmanager_operations:
        return None
    from nictop.probe.changes.networkmanager import checkpoint

    timeouts = (
        NMCLI_TIMEOUT if one.uses_networkmanager else PROGRAM_TIMEOUT for one in plan.operations
    )
    fields, problem = checkpoint.begin(plan.networkmanager_operations, keep_within + sum(timeouts))
    if fields is None:
        raise ValueError(problem)
    return field_mapping(fields)


class NetworkManagerWatchdog:
    """Checks once a second whether the NetworkManager that made the checkpoint still runs: nmcli
    does not notice its end and continues to wait."""

    def __init__(self, fields: CheckpointFields | None) -> None:
        self._checkpoint = None if fields is None else checkpoint_from(fields)
        self._next = time.monotonic() + OWNER_CHECK_SECONDS

    def check(self) -> None:
        """Raises RolledBack if it has ended."""
        if self._checkpoint is None or time.monotonic() < self._next:
            return
        from nictop.probe.changes.networkmanager import checkpoint

        if checkpoint.has_networkmanager_ended(self._checkpoint):
            raise RolledBack(NETWORKMANAGER_ENDED, failed=True)
        self._next = time.monotonic() + OWNER_CHECK_SECONDS

    def failure_reason(self, problem: str) -> str:
        """Why an action failed: `problem`, or that NetworkManager has ended, which nmcli reports as
        D-Bus errors."""
        if self._checkpoint is None:
            return problem
        from nictop.probe.changes.networkmanager import checkpoint

        has_ended = checkpoint.has_networkmanager_ended(self._checkpoint)
        return NETWORKMANAGER_ENDED if has_ended else problem


def settle(fields: CheckpointFields | None, keep_within: float) -> CheckpointFields | None:
    """Called when all actions are done: NetworkManager now rolls back by itself soon after
    `keep_within` seconds. Raises RolledBack."""
    if fields is None:
        return None
    from nictop.probe.changes.networkmanager import checkpoint

    applied, problem = checkpoint.record_applied(checkpoint_from(fields), keep_within)
    if applied is None:
        raise RolledBack(problem, failed=True)
    return field_mapping(applied)


def keep(fields: CheckpointFields | None) -> str:
    """A sentence why the change cannot be kept; empty: it is kept."""
    if fields is None:
        return ""
    from nictop.probe.changes.networkmanager import checkpoint

    return checkpoint.keep(checkpoint_from(fields))


def differences(fields: CheckpointFields | None, *, must_answer: bool) -> tuple[str, ...]:
    """Sentences about what something else has changed since all actions were done. `must_answer`:
    also that NetworkManager does not answer."""
    if fields is None:
        return ()
    from nictop.probe.changes.networkmanager import checkpoint

    return checkpoint.differences(checkpoint_from(fields), must_answer=must_answer)


def undo(fields: CheckpointFields | None) -> str:
    """A sentence about what could not be restored; empty: nothing."""
    if fields is None:
        return ""
    from nictop.probe.changes.networkmanager import checkpoint

    try:
        return checkpoint.undo(checkpoint_from(fields))
    except Exception as error:  # whatever it is, the rest of the undo must be done
        return f"NetworkManager: {type(error).__name__}: {error}"


def checkpoint_from(fields: CheckpointFields) -> Any:
    """The `Checkpoint` from data that may have crossed a pipe."""
    from nictop.probe.changes.networkmanager import checkpoint

    return checkpoint.Checkpoint.from_json(json.loads(json.dumps(fields, default=field_mapping)))
