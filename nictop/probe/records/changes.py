"""Changes of a host: requests to a probe, and its replies.

A probe that was not started with ``--allow-changes`` refuses every step but "prepare". An action is
an argument vector, never a shell command: a program of an allow-list with arguments (``("ip",
"link", "set", "dev", "ens4", "mtu", "9000")``), or ``("write", PATH, TEXT)``.
"""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass

MIN_KEEP_WITHIN, MAX_KEEP_WITHIN = 5.0, 600.0
"""Seconds that a change may wait for its confirmation."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """One step of one change. A probe replies with `ChangeLine`s of the same id, and makes one
    change at a time."""

    id: str
    """Chosen by the requester: printable ASCII, 1 to 64 characters."""
    step: Literal["prepare", "apply", "keep", "undo"]
    """prepare: report what would be changed, without a change. apply: make the change, and undo it
    unless confirmed in time. keep: confirm the change. undo: undo it now."""
    actions: tuple[tuple[str, ...], ...] = ()
    """prepare and apply: in the order of execution; they are undone in reverse order."""
    keep_within: float = 30.0
    """apply: seconds from "applied" until the host undoes the change if it is not confirmed,
    `MIN_KEEP_WITHIN` to `MAX_KEEP_WITHIN`."""
    fingerprint: str = ""
    """apply: of the "prepared" line. Refused if the state of the host has changed since then."""
    twice: bool = False
    """apply: confirmed twice, see `ChangeLine.needs_second_yes`."""


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """One action: the state before and after it, and how it is undone."""

    words: tuple[str, ...]
    """As requested."""
    before: str
    """Read from the host: ``combined 1``, ``mtu 1500``, a mask in the format of the kernel."""
    after: str
    """In the same format."""
    undo: tuple[tuple[str, ...], ...]
    """Actions that restore `before`, in order; empty: restored by NetworkManager's checkpoint, or
    nothing to change."""
    subject: str
    """Interface, ``irq 30``, profile or setting. Text of the host: must be sanitized for a
    terminal."""
    persistent: bool = False
    """It remains after a reboot of the host."""
    disturbs: tuple[str, ...] = ()
    """What it may interrupt, as sentences without a full stop: ``resets ens256: short traffic
    interruption``, ``the default route uses ens192``, ``this SSH connection uses ens192``, ``an SSH
    connection uses ens192`` (of another user, or one that is not in the environment of the
    probe)."""


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A reply about the change `id`. To prepare: "prepared" or "refused". To apply: "refused", or
    "applying", "applied" and then "kept", or "undoing" and "undone". Between "applied" and its end
    "checked" each time that `differences` are others. "failed" has the error in `text`, and is
    followed by "undoing" and "undone" unless it `is_last`."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the probe's machine."""
    id: str
    kind: Literal[
        "prepared",
        "refused",
        "applying",
        "applied",
        "checked",
        "kept",
        "undoing",
        "undone",
        "failed",
    ]
    """applied, undone: the state has been read back from the host and is as planned. checked, kept:
    it has been read again, see `differences`."""
    text: str = ""
    """A sentence: the reason why it was refused, has failed or is undone."""
    plan: tuple[PlannedAction, ...] = ()
    """prepared, applied: one for each action."""
    fingerprint: str = ""
    """prepared: digest of the actions and of the state of the host."""
    needs_second_yes: bool = False
    """prepared: it affects the link of an SSH connection or of a default route, and must be
    confirmed twice."""
    deadline: float | None = None
    """applied, checked: CLOCK_MONOTONIC of the host at which it undoes the change if it is not
    confirmed."""
    differences: tuple[str, ...] = ()
    """checked, kept: values that are not those of the change any more, as something else has
    changed them: ``ens4: mtu 1500 instead of mtu 1400``. Nothing overwrites them. Text of the host:
    must be sanitized for a terminal."""
    unverified: str = ""
    """kept: why the values could not be read again; "": they were."""
    is_last: bool = False
    """failed: nothing follows, what the text names is not undone."""
