"""The kind of experiment that a request means, and what is invalid in it whatever the hosts are.

Reads nothing; called before any host is connected to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.plan import Endpoint, EndpointPair, Generator
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import InvalidRequest, Problem
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.request import BUILTIN_TESTS, RunRequest, no_generator, plan_of
from nictop.traffic.plan.variables import ONE_HOST_VARIABLES, check_value_in, variable_in

ExperimentKind = Literal["run", "repeat", "sweep", "compare"]

MAX_REPEATS = 1000
MAX_RUNS = 5000
MAX_REST_SECONDS = 86400.0
MAX_LABEL_CHARACTERS = 200
VALUE_NAME = "NICTOP_VALUE"
USED_VALUE = re.compile(r"\$NICTOP_VALUE\b|\$\{NICTOP_VALUE\}", re.ASCII)
"""In a command, without a default."""
EXAMPLE_PAIR = EndpointPair(
    "", Endpoint("client", None, "192.0.2.1"), Endpoint("server", None, "192.0.2.2")
)
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
        return bool(self.variable) and variable_in(self.request, self.variable).manual


def validate_request(request: RunRequest) -> ValidatedRequest:
    """Check a request. Raises InvalidRequest if it cannot be run between any hosts."""
    validated = _classify(request)
    _check_values(validated)
    _check_repeats(validated)
    if not 0 <= request.rest <= MAX_REST_SECONDS or math.isnan(request.rest):
        most = f"{MAX_REST_SECONDS:g} s"
        raise InvalidRequest.of("rest", f"pause must be 0 to {most}, not {request.rest:g}")
    if len(request.label) > MAX_LABEL_CHARACTERS or clean(request.label) != request.label:
        said = f"{quoted(request.label)} is too long or has control characters"
        raise InvalidRequest.of("label", f"label: {said}", said=said)
    if request.between and not validated.is_manual:
        said = "a setup command is for variants of queues, mtu or setup"
        hint = "use it with a sweep or comparison of one of these"
        raise InvalidRequest.of("between", f"between: {said}", hint, said=said)
    _check_plans(validated)
    _check_used_value(validated)
    return validated


def _classify(request: RunRequest) -> ValidatedRequest:
    if request.sweep is not None and request.compare is not None:
        excluded = "sweep and comparison exclude each other"
        raise InvalidRequest.of("sweep", excluded, "use one of them")
    if request.compare is not None:
        return _comparison(request, *request.compare)
    if request.sweep is not None:
        return _sweep(request, *request.sweep)
    return ValidatedRequest(request, "repeat" if request.repeat > 1 else "run", "", ("",))


def _comparison(request: RunRequest, name: str, values: tuple[str, ...]) -> ValidatedRequest:
    if len(values) != 2:
        wrong = f"compare needs 2 values, not {len(values)}"
        raise InvalidRequest.of("compare", wrong, "a sweep takes any number of values")
    return ValidatedRequest(request, "compare", name, values)


def _sweep(request: RunRequest, name: str, values: tuple[str, ...]) -> ValidatedRequest:
    duplicates = sorted({value for value in values if values.count(value) > 1})
    if duplicates:
        listed = ", ".join(map(quoted, duplicates))
        raise InvalidRequest.of("sweep", f"{name}: duplicate value {listed}")
    if not values:
        raise InvalidRequest.of("sweep", f"{name}: value missing")
    return ValidatedRequest(request, "sweep", name, values)


def _check_values(validated: ValidatedRequest) -> None:
    if not validated.variable:
        return
    for value in validated.values:
        try:
            check_value_in(validated.request, validated.variable, value)
        except NictopError as error:
            raise InvalidRequest.of(validated.kind, error.message, error.hint) from None


def _check_repeats(validated: ValidatedRequest) -> None:
    repeat = validated.request.repeat
    if not 1 <= repeat <= MAX_REPEATS:
        raise InvalidRequest.of("repeat", f"runs must be 1 to {MAX_REPEATS}, not {repeat}")
    runs = len(validated.values) * repeat
    if runs > MAX_RUNS:
        raise InvalidRequest.of("repeat", f"{runs} runs: more than {MAX_RUNS}")


def _check_used_value(validated: ValidatedRequest) -> None:
    """Without a variable it would be empty in the command."""
    if validated.variable or not USED_VALUE.search(validated.request.workload):
        return
    said = "the command has $NICTOP_VALUE, but nothing is varied"
    hint = "with a sweep or comparison it is the value; ${NICTOP_VALUE:-4K} has a default"
    raise InvalidRequest.of("workload", said, hint)


def unused_value_text(validated: ValidatedRequest) -> str:
    """A remark on a command that is the same for each value; "": it is not, or nothing is varied
    that only a command can vary."""
    request, variable = validated.request, validated.variable
    if request.test != "workload" or not variable or variable in ONE_HOST_VARIABLES:
        return ""
    if VALUE_NAME in request.workload:
        return ""
    return (
        f"${VALUE_NAME} is not in the command: with each {clean(variable)} it does the same, "
        "unless a program in it reads that variable"
    )


def _check_plans(validated: ValidatedRequest) -> None:
    """Raise InvalidRequest for what is invalid in its plans, with every generator that may be
    used."""
    generators = _generators(validated.request)
    by_generator = [_problems_by_value(validated, generator) for generator in generators]
    if not all(any(problems.values()) for problems in by_generator):
        return
    first, last = by_generator[0], by_generator[-1]
    common = {}
    for value, problems in first.items():
        common[value] = [problem for problem in problems if problem in last[value]]
    shared = reasons_by_value(validated.variable, common)
    if shared:
        raise InvalidRequest(f"invalid options: {shared}", all_problems(common))
    raise no_generator(
        reasons_by_value(validated.variable, first),
        reasons_by_value(validated.variable, last),
        (*all_problems(first), *all_problems(last)),
    )


def _generators(request: RunRequest) -> tuple[Generator, ...]:
    """Those that may be used for a request."""
    if request.generator != "auto":
        return (request.generator,)
    if request.test in BUILTIN_TESTS:
        return ("builtin",)
    if request.is_of_one_host or request.foreign:
        return ("iperf3",)
    return ("iperf3", "builtin")


def _problems_by_value(
    validated: ValidatedRequest, generator: Generator
) -> dict[str, tuple[Problem, ...]]:
    """Value of the variable → what is invalid in its plan."""
    request, into_plan = validated.request, None
    if validated.variable:
        into_plan = variable_in(request, validated.variable).into_plan
    pair = EXAMPLE_PAIR
    if request.is_of_one_host:
        pair = EndpointPair("", pair.client, pair.client)
    if request.foreign_side == "server":
        pair = EndpointPair("", pair.client, replace(pair.server, host=pair.server.address))
    if request.foreign_side == "client":
        pair = EndpointPair("", replace(pair.client, host=pair.client.address), pair.server)
    plan = plan_of(request, pair, generator)
    if into_plan is None:
        return dict.fromkeys(validated.values, plan_problems(plan))
    return {value: plan_problems(into_plan(plan, value)) for value in validated.values}


def reasons_by_value(variable: str, problems: Mapping[str, Iterable[Problem]]) -> str:
    """Why plans cannot be run: every reason once, with the values of the variable that it is true
    for unless it is true for all; "" if there is none."""
    values_of: dict[str, list[str]] = {}
    for value, found in problems.items():
        for problem in found:
            values_of.setdefault(problem.sentence, []).append(value)
    reasons = []
    for reason, values in values_of.items():
        is_true_for_all = len(values) == len(problems)
        which = "" if is_true_for_all else f" ({variable} {', '.join(map(clean, values))})"
        reasons.append(f"{reason}{which}")
    return "; ".join(reasons)


def all_problems(problems: Mapping[str, Iterable[Problem]]) -> tuple[Problem, ...]:
    """Each once."""
    found: dict[Problem, None] = {}
    for of_value in problems.values():
        found |= dict.fromkeys(of_value)
    return tuple(found)
