"""What a change would do to this host: actions → what is now, what will be, what takes it back, what it may interrupt.

Reads the host and changes nothing. Yields a `ChangePlan`; its fingerprint is a digest of the actions and of all that
they would replace, so that what was shown can be told from what is found when it is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nictop.probe.changes.grammar.actions import Operation, parse_action
from nictop.probe.changes.plan import lifelines
from nictop.probe.changes.plan.current_state import Roots, State, read_index, read_state, same, text_of, wanted_state
from nictop.probe.changes.plan.ifindexes import links_of, read_numbers
from nictop.probe.changes.plan.undo import undo_of
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.records import Link, PlannedAction

HARMLESS = ("affinity", "steering", "sysctl")
"""They cut nobody off, whatever goes over the link."""
MOST_ACTIONS = 512


@dataclass(frozen=True)
class ChangePlan:
    """A change that can be made."""

    operations: tuple[Operation, ...]
    shown: tuple[PlannedAction, ...]
    """One for each operation."""
    undo: tuple[tuple[str, ...], ...]
    """Of all that NetworkManager's checkpoint does not take back, in the order in which it is done."""
    fingerprint: str
    needs_second_yes: bool
    subjects: tuple[str, ...]
    """What nobody else may change meanwhile."""
    numbers: dict[str, int]
    """Interfaces that the operations and their undo name → ifindex."""

    @property
    def networkmanagers(self) -> tuple[Operation, ...]:
        """Those that its checkpoint takes back."""
        return tuple(one for one in self.operations if one.is_networkmanagers)


@dataclass
class Planned:
    """One operation on its way into a plan."""

    operation: Operation
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    undo: tuple[tuple[str, ...], ...] = ()
    links: tuple[str, ...] = ()
    disturbs: tuple[str, ...] = ()
    persistent: bool = False
    subject: str = ""
    undo_below: tuple[tuple[str, ...], ...] = ()
    """What NetworkManager itself takes back, unless it is killed."""


def read_plan(actions: Sequence[Sequence[str]], roots: Roots) -> ChangePlan:
    """Raises ValueError with a sentence: not allowed, not possible on this host, or not understood by it."""
    if not 0 < len(actions) <= MOST_ACTIONS:
        raise ValueError(f"a change has 1 to {MOST_ACTIONS} actions")
    operations = [parse_action(words) for words in actions]
    refuse_repetitions(operations)
    links, _ = read_links(roots.sys)
    carried = read_lifelines(links, roots)
    planned: list[Planned] = []
    for operation in operations:
        if operation.is_networkmanagers:
            planned.append(Planned(operation))
        else:
            planned.append(read_one(operation, planned, links, roots))
    read_networkmanager([one for one in planned if one.operation.is_networkmanagers], links, roots)
    shown = tuple(action_of(one, carried) for one in planned)
    touched = [name for one in planned if one.operation.kind not in HARMLESS for name in one.links]
    undo = tuple(dict.fromkeys(words for one in reversed(planned) for words in (*one.undo, *one.undo_below)))
    names = {name for one in planned for name in (one.operation.interface, *one.links) if name}
    numbers = read_numbers(sorted(names | links_of(undo)))
    digest = json.dumps([numbers, *([one.words, one.before, one.undo] for one in shown)])
    return ChangePlan(
        tuple(operations),
        shown,
        undo,
        hashlib.sha256(digest.encode("utf-8", "replace")).hexdigest()[:32],
        any(name in carried for name in touched),
        subjects_of(planned),
        numbers,
    )


def refuse_repetitions(operations: Iterable[Operation]) -> None:
    """Two actions on one setting: what is undone would depend on the order."""
    seen = set()
    for one in operations:
        if one.is_networkmanagers:
            continue
        for key, _value in one.settings:
            place = (one.kind.partition(" add")[0].partition(" del")[0], one.subject, one.number, key)
            if place in seen:
                raise ValueError(f"two actions set {key} of {one.subject}")
            seen.add(place)


def read_lifelines(links: Sequence[Link], roots: Roots) -> dict[str, tuple[str, ...]]:
    """See `lifelines`; the physical function of a VF carries what the VF carries."""
    carried = lifelines.lifelines(links, lifelines.read_ssh_ways(roots.proc))
    for name, what in list(carried.items()):
        for physical in lifelines.read_physical_function(name, roots.sys):
            carried[physical] = tuple(dict.fromkeys((*carried.get(physical, ()), *what)))
    return carried


def read_one(operation: Operation, earlier: Sequence[Planned], links: Sequence[Link], roots: Roots) -> Planned:
    """What one operation of the kernel's would do."""
    touched = touched_links(operation, roots)
    disturbs = DISTURBS.get(operation.kind, ())
    words = tuple(text.format(name=operation.subject, number=operation.number) for text in disturbs)
    try:
        before = read_state(operation, roots)
    except ValueError:
        if not is_made_by(operation, earlier):
            raise
        return Planned(operation, {}, dict(operation.settings), (), touched, words, subject=operation.subject)
    after = wanted_state(operation, before)
    try:
        undo = () if same(before, after) else undo_of(operation, before, links, roots)
    except OSError as error:
        raise ValueError(f"what would take back a change of {operation.subject} cannot be read: {error}") from None
    return Planned(operation, before, after, undo, touched, words, subject=operation.subject)


def is_made_by(operation: Operation, earlier: Iterable[Planned]) -> bool:
    """Whether what the operation is about comes with an earlier one: a queue with channels, a VF with their number.
    Then it goes with it, too."""
    maker = {"steering": "channels", "virtual function": "virtual functions"}.get(operation.kind)
    return any(
        one.operation.kind == maker and operation.interface in (one.operation.interface, *one.links) for one in earlier
    )


def touched_links(operation: Operation, roots: Roots) -> tuple[str, ...]:
    """Interfaces that an operation changes."""
    if operation.interface:
        return (operation.interface,)
    if operation.kind == "virtual functions":
        try:
            return tuple(sorted(os.listdir(f"{roots.sys}/bus/pci/devices/{operation.subject}/net")))
        except OSError:
            return ()
    return ()


def read_networkmanager(planned: Sequence[Planned], links: Sequence[Link], roots: Roots) -> None:
    """Fills in what NetworkManager's part would do. Raises ValueError."""
    if not planned:
        return
    from nictop.probe.changes.networkmanager.kernel_settings import undo_below
    from nictop.probe.changes.networkmanager.plan import describe

    for one, said in zip(planned, describe([one.operation for one in planned])):
        one.before, one.after, one.subject = {"": said.before}, {"": said.after}, said.subject
        one.links, one.disturbs, one.persistent = said.links, said.disturbs, said.persistent
        one.undo_below = undo_below(one.operation, said.links, links, roots)


def action_of(planned: Planned, carried: dict[str, tuple[str, ...]]) -> PlannedAction:
    """As it is shown."""
    goes_over: tuple[str, ...] = ()
    if planned.operation.kind not in HARMLESS:
        goes_over = tuple(f"{what} goes over {name}" for name in planned.links for what in carried.get(name, ()))
    return PlannedAction(
        words=planned.operation.words,
        before=text_of(planned.before).strip() or "not there yet",
        after=text_of(planned.after).strip(),
        undo=planned.undo,
        subject=planned.subject,
        persistent=planned.persistent,
        disturbs=(*planned.disturbs, *goes_over),
    )


def subjects_of(planned: Iterable[Planned]) -> tuple[str, ...]:
    """Names for the locks, in an order that all changes share. A link has several names, but one number."""
    subjects: set[str] = set()
    for one in planned:
        for name in one.links:
            with contextlib.suppress(ValueError):  # a modem is a device of NetworkManager's, and no link
                subjects.add(f"link {read_index(name)}")
        if one.operation.is_networkmanagers:
            subjects.add("networkmanager")
        elif not one.links:
            subjects.add(one.operation.subject)
    return tuple(sorted(subjects))


DISTURBS: dict[str, tuple[str, ...]] = {
    "channels": ("resets {name}: no traffic for a moment",),
    "rings": ("resets {name}: no traffic for a moment",),
    "features": ("may reset {name}: no traffic for a moment",),
    "mtu": ("may reset {name}: no traffic for a moment",),
    "virtual functions": ("may reset {name}: no traffic for a moment",),
    "virtual function": ("who has VF {number} of {name} may notice",),
    "address del": ("whoever talks to this address of {name} is cut off",),
}
