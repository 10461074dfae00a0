"""What kind of experiment a wish is, and what is wrong with it whatever the hosts are: before any is connected to.

Reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.plan import Endpoint, EndpointPair, Generator, problems
from nictop.traffic.plan.quantities import shown
from nictop.traffic.plan.request import RunRequest, plan_of
from nictop.traffic.plan.variables import checked, variable_of
from nictop.traffic.results.selection import ExperimentKind

MOST_REPEATS = 1000
MOST_STEPS = 5000
LONGEST_REST = 86400.0
LONGEST_LABEL = 200
"""Characters."""
ANYWHERE = EndpointPair("", Endpoint("client", None, "192.0.2.1"), Endpoint("server", None, "192.0.2.2"))
"""Ends that no plan is refused for (RFC 5737)."""


@dataclass(frozen=True)
class ValidatedRequest:
    """A wish, and what it is: checked as far as it can be without the hosts."""

    wish: RunRequest
    kind: ExperimentKind
    variable: str
    """"": nothing varies."""
    values: tuple[str, ...]
    """("",) where nothing varies."""

    @property
    def is_by_somebody(self) -> bool:
        return bool(self.variable) and variable_of(self.variable).by_somebody


def asked_for(wish: RunRequest) -> ValidatedRequest:
    """NictopError: why it cannot be run between any hosts."""
    asked = _kind_of(wish)
    for value in asked.values if asked.variable else ():
        checked(asked.variable, value)
    if not 1 <= wish.repeat <= MOST_REPEATS:
        raise NictopError(f"repeat is {wish.repeat}, not from 1 to {MOST_REPEATS}")
    if len(asked.values) * wish.repeat > MOST_STEPS:
        raise NictopError(f"{len(asked.values) * wish.repeat} runs are more than {MOST_STEPS}")
    if not 0 <= wish.rest <= LONGEST_REST or math.isnan(wish.rest):
        raise NictopError(f"rest is {wish.rest:g}, not from 0 to {LONGEST_REST:g} seconds")
    if len(wish.label) > LONGEST_LABEL or clean(wish.label) != wish.label:
        raise NictopError(f"label: {shown(wish.label)} is too long, or has characters that cannot be shown")
    if wish.between and not asked.is_by_somebody:
        raise NictopError(
            "there is nothing for a command between the runs to change",
            "it belongs to what nictop does not set itself: queues, mtu or setup, in a sweep or a comparison",
        )
    _check_plans(asked)
    return asked


def _kind_of(wish: RunRequest) -> ValidatedRequest:
    if wish.sweep is not None and wish.compare is not None:
        raise NictopError("a sweep and a comparison are two experiments", "ask for one of them")
    if wish.compare is not None:
        name, values = wish.compare
        if len(values) != 2:
            raise NictopError(f"two values are compared, not {len(values)}", "a sweep takes any number of values")
        return ValidatedRequest(wish, "compare", name, values)
    if wish.sweep is not None:
        name, values = wish.sweep
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice or not values:
            found = f"{', '.join(map(shown, twice))} stands there twice" if twice else "no value stands there"
            raise NictopError(f"{name}: {found}")
        return ValidatedRequest(wish, "sweep", name, values)
    return ValidatedRequest(wish, "repeat" if wish.repeat > 1 else "run", "", ("",))


def _check_plans(asked: ValidatedRequest) -> None:
    """What is wrong with the plans that it becomes, with either generator where both may be used."""
    into_plan = variable_of(asked.variable).into_plan if asked.variable else None
    generators: tuple[Generator, ...] = ("iperf3", "builtin")
    if asked.wish.generator != "auto":
        generators = (asked.wish.generator,)
    found = []
    for generator in generators:
        plan = plan_of(asked.wish, ANYWHERE, generator)
        plans = {value: into_plan(plan, value) if into_plan is not None else plan for value in asked.values}
        found.append({value: problems(plan) for value, plan in plans.items()})
    told = [by_value(asked.variable, reasons) for reasons in found]
    if not all(told):
        return
    common = {value: [one for one in reasons if one in found[-1][value]] for value, reasons in found[0].items()}
    if shared := by_value(asked.variable, common):
        raise NictopError(f"it cannot be run: {shared}")
    raise NictopError(f"no generator can run it: iperf3 does not ({told[0]}), nor does the built-in one ({told[-1]})")


def by_value(variable: str, reasons: Mapping[str, Iterable[str]]) -> str:
    """Why plans cannot be run, by value of what is varied: every reason once, with the values that it is about unless
    it is about all; "" when there is none."""
    about: dict[str, list[str]] = {}
    for value, found in reasons.items():
        for reason in found:
            about.setdefault(reason, []).append(value)
    return "; ".join(
        reason if len(values) == len(reasons) else f"{reason} ({variable} {', '.join(map(clean, values))})"
        for reason, values in about.items()
    )
