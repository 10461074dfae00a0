"""The runs that a request means, in order, between existing endpoints and with a generator that can
run them.

Reads nothing; `experiment_of` takes endpoint pairs, snapshots and tools, `prepare_experiment` gets
them from the hosts. Values of a sweep or a comparison alternate forwards and backwards (A B B A, 1
2 4 4 2 1), so that drift affects all of them alike and manual changes are as rare as possible.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from nictop.errors import NictopError
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import TrafficTools
from nictop.traffic.analysis.comparison import MIN_PAIRS, alternating_order
from nictop.traffic.generators import typed_commands
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.endpoints import select_pair
from nictop.traffic.plan.foreign import foreign_pair
from nictop.traffic.plan.one_nic import select_nic
from nictop.traffic.plan.plan import EndpointPair, Generator, RunPlan, endpoint_pairs
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.quantities import low_rate_question, quoted
from nictop.traffic.plan.request import (
    BUILTIN_TESTS,
    RunRequest,
    generator_of,
    not_supported,
    plan_of,
)
from nictop.traffic.plan.tools import iperf3_differences, own_refusals, refusals
from nictop.traffic.plan.validation import (
    ExperimentKind,
    ValidatedRequest,
    all_problems,
    reasons_by_value,
    unused_value_text,
    validate_request,
)
from nictop.traffic.plan.variables import manual_change_text, variable_in

MIN_RANKED_SECONDS = 2
"""Shorter runs may not contain two counter records that are `cpu_load.MIN_CPU_WINDOW_SECONDS`
apart."""
RUN_OVERHEAD_SECONDS = 1.5
"""Duration of a run in addition to its planned seconds, until one was measured: check of the
generators, path test, start, last counters."""


@dataclass(frozen=True)
class ExperimentStep:
    """One run of an experiment."""

    plan: RunPlan
    label: str
    """What distinguishes the run: ``message size 4K``, ``B: queues 4``, ``2 of 5``; "" of a single
    run. Without control characters."""
    group: str = ""
    """As in `StoredRun`."""
    change: str = ""
    """State of the hosts that the user must establish before: ``queues of ens224 on a: 4``; "":
    none. Without control characters."""
    value: str = ""
    """Value of the experiment's variable."""


@dataclass(frozen=True)
class Experiment:
    """Runs to make, in order."""

    identity: str
    steps: tuple[ExperimentStep, ...]
    kind: ExperimentKind = "run"
    variable: str = ""
    rest: float = 2.0
    """Seconds between two runs."""
    between: str = ""
    """Shell command that makes the changes; "": the user is asked to make them."""
    label: str = ""
    notes: tuple[str, ...] = ()
    """What the user should know before the start: why this generator, why no verdict is possible.
    Without control characters."""
    hosts: tuple[str, ...] = ()
    """Client, server and observers."""

    @property
    def seconds(self) -> float:
        """Estimated duration, without the time that manual changes take."""
        return self.seconds_from(1)

    def seconds_from(self, number: int, overhead: float = RUN_OVERHEAD_SECONDS) -> float:
        """Estimated duration from that step on, numbered from 1. `overhead`: seconds of a run in
        addition to its planned ones."""
        left = self.steps[number - 1 :]
        pauses = max(0, len(left) - 1)
        return sum(step.plan.seconds + overhead for step in left) + self.rest * pauses


async def prepare_experiment(request: RunRequest, hosts: Mapping[str, RunHost]) -> Experiment:
    """Request the generators of both ends, then `experiment_of`. Every host must have an
    inventory."""
    tools = {}
    if not request.is_of_one_host:
        for name in request.watched_ends:
            if name in hosts:
                tools[name] = await hosts[name].tools()
    snapshots = {name: host.snapshot for name, host in hosts.items()}
    found = endpoint_pairs(pairs(snapshots.values()).subnets, snapshots.values())
    return experiment_of(request, found, snapshots, tools)


def experiment_of(
    request: RunRequest,
    candidates: Sequence[EndpointPair],
    snapshots: Mapping[str, Snapshot],
    tools: Mapping[str, TrafficTools],
) -> Experiment:
    """The experiment that a request means. `snapshots` and `tools`: by host. Raises NictopError
    with every reason if it cannot be run."""
    checked = validate_request(request)
    if request.is_of_one_host:
        return _experiment_of_one_host(checked, snapshots)
    if request.foreign:
        return _foreign_experiment(checked, snapshots, tools)
    pair, plans = _plans(checked, candidates, snapshots)
    missing = [clean(name) for name in (request.client, request.server) if name not in tools]
    if missing:
        raise NictopError(f"{', '.join(missing)}: iperf3 not checked yet")
    client, server = tools[request.client], tools[request.server]
    notes = []
    if checked.variable != "generator":
        generator, note = generator_of(request, list(plans.values()), client, server)
        plans = {value: replace(plan, generator=generator) for value, plan in plans.items()}
        if note:
            notes.append(note)
    _refuse(checked.variable, plans, client, server)
    notes += _missing_observers(request, snapshots)
    notes += _notes(checked, pair, plans.values(), (client, server))
    return _experiment(checked, plans, snapshots, notes)


def _missing_observers(request: RunRequest, snapshots: Mapping[str, Snapshot]) -> Iterable[str]:
    for name in request.observers:
        if name not in snapshots:
            yield f"{clean(name)} is not connected, not monitored"


def _experiment_of_one_host(
    checked: ValidatedRequest, snapshots: Mapping[str, Snapshot]
) -> Experiment:
    """Of a workload, or of a measurement by hand."""
    request, plans = checked.request, {}
    notes: dict[str, None] = {}
    for value in checked.values:
        selection = request
        if checked.variable == "nic":
            selection = replace(request, client_nic=value)
        chosen = select_nic(selection, snapshots)
        pair = EndpointPair("", chosen.endpoint, chosen.endpoint)
        plan = plan_of(request, pair, "iperf3")
        plans[value] = replace(
            plan,
            variable_name=checked.variable,
            variable_value=value,
            guest_vf=chosen.vf,
        )
        notes[chosen.note] = None
    notes[unused_value_text(checked)] = None
    listed = [note for note in notes if note]
    listed += _missing_observers(request, snapshots)
    listed += _variant_notes(checked)
    return _experiment(checked, plans, snapshots, listed)


def _foreign_experiment(
    checked: ValidatedRequest,
    snapshots: Mapping[str, Snapshot],
    tools: Mapping[str, TrafficTools],
) -> Experiment:
    """With one end that nictop does not start."""
    request = checked.request
    (own,) = request.watched_ends
    if own not in tools:
        raise NictopError(f"{clean(own)}: iperf3 not checked yet")
    into_plan = None
    if checked.variable:
        into_plan = variable_in(request, checked.variable).into_plan
    plans: dict[str, RunPlan] = {}
    notes: dict[str, None] = {}
    for value in checked.values:
        selection = request
        if checked.variable == "nic":
            selection = _with_own_nic(request, value)
        chosen = foreign_pair(selection, snapshots)
        generator: Generator = "iperf3" if request.generator == "auto" else request.generator
        plan = plan_of(request, chosen.pair, generator)
        plans[value] = into_plan(plan, value) if into_plan is not None else plan
        notes[chosen.note] = None
    problems = {
        value: (*plan_problems(plan), *own_refusals(plan, tools[own]))
        for value, plan in plans.items()
    }
    reasons = reasons_by_value(checked.variable, problems)
    if reasons:
        raise not_supported(reasons, all_problems(problems))
    listed = [note for note in notes if note]
    listed.append(_foreign_note(request))
    listed += _receiver_notes(plans.values())
    listed += _missing_observers(request, snapshots)
    listed += _variant_notes(checked)
    return _experiment(checked, plans, snapshots, listed)


def _with_own_nic(request: RunRequest, nic: str) -> RunRequest:
    """Of the end that is not foreign."""
    if request.foreign_side == "client":
        return replace(request, server_nic=nic)
    return replace(request, client_nic=nic)


def _receiver_notes(plans: Iterable[RunPlan]) -> Iterable[str]:
    """What must run on the foreign host of a receiver of ntttcp, which serves one test."""
    for plan in plans:
        if plan.generator == "ntttcp" and plan.foreign_side == "server":
            command, windows = typed_commands(plan)
            yield f"start on {clean(plan.server.host)} before each run: {command}; {windows}"
            return


def _foreign_note(request: RunRequest) -> str:
    if request.foreign_side == "client":
        seen = f"of it only what is seen from {clean(request.server)} is known"
        return f"{clean(request.client)} is not watched: {seen}"
    reported = (
        "what its TCP acknowledges" if request.generator == "ntttcp" else "what iperf3 reports"
    )
    return f"{clean(request.server)} is not watched: of it only {reported} is known"


def _experiment(
    checked: ValidatedRequest,
    plans: Mapping[str, RunPlan],
    snapshots: Mapping[str, Snapshot],
    notes: Iterable[str],
) -> Experiment:
    request = checked.request
    participants = dict.fromkeys((request.client, request.server, *request.observers))
    return Experiment(
        uuid.uuid4().hex[:12],
        tuple(_steps(checked, plans, snapshots)),
        checked.kind,
        checked.variable,
        request.rest,
        request.between,
        request.label,
        tuple(notes),
        tuple(name for name in participants if name in snapshots),
    )


def _plans(
    checked: ValidatedRequest, candidates: Sequence[EndpointPair], snapshots: Mapping[str, Snapshot]
) -> tuple[EndpointPair, dict[str, RunPlan]]:
    """(endpoints of the first plan, value → plan)"""
    request, variable = checked.request, checked.variable
    into_plan = variable_in(request, variable).into_plan if variable else None
    plans_by_value: dict[str, RunPlan] = {}
    first: EndpointPair | None = None
    for value in checked.values:
        selection = _with_nics(request, value, snapshots) if variable == "nic" else request
        pair = select_pair(selection, candidates, snapshots)
        plan = plan_of(request, pair, "builtin" if _needs_builtin(request) else "iperf3")
        plans_by_value[value] = into_plan(plan, value) if into_plan is not None else plan
        first = first or pair
    assert first is not None
    return first, plans_by_value


def _needs_builtin(request: RunRequest) -> bool:
    if request.generator == "auto":
        return request.test in BUILTIN_TESTS
    return request.generator == "builtin"


def _with_nics(request: RunRequest, value: str, snapshots: Mapping[str, Snapshot]) -> RunRequest:
    """The NICs of a value: ``ens224/ens3`` of client and server; one name: of each end that has
    such a NIC."""
    client, slash, server = (part.strip() for part in value.partition("/"))
    if not slash:
        has_client = _has_nic(snapshots.get(request.client), client)
        has_server = _has_nic(snapshots.get(request.server), client)
        if not has_client and not has_server:
            hosts = f"neither {clean(request.client)} nor {clean(request.server)}"
            raise NictopError(f"nic: {hosts} has a NIC {quoted(client)}")
        server = client if has_server else ""
        client = client if has_client else ""
    if client:
        request = replace(request, client_nic=client)
    if server:
        request = replace(request, server_nic=server)
    return request


def _has_nic(snapshot: Snapshot | None, name: str) -> bool:
    """A link of the host has this name, or this alternative name."""
    if snapshot is None:
        return False
    for link in snapshot.links.values():
        if name == link.name or name in link.altnames:
            return True
    return False


def _refuse(
    variable: str, plans: Mapping[str, RunPlan], client: TrafficTools, server: TrafficTools
) -> None:
    problems = {
        value: (*plan_problems(plan), *refusals(plan, client, server))
        for value, plan in plans.items()
    }
    reasons = reasons_by_value(variable, problems)
    if not reasons:
        return
    has_no_iperf3 = None in (client.path, server.path)
    hint = ""
    if has_no_iperf3 and any(plan.generator == "iperf3" for plan in plans.values()):
        hint = "--generator builtin needs no installation"
    raise not_supported(reasons, all_problems(problems), hint)


def _steps(
    checked: ValidatedRequest, plans: Mapping[str, RunPlan], snapshots: Mapping[str, Snapshot]
) -> Iterable[ExperimentStep]:
    variable, values, repeats = checked.variable, checked.values, checked.request.repeat
    for number, index in enumerate(_order(checked.kind, len(values), repeats)):
        value = values[index]
        label, group = _value_text(checked, value), ""
        if checked.kind == "sweep":
            group = value
        elif checked.kind == "compare":
            group = "AB"[index]
            label = f"{group}: {label}"
        if repeats > 1:
            round_text = f"{number // len(values) + 1} of {repeats}"
            label = f"{label}, {round_text}" if label else round_text
        change = ""
        if checked.is_manual:
            change = manual_change_text(variable, value, plans[value], snapshots)
        yield ExperimentStep(plans[value], label, group, change, value)


def _value_text(checked: ValidatedRequest, value: str) -> str:
    """``message size 4K``; "": nothing varies."""
    variable = checked.variable
    if not variable:
        return ""
    if variable == "setup":
        return clean(value)
    return clean(f"{variable_in(checked.request, variable).title} {value}")


def _order(kind: ExperimentKind, values: int, repeats: int) -> Iterable[int]:
    """Indices of the values, in the order of the runs."""
    if kind == "compare":
        yield from ("AB".index(name) for name in alternating_order(repeats))
        return
    for number in range(repeats):
        yield from range(values) if number % 2 == 0 else reversed(range(values))


def _notes(
    checked: ValidatedRequest,
    pair: EndpointPair,
    plans: Iterable[RunPlan],
    tools: tuple[TrafficTools, TrafficTools],
) -> Iterable[str]:
    plans = tuple(plans)
    questions = dict.fromkeys(low_rate_question(plan.bitrate) for plan in plans)
    yield from filter(None, questions)
    for disagreement in pair.disagreements:
        values = " and ".join(clean(value) for value, _ in disagreement.sides)
        yield f"{disagreement.what} differs: {values}"
    if any(plan.generator == "iperf3" for plan in plans):
        yield from iperf3_differences(*tools)
    seconds = checked.request.time
    if seconds < MIN_RANKED_SECONDS:
        yield (
            f"{MIN_RANKED_SECONDS} s are the least that can be ranked: the CPUs of a run of "
            f"{seconds} s cannot be counted well enough"
        )
    yield from _variant_notes(checked)


def _variant_notes(checked: ValidatedRequest) -> Iterable[str]:
    if checked.kind == "compare" and checked.request.repeat < MIN_PAIRS:
        yield f"a comparison needs {MIN_PAIRS} runs of each variant (runs, --repeat)"
    if checked.variable == "setup":
        yield "which set-up it is cannot be seen: whoever makes the change is believed"
