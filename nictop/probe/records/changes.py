"""Changing a host and taking it back: what a probe is asked to do, and what it says of it.

A probe that was not started with ``--allow-changes`` refuses every request. An action is a tuple of words, never a line
for a shell: a program of a short list with its arguments (``("ip", "link", "set", "dev", "ens4", "mtu", "9000")``), or
``("write", PATH, TEXT)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SHORTEST_KEPT, LONGEST_KEPT = 5.0, 600.0
"""Seconds that a change may wait for its confirmation."""


@dataclass(frozen=True)
class ChangeRequest:
    """One step of one change. A probe answers with `ChangeLine`s of the same id, and has one change at a time."""

    id: str
    """Chosen by the asker: printable ASCII, 1 to 64 characters."""
    step: Literal["prepare", "apply", "keep", "undo"]
    """prepare: say what would be changed, and change nothing. apply: change it, and take it back unless told to keep it
    in time. keep: it stays. undo: take it back now."""
    actions: tuple[tuple[str, ...], ...] = ()
    """prepare and apply: in the order in which they are done; they are undone the other way round."""
    keep_within: float = 30.0
    """apply: seconds from "applied" until the host takes the change back by itself, `SHORTEST_KEPT` to
    `LONGEST_KEPT`."""
    fingerprint: str = ""
    """apply: that of the "prepared" line that was shown. A host that has changed since then refuses."""
    twice: bool = False
    """apply: the second question (`ChangeLine.needs_second_yes`) has been answered with yes."""


@dataclass(frozen=True)
class PlannedAction:
    """One action: what is, what will be, and how it is taken back."""

    words: tuple[str, ...]
    """As asked for."""
    before: str
    """Read from the host: ``combined 1``, ``mtu 1500``, a mask as the kernel prints it."""
    after: str
    """In the same words."""
    undo: tuple[tuple[str, ...], ...]
    """Actions that bring back `before`, in their order; empty: NetworkManager's checkpoint does it, or nothing would
    change."""
    subject: str
    """Interface, ``irq 30``, profile or setting. Text of the host: never trust it on a screen."""
    persistent: bool = False
    """It outlives a restart of the host."""
    disturbs: tuple[str, ...] = ()
    """What it may interrupt, in sentences without a full stop: ``resets ens256: no traffic for a moment``, ``the
    default route goes over ens192``, ``this very SSH connection goes over ens192``, ``an SSH
    connection goes over ens192`` (somebody else's, or one that the environment of the probe does not tell)."""


@dataclass(frozen=True)
class ChangeLine:
    """Something about the change `id`. "prepared" or "refused" answers each prepare; an apply is answered by "refused",
    or by "applying", "applied" and then "kept", or "undoing" and "undone". "failed" says what went wrong, and is
    followed by "undoing" and "undone" unless it says what stayed."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine."""
    id: str
    kind: Literal["prepared", "refused", "applying", "applied", "kept", "undoing", "undone", "failed"]
    """applied, undone: what was to be has been read back from the host."""
    text: str = ""
    """A sentence: why it was refused, why it failed, why it is undone."""
    plan: tuple[PlannedAction, ...] = ()
    """prepared, applied: one for each action."""
    fingerprint: str = ""
    """prepared: digest of the actions and of what is on the host now."""
    needs_second_yes: bool = False
    """prepared: it touches the link of an SSH connection or of a default route."""
    deadline: float | None = None
    """applied: CLOCK_MONOTONIC of the host at which it undoes the change by itself."""
