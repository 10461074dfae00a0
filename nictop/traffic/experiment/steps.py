"""What a wish comes to: the runs to make, in order, between ends that are there, by a generator that can carry them.

Reads nothing; `experiment_of` takes offers, snapshots and tools, `prepared` gets them of the hosts. Values of a sweep
and of a comparison alternate forth and back (A B B A, 1 2 4 4 2 1), so that what drifts meets all of them alike, and
what somebody has to change is changed as seldom as that allows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nictop.errors import NictopError
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficTools
from nictop.traffic.analysis.comparison import FEWEST, order
from nictop.traffic.plan.endpoints import choose
from nictop.traffic.plan.plan import EndpointPair, RunPlan, offers, problems
from nictop.traffic.plan.quantities import shown
from nictop.traffic.plan.request import RunRequest, generator_of, plan_of
from nictop.traffic.plan.tools import differences, refusals
from nictop.traffic.plan.validation import ValidatedRequest, asked_for, by_value
from nictop.traffic.plan.variables import variable_of, wanted_words
from nictop.traffic.results.selection import ExperimentKind
from nictop.traffic.run.host import RunHost

SHORTEST_RANKED = 2
"""Seconds: within one there need not be two counter records that are `load.SHORTEST_WINDOW` apart."""
AROUND = 1.0
"""Seconds that a run takes beside its own, as long as none was made: looking for the generators, starting, the last
counters."""


@dataclass(frozen=True)
class Step:
    """One run of an experiment."""

    plan: RunPlan
    label: str
    """What is special about it: ``message size 4K``, ``B: queues 4``, ``2 of 5``; "" of a single run; clean."""
    group: str = ""
    """As in `Kept`."""
    change: str = ""
    """What must be so on the hosts before it: ``queues of ens224 on a: 4``; nictop does not set it. "": nothing. Clean.
    """
    value: str = ""
    """Of the experiment's variable."""


@dataclass(frozen=True)
class Experiment:
    """What will be run, in order."""

    identity: str
    steps: tuple[Step, ...]
    kind: ExperimentKind = "run"
    variable: str = ""
    rest: float = 2.0
    """Seconds between two runs."""
    between: str = ""
    """Shell command that makes the changes; "": somebody is asked."""
    label: str = ""
    notes: tuple[str, ...] = ()
    """What is worth knowing before it starts: why this generator, what no verdict can be made of. Clean."""
    hosts: tuple[str, ...] = ()
    """Client, server, observers."""

    @property
    def seconds(self) -> float:
        """How long it takes, about; what people need for changes is not in it."""
        return self.seconds_from(1)

    def seconds_from(self, number: int, around: float = AROUND) -> float:
        """How long it takes from that step on, from 1. `around`: seconds that a run takes beside its own."""
        left = self.steps[number - 1 :]
        return sum(step.plan.seconds + around for step in left) + self.rest * max(0, len(left) - 1)


async def prepared(wish: RunRequest, hosts: Mapping[str, RunHost]) -> Experiment:
    """Asks both ends for their generators; then `experiment_of`. Every host has told its inventory."""
    tools = {}
    for name in dict.fromkeys((wish.client, wish.server)):
        if name in hosts:
            tools[name] = await hosts[name].tools()
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    found = offers(pairs(snapshots.values()).subnets, snapshots.values())
    return experiment_of(wish, found, snapshots, tools)


def experiment_of(
    wish: RunRequest,
    offers: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    tools: Mapping[str, TrafficTools],
) -> Experiment:
    """`snapshots` and `tools`: by host. NictopError: why it cannot be run, every reason in it."""
    asked = asked_for(wish)
    offer, plans = _plans(asked, offers, snapshots)
    missing = [clean(name) for name in (wish.client, wish.server) if name not in tools]
    if missing:
        raise NictopError(f"{', '.join(missing)}: which generators there are is not known")
    client, server = tools[wish.client], tools[wish.server]
    note = ""
    if asked.variable != "generator":
        generator, note = generator_of(wish, list(plans.values()), client, server)
        plans = {value: replace(plan, generator=generator) for value, plan in plans.items()}
    _refuse(asked.variable, plans, client, server)
    away = [f"{clean(name)} is not there, and does not observe" for name in wish.observers if name not in snapshots]
    return Experiment(
        uuid.uuid4().hex[:12],
        tuple(_steps(asked, plans, snapshots)),
        asked.kind,
        asked.variable,
        wish.rest,
        wish.between,
        wish.label,
        tuple(filter(None, (note, *away, *_notes(asked, offer, plans.values(), (client, server))))),
        tuple(name for name in dict.fromkeys((wish.client, wish.server, *wish.observers)) if name in snapshots),
    )


def _plans(
    asked: ValidatedRequest, offers: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]
) -> tuple[EndpointPair, dict[str, RunPlan]]:
    """(the ends of the first one, value → plan)"""
    wish, variable = asked.wish, asked.variable
    into_plan = variable_of(variable).into_plan if variable else None
    made: dict[str, RunPlan] = {}
    first: EndpointPair | None = None
    for value in asked.values:
        offer = choose(_with_nics(wish, value, snapshots) if variable == "nic" else wish, offers, snapshots)
        plan = plan_of(wish, offer, "builtin" if wish.generator == "builtin" else "iperf3")
        made[value] = into_plan(plan, value) if into_plan is not None else plan
        first = first or offer
    assert first is not None
    return first, made


def _with_nics(wish: RunRequest, value: str, snapshots: Mapping[str, Snapshot]) -> RunRequest:
    """``ens224/ens3``: the client's and the server's; one name: of every end that has such a NIC."""
    client, slash, server = (part.strip() for part in value.partition("/"))
    if slash:
        return replace(wish, client_nic=client or wish.client_nic, server_nic=server or wish.server_nic)

    def has(host: str) -> bool:
        links = snapshots[host].links.values() if host in snapshots else ()
        return any(client == link.name or client in link.altnames for link in links)

    if not has(wish.client) and not has(wish.server):
        raise NictopError(f"nic: neither {clean(wish.client)} nor {clean(wish.server)} has a NIC {shown(client)}")
    return replace(
        wish,
        client_nic=client if has(wish.client) else wish.client_nic,
        server_nic=client if has(wish.server) else wish.server_nic,
    )


def _refuse(variable: str, plans: Mapping[str, RunPlan], client: TrafficTools, server: TrafficTools) -> None:
    told = by_value(
        variable, {value: (*problems(plan), *refusals(plan, client, server)) for value, plan in plans.items()}
    )
    if told:
        lacking = any(plan.generator == "iperf3" for plan in plans.values()) and None in (client.path, server.path)
        raise NictopError(f"it cannot be run: {told}", "--generator builtin needs no installation" if lacking else "")


def _steps(asked: ValidatedRequest, plans: Mapping[str, RunPlan], snapshots: Mapping[str, Snapshot]) -> Iterable[Step]:
    variable, values, wish = asked.variable, asked.values, asked.wish
    row = variable_of(variable) if variable else None
    for number, index in enumerate(_order(asked.kind, len(values), wish.repeat)):
        value = values[index]
        name = "AB"[index] if asked.kind == "compare" else ""
        words = clean(value if variable == "setup" else f"{row.title} {value}") if row is not None else ""
        round_ = f"{number // len(values) + 1} of {wish.repeat}" if wish.repeat > 1 else ""
        change = wanted_words(variable, value, plans[value], snapshots) if asked.is_by_somebody else ""
        yield Step(
            plans[value],
            ", ".join(filter(None, (f"{name}: {words}" if name else words, round_))),
            name or (value if asked.kind == "sweep" else ""),
            change,
            value,
        )


def _order(kind: ExperimentKind, values: int, repeats: int) -> Iterable[int]:
    """Indices of the values, in the order of the runs."""
    if kind == "compare":
        yield from ("AB".index(name) for name in order(repeats))
        return
    for number in range(repeats):
        yield from range(values) if number % 2 == 0 else reversed(range(values))


def _notes(
    asked: ValidatedRequest, offer: EndpointPair, plans: Iterable[RunPlan], tools: tuple[TrafficTools, TrafficTools]
) -> Iterable[str]:
    for one in offer.disagreements:
        yield f"the ends differ in {one.what}: {' and '.join(clean(value) for value, _ in one.sides)}"
    if any(plan.generator == "iperf3" for plan in plans):
        yield from differences(*tools)
    if asked.wish.time < SHORTEST_RANKED:
        yield (
            f"{SHORTEST_RANKED} s are the least that can be ranked: the CPUs of a run of {asked.wish.time} s cannot be "
            "counted well enough"
        )
    if asked.kind == "compare" and asked.wish.repeat < FEWEST:
        yield f"no verdict can be made of fewer than {FEWEST} runs of each: repeat it {FEWEST} times or more"
    if asked.variable == "setup":
        yield "which set-up it is cannot be seen: whoever makes the change is believed"
