"""NetworkManager's part of a change, as the guard goes through it; nothing where a change has none.

`networkmanager` is loaded only where it is needed. What it keeps crosses a pipe, and is plain data here.
"""

from __future__ import annotations

import json
import time
from typing import Any

from nictop.probe.changes.apply import DEADLINE, NMCLI_DEADLINE
from nictop.probe.changes.plan.plan import ChangePlan

LOOK = 1.0
"""Seconds between two looks at whether NetworkManager still runs, while nmcli does."""
ENDED = "NetworkManager has ended in the middle of the change"

CheckpointFields = dict[str, Any]


class RolledBack(Exception):
    """The change ends, with the reason for it: a sentence. `failed`: something went wrong."""

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.failed = reason, failed


def begin(plan: ChangePlan, keep_within: float) -> CheckpointFields | None:
    """What was before, ready to be put back; None: NetworkManager has no part. Raises ValueError."""
    if not plan.networkmanagers:
        return None
    from nictop.probe.changes.networkmanager import checkpoint as networkmanager

    limits = (NMCLI_DEADLINE if one.is_networkmanagers else DEADLINE for one in plan.operations)
    kept, complaint = networkmanager.begin(plan.networkmanagers, keep_within + sum(limits))
    if kept is None:
        raise ValueError(complaint)
    return vars(kept)


class NetworkManagerWatchdog:
    """Looks about once a second whether NetworkManager is still the one that was asked to remember: nmcli does not
    notice that it has ended, and waits on."""

    def __init__(self, kept: CheckpointFields | None) -> None:
        self._kept = None if kept is None else restored(kept)
        self._next = time.monotonic() + LOOK
        self._missed = False

    def look(self) -> None:
        """Raises RolledBack: it is not, twice in a row; a bus that has much to do may be late once."""
        if self._kept is None or time.monotonic() < self._next:
            return
        from nictop.probe.changes.networkmanager import checkpoint as networkmanager

        missed = not networkmanager.is_still_there(self._kept)
        if missed and self._missed:
            raise RolledBack(ENDED, failed=True)
        self._missed = missed
        self._next = time.monotonic() + LOOK

    def why(self, complaint: str) -> str:
        """Why an action has failed: nmcli has only names of the bus for a NetworkManager that has ended."""
        if self._kept is None:
            return complaint
        from nictop.probe.changes.networkmanager import checkpoint as networkmanager

        return complaint if networkmanager.is_still_there(self._kept) else ENDED


def settle(kept: CheckpointFields | None, keep_within: float) -> CheckpointFields | None:
    """When all has been done; from now on NetworkManager itself takes it back after `keep_within` seconds and a few.
    Raises RolledBack."""
    if kept is None:
        return None
    from nictop.probe.changes.networkmanager import checkpoint as networkmanager

    settled, complaint = networkmanager.settled(restored(kept), keep_within)
    if settled is None:
        raise RolledBack(complaint, failed=True)
    return vars(settled)


def keep(kept: CheckpointFields | None) -> str:
    """Why it cannot stay; empty: it stays."""
    if kept is None:
        return ""
    from nictop.probe.changes.networkmanager import checkpoint as networkmanager

    return networkmanager.keep(restored(kept))


def undo(kept: CheckpointFields | None) -> str:
    """What stayed; empty: nothing."""
    if kept is None:
        return ""
    from nictop.probe.changes.networkmanager import checkpoint as networkmanager

    try:
        return networkmanager.undo(restored(kept))
    except Exception as error:  # whatever it is, the rest is still to be taken back
        return f"NetworkManager: {type(error).__name__}: {error}"


def restored(kept: CheckpointFields) -> Any:
    """The record from what may have crossed a pipe."""
    from nictop.probe.changes.networkmanager import checkpoint as networkmanager

    return networkmanager.Checkpoint.of(json.loads(json.dumps(kept, default=vars)))
