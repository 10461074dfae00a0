"""What the user requests, before the capabilities of the hosts are known: `RunRequest`, its plan
and its generator.

Reads nothing. A `RunRequest` has names as users know them (hosts, NICs, addresses);
`endpoints.select_pair` finds the endpoint pair, `plan_of` makes the plan, `generator_of` selects
the generator. NictopError is raised for what is impossible; its hint has the options to type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Literal

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import EndpointPair, Generator, RunOptions, RunPlan, TestKind
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import InvalidRequest, Problem, sentences
from nictop.traffic.plan.quantities import parse_sizes, quoted
from nictop.traffic.plan.tools import refusals
from nictop.traffic.plan.variables import (
    MAX_VALUES,
    ONE_HOST_VARIABLES,
    VARIABLE_NAME,
    check_value,
    check_workload_value,
    variable_of,
)

BUILTIN_TESTS: tuple[TestKind, ...] = ("rr", "crr")
"""Tests that iperf3 does not have."""
Values = tuple[str, tuple[str, ...]]
"""Name of a variable (see `variables.VARIABLES`), and its values as they were typed."""


@dataclass(frozen=True)
class RunRequest(RunOptions):
    """One run or several. "" and None: any, or the default of the generator."""

    client: str
    server: str
    """Names of watched hosts."""
    client_nic: str = ""
    client_address: str = ""
    server_nic: str = ""
    server_address: str = ""
    generator: Literal["auto", "iperf3", "builtin", "ntttcp"] = "auto"
    ip_version: Literal[4, 6] | None = None
    repeat: int = 1
    """Number of runs of each set-up."""
    rest: float = 2.0
    """Seconds between two runs."""
    sweep: Values | None = None
    compare: Values | None = None
    """Exactly two values."""
    between: str = ""
    """Shell command that makes the changes which nictop does not make; "": the user is asked to
    make them."""
    label: str = ""
    """Name under which the results are stored."""
    observers: tuple[str, ...] = ()
    """Names of watched hosts whose CPUs and NICs are measured too."""

    @property
    def watched_ends(self) -> tuple[str, ...]:
        """Names of the hosts that are ends of its runs, each once."""
        names = {"client": self.client, "server": self.server}
        if self.foreign_side is not None:
            del names[self.foreign_side]
        return tuple(dict.fromkeys(names.values()))


def parse_values(text: str, *, of_workload: bool = False) -> Values:
    """``length=512,4K,8M`` → ("length", ("512", "4K", "8M")). Raises NictopError if a value is
    invalid for the variable. `of_workload`: any name, whose value the command gets as
    $NICTOP_VALUE."""
    name, equals, listed = text.partition("=")
    name = name.strip().lower()
    if not equals:
        raise NictopError(f"{quoted(text)} has no values", "e.g. length=512,4K,8M")
    if of_workload and name not in ONE_HOST_VARIABLES:
        return _workload_values(name, listed)
    variable_of(name)
    values = tuple(value.strip() for value in listed.split(","))
    if len(values) > MAX_VALUES:
        raise NictopError(f"{name}: {len(values)} values, at most {MAX_VALUES}")
    for value in values:
        check_value(name, value)
    return name, values


def _workload_values(name: str, listed: str) -> Values:
    """Of a variable of a command."""
    if not VARIABLE_NAME.fullmatch(name):
        raise NictopError(f"{quoted(name)} is not a name", "e.g. size=4K,64K,1M")
    values = tuple(value.strip() for value in listed.split(","))
    if len(values) > MAX_VALUES:
        raise NictopError(f"{name}: {len(values)} values, at most {MAX_VALUES}")
    for value in values:
        check_workload_value(name, value)
    return name, values


def with_sizes(request: RunRequest, text: str, what: str = "size") -> RunRequest:
    """The request with these sizes: ``64``, ``64:4K``; several, ``1,64,4K``, are a sweep of them.
    Raises NictopError."""
    if "," not in text:
        size, response = parse_sizes(text, what)
        return replace(request, request_size=size, response_size=response)
    if request.sweep is not None or request.compare is not None:
        raise NictopError(
            f"{what}: several sizes are a sweep, which excludes another sweep or comparison"
        )
    return replace(request, sweep=parse_values(f"size={text}"))


def plan_of(request: RunRequest, pair: EndpointPair, generator: Generator) -> RunPlan:
    """The plan of a request between two endpoints."""
    chosen = {field.name: getattr(request, field.name) for field in fields(RunOptions)}
    return RunPlan(pair.client, pair.server, generator, **chosen)


def generator_of(
    request: RunRequest,
    plans: Sequence[RunPlan],
    client_tools: TrafficTools,
    server_tools: TrafficTools,
) -> tuple[Generator, str]:
    """The generator that can run all these plans, and the reason if it is the second choice (""
    else); the generators of the plans are ignored. Raises NictopError if neither can run them
    all."""
    if request.generator != "auto":
        return request.generator, ""
    if request.test in BUILTIN_TESTS:  # no second choice
        refused = _refused("builtin", plans, client_tools, server_tools)
        if refused:
            raise not_supported(sentences(refused), refused)
        return "builtin", ""
    by_iperf3 = _refused("iperf3", plans, client_tools, server_tools)
    if not by_iperf3:
        return "iperf3", ""
    by_builtin = _refused("builtin", plans, client_tools, server_tools)
    only_iperf3 = [problem for problem in by_iperf3 if problem not in by_builtin]
    if not by_builtin:
        return "builtin", f"built-in generator used: {sentences(only_iperf3)}"
    common = [problem for problem in by_iperf3 if problem in by_builtin]
    only_builtin = [problem for problem in by_builtin if problem not in by_iperf3]
    if not only_iperf3:
        refused = [*common, *only_builtin]
        raise not_supported(sentences(refused), refused)
    if not only_builtin:
        raise not_supported(sentences(common), common)
    raise no_generator(
        sentences(only_iperf3),
        sentences(only_builtin),
        [*only_iperf3, *only_builtin],
        sentences(common),
    )


def not_supported(reasons: str, problems: Iterable[Problem], hint: str = "") -> InvalidRequest:
    """The hosts do not support it: that is also a problem of the whole, not only of a field."""
    message = f"not supported: {reasons}"
    return InvalidRequest(message, (*problems, Problem("", message)), hint)


def no_generator(
    iperf3: str, builtin: str, problems: Iterable[Problem], hint: str = ""
) -> InvalidRequest:
    """Each generator supports a part of it. `iperf3`, `builtin`: why they do not support it all."""
    message = f"no generator supports it: iperf3 ({iperf3}), built-in ({builtin})"
    return InvalidRequest(message, (*problems, Problem("", message)), hint)


def _refused(
    generator: Generator,
    plans: Sequence[RunPlan],
    client_tools: TrafficTools,
    server_tools: TrafficTools,
) -> list[Problem]:
    """Why the generator cannot run all of these plans; each reason once."""
    found: dict[Problem, None] = {}
    for plan in plans:
        candidate = replace(plan, generator=generator)
        found |= dict.fromkeys(
            (*plan_problems(candidate), *refusals(candidate, client_tools, server_tools))
        )
    return list(found)
