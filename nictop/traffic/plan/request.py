"""What somebody asks for before it is known what the hosts have, and what becomes of it: places, plans, a generator.

Reads nothing. A `RunRequest` has names as people know them (hosts, NICs, addresses); `choose` finds the ends that are
meant among the offers, `plan_of` makes the plan, `generator_of` says which generator carries all of it. What cannot be
is a NictopError whose hint has the words to type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from nictop.errors import NictopError
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.endpoints import choose
from nictop.traffic.plan.plan import EndpointPair, Generator, RunOptions, RunPlan, problems
from nictop.traffic.plan.quantities import amount, bit_rate, cpu, dscp, shown, whole_number
from nictop.traffic.plan.tools import refusals
from nictop.traffic.plan.variables import MOST_VALUES, checked, variable_of

__all__ = [
    "RunRequest",
    "Values",
    "amount",
    "bit_rate",
    "choose",
    "cpu",
    "dscp",
    "generator_of",
    "plan_of",
    "values",
    "whole_number",
]

Values = tuple[str, tuple[str, ...]]
"""Name of a variable (`variables.VARIABLES`), and its values as they were typed."""


@dataclass(frozen=True)
class RunRequest(RunOptions):
    """A run, or several. "" and None: whatever fits, or the generator's default."""

    client: str
    server: str
    """Names of watched hosts."""
    client_nic: str = ""
    client_address: str = ""
    server_nic: str = ""
    server_address: str = ""
    generator: Literal["auto", "iperf3", "builtin"] = "auto"
    ip_version: Literal[4, 6] | None = None
    repeat: int = 1
    """Runs of each set-up."""
    rest: float = 2.0
    """Seconds between two runs."""
    sweep: Values | None = None
    compare: Values | None = None
    """Exactly two values."""
    between: str = ""
    """Shell command that changes what nictop does not set itself; "": somebody is asked."""
    label: str = ""
    """Under which the results are kept."""
    observers: tuple[str, ...] = ()
    """Names of watched hosts whose CPUs and NICs are looked at too."""


def values(word: str) -> Values:
    """``length=512,4K,8M`` → ("length", ("512", "4K", "8M")); every value is one that the variable can have."""
    name, equals, listed = word.partition("=")
    name = name.strip().lower()
    if not equals:
        raise NictopError(f"{shown(word)} names no values", "write it like length=512,4K,8M")
    variable_of(name)
    found = tuple(one.strip() for one in listed.split(","))
    if len(found) > MOST_VALUES:
        raise NictopError(f"{name}: {len(found)} values are more than {MOST_VALUES}")
    for one in found:
        checked(name, one)
    return name, found


def plan_of(wish: RunRequest, offer: EndpointPair, generator: Generator) -> RunPlan:
    """The wish as a plan between these ends."""
    chosen = {one.name: getattr(wish, one.name) for one in fields(RunOptions)}
    return RunPlan(offer.client, offer.server, generator, **chosen)


def generator_of(
    wish: RunRequest, plans: Sequence[RunPlan], client_tools: TrafficTools, server_tools: TrafficTools
) -> tuple[Generator, str]:
    """The generator of all these plans, whatever they say of it, and the sentence why when it is the second choice (""
    else). NictopError: neither can carry them all."""
    if wish.generator != "auto":
        return wish.generator, ""
    with_iperf3 = _objections("iperf3", plans, client_tools, server_tools)
    if not with_iperf3:
        return "iperf3", ""
    with_builtin = _objections("builtin", plans, client_tools, server_tools)
    own = [one for one in with_iperf3 if one not in with_builtin]
    if not with_builtin:
        every = "all runs" if len(plans) > 1 else "the run"
        return "builtin", f"the built-in generator carries {every}: {'; '.join(own)}"
    common = [one for one in with_iperf3 if one in with_builtin]
    other = [one for one in with_builtin if one not in with_iperf3]
    if not own or not other:
        reasons = [*common, *other] if not own else common
        raise NictopError(f"the hosts cannot run it: {'; '.join(reasons)}")
    raise NictopError(
        f"no generator can run it: iperf3 does not ({'; '.join(own)}), nor does the built-in one ({'; '.join(other)})",
        "; ".join(common),
    )


def _objections(
    generator: Generator, plans: Sequence[RunPlan], client_tools: TrafficTools, server_tools: TrafficTools
) -> list[str]:
    """Why it cannot carry all of these, each reason once."""
    found: dict[str, None] = {}
    for plan in plans:
        asked = replace(plan, generator=generator)
        found |= dict.fromkeys((*problems(asked), *refusals(asked, client_tools, server_tools)))
    return list(found)
