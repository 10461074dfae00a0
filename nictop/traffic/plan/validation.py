"""The kind of experiment that a request means, and what is invalid in it whatever the hosts are.

Reads nothing; called before any host is connected to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.plan import Endpoint, EndpointPair, Generator, plan_problems
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.request import BUILTIN_TESTS, RunRequest, plan_of
from nictop.traffic.plan.variables import check_value, variable_of
from nictop.traffic.results.selection import ExperimentKind

MAX_REPEATS = 1000
MAX_RUNS = 5000
MAX_REST_SECONDS = 86400.0
MAX_LABEL_CHARACTERS = 200
EXAMPLE_PAIR = EndpointPair("", Endpoint("client", None, "192.0.2.1"), Endpoint("server", None, "192.0.2.2"))
"""Endpoints with which every plan is valid (documentation addresses of RFC 5737)."""


@dataclass(frozen=True)
class ValidatedRequest:
    """A request that was checked as far as possible without the hosts."""

    request: RunRequest
    kind: ExperimentKind
    variable: str
    """"" if nothing varies."""
    values: tuple[str, ...]
    """("",) if nothing varies."""

    @property
    def is_manual(self) -> bool:
        return bool(self.variable) and variable_of(self.variable).manual


def validate_request(request: RunRequest) -> ValidatedRequest:
    """Check a request. Raises NictopError if it cannot be run between any hosts."""
    validated = _classify(request)
    for value in validated.values if validated.variable else ():
        check_value(validated.variable, value)
    if not 1 <= request.repeat <= MAX_REPEATS:
        raise NictopError(f"runs must be 1 to {MAX_REPEATS}, not {request.repeat}")
    if len(validated.values) * request.repeat > MAX_RUNS:
        raise NictopError(f"{len(validated.values) * request.repeat} runs: more than {MAX_RUNS}")
    if not 0 <= request.rest <= MAX_REST_SECONDS or math.isnan(request.rest):
        raise NictopError(f"pause must be 0 to {MAX_REST_SECONDS:g} s, not {request.rest:g}")
    if len(request.label) > MAX_LABEL_CHARACTERS or clean(request.label) != request.label:
        raise NictopError(f"label: {quoted(request.label)} is too long or has control characters")
    if request.between and not validated.is_manual:
        raise NictopError(
            "between: a setup command is for variants of queues, mtu or setup",
            "use it with a sweep or comparison of one of these",
        )
    _check_plans(validated)
    return validated


def _classify(request: RunRequest) -> ValidatedRequest:
    if request.sweep is not None and request.compare is not None:
        raise NictopError("sweep and comparison exclude each other", "use one of them")
    if request.compare is not None:
        name, values = request.compare
        if len(values) != 2:
            raise NictopError(f"compare needs 2 values, not {len(values)}", "a sweep takes any number of values")
        return ValidatedRequest(request, "compare", name, values)
    if request.sweep is not None:
        name, values = request.sweep
        duplicates = sorted({value for value in values if values.count(value) > 1})
        if duplicates or not values:
            found = f"duplicate value {', '.join(map(quoted, duplicates))}" if duplicates else "value missing"
            raise NictopError(f"{name}: {found}")
        return ValidatedRequest(request, "sweep", name, values)
    return ValidatedRequest(request, "repeat" if request.repeat > 1 else "run", "", ("",))


def _check_plans(validated: ValidatedRequest) -> None:
    """Raise NictopError for what is invalid in its plans, with every generator that may be used."""
    into_plan = variable_of(validated.variable).into_plan if validated.variable else None
    generators: tuple[Generator, ...] = ("iperf3", "builtin")
    if validated.request.test in BUILTIN_TESTS:
        generators = ("builtin",)
    if validated.request.generator != "auto":
        generators = (validated.request.generator,)
    found = []
    for generator in generators:
        plan = plan_of(validated.request, EXAMPLE_PAIR, generator)
        plans = {value: into_plan(plan, value) if into_plan is not None else plan for value in validated.values}
        found.append({value: plan_problems(plan) for value, plan in plans.items()})
    by_generator = [reasons_by_value(validated.variable, reasons) for reasons in found]
    if not all(by_generator):
        return
    common = {value: [one for one in reasons if one in found[-1][value]] for value, reasons in found[0].items()}
    if shared := reasons_by_value(validated.variable, common):
        raise NictopError(f"invalid options: {shared}")
    raise NictopError(f"no generator supports it: iperf3 ({by_generator[0]}), built-in ({by_generator[-1]})")


def reasons_by_value(variable: str, reasons: Mapping[str, Iterable[str]]) -> str:
    """Why plans cannot be run: every reason once, with the values of the variable that it is true for unless it is true
    for all; "" if there is none."""
    about: dict[str, list[str]] = {}
    for value, found in reasons.items():
        for reason in found:
            about.setdefault(reason, []).append(value)
    return "; ".join(
        reason if len(values) == len(reasons) else f"{reason} ({variable} {', '.join(map(clean, values))})"
        for reason, values in about.items()
    )
