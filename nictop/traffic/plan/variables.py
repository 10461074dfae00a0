"""What can be swept or compared: the table of variables, and how a value gets into a run.

Reads nothing. Most values are options of the plan. Others are set on the hosts by somebody else (queues, mtu, setup),
as nictop changes no host: `not_shown` looks afterwards whether they are really so. "default" is the default of the
generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nictop.errors import NictopError
from nictop.model.queues.counts import receive_queues
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Link
from nictop.traffic.plan.plan import Direction, Endpoint, Generator, RunPlan
from nictop.traffic.plan.quantities import amount, bit_rate, shown, whole_number, yes_or_no

DEFAULT = "default"
MOST_VALUES = 64
LONGEST_VALUE = 64
"""Characters."""

IntoPlan = Callable[[RunPlan, str], RunPlan]


@dataclass(frozen=True)
class Variable:
    """One row of the table."""

    name: str
    title: str
    """For an axis: ``message size``."""
    example: str
    """Values as they are typed: ``512,4K,8M``."""
    facts: tuple[str, ...] = ()
    """Facts of a run that differ with it: `compared` of `comparison.compare`."""
    into_plan: IntoPlan | None = None
    """The plan with that value; NictopError for what is no value. None: not an option of the plan."""
    by_somebody: bool = False
    """nictop does not set it: somebody is asked to, or a command does it."""


def _length(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, length=None if value == DEFAULT else amount(value, "length"))


def _mss(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, mss=None if value == DEFAULT else amount(value, "mss"))


def _window(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, window=None if value == DEFAULT else amount(value, "window"))


def _streams(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, streams=1 if value == DEFAULT else whole_number(value, "streams"))


def _bitrate(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, bitrate=None if value == DEFAULT else bit_rate(value))


def _congestion(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, congestion=None if value == DEFAULT else value)


def _zerocopy(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, zerocopy=value != DEFAULT and yes_or_no(value, "zerocopy"))


def _direction(plan: RunPlan, value: str) -> RunPlan:
    known: dict[str, Direction] = {"forward": "forward", "reverse": "reverse", "bidirectional": "bidirectional"}
    if value not in known:
        raise NictopError(f"direction: {shown(value)} is none", f"there are {', '.join(known)}")
    return replace(plan, direction=known[value])


def _generator(plan: RunPlan, value: str) -> RunPlan:
    known: dict[str, Generator] = {"iperf3": "iperf3", "builtin": "builtin"}
    if value not in known:
        raise NictopError(f"generator: {shown(value)} is none", f"there are {', '.join(known)}")
    return replace(plan, generator=known[value])


VARIABLES: dict[str, Variable] = {
    row.name: row
    for row in (
        Variable("length", "message size", "512,4K,128K,1M,8M", ("length",), _length),
        Variable("mss", "MSS", "default,100", ("mss",), _mss),
        Variable("streams", "streams", "1,2,4,8", ("streams",), _streams),
        Variable("window", "socket buffer", "default,256K,4M", ("window",), _window),
        Variable("bitrate", "bitrate", "1G,2G,5G", ("bitrate",), _bitrate),
        Variable("congestion", "congestion control", "cubic,bbr", ("congestion control",), _congestion),
        Variable("zerocopy", "zerocopy", "no,yes", ("zerocopy",), _zerocopy),
        Variable("direction", "direction", "forward,reverse", ("direction", "congestion control"), _direction),
        Variable(
            "generator", "generator", "iperf3,builtin", ("generator", "client iperf3", "server iperf3"), _generator
        ),
        Variable("nic", "NIC", "ens224,ens256 (client and server alike) or ens224/ens3,ens256/ens3"),
        Variable("queues", "queues", "1,2,4 (both ends), 1/,4/ (client's) or /1,/4 (server's)", by_somebody=True),
        Variable("mtu", "MTU", "1500,9000 (both ends)", ("mtu",), by_somebody=True),
        Variable("setup", "set-up", "passthrough,vswitch (words of your own)", by_somebody=True),
    )
}
"""By name."""

_NUMBERS: dict[str, Callable[[str], int]] = {
    "length": amount, "mss": amount, "window": amount, "streams": whole_number, "bitrate": bit_rate,
    "queues": whole_number, "mtu": whole_number,
}  # fmt: skip


def variable_of(name: str) -> Variable:
    """NictopError names those there are."""
    found = VARIABLES.get(name)
    if found is None:
        raise NictopError(f"{shown(name)} cannot be varied", f"there are {', '.join(VARIABLES)}")
    return found


def checked(name: str, value: str) -> None:
    """NictopError for what the variable cannot be, whatever the hosts have."""
    variable = variable_of(name)
    if not value or len(value) > LONGEST_VALUE or not value.isprintable():
        raise NictopError(f"{name}: {shown(value)} is no value", f"write it like {variable.example}")
    if variable.into_plan is not None:
        variable.into_plan(RunPlan(Endpoint("", None, ""), Endpoint("", None, "")), value)
    elif name in ("queues", "mtu"):
        both_ends(name, value)


def number_of(name: str, value: str) -> float | None:
    """Where a value lies on an axis (bytes, bits per second, streams); None: it is no number."""
    parse = _NUMBERS.get(name)
    if parse is None:
        return None
    try:
        return float(parse(value))
    except NictopError:
        return None


def both_ends(name: str, value: str) -> tuple[int | None, int | None]:
    """What client and server shall have: ``4`` both, ``4/`` and ``/4`` one of them, ``4/2`` each its own."""
    client, slash, server = value.partition("/")
    wanted = tuple(whole_number(part, name) if part.strip() else None for part in (client, server if slash else client))
    if wanted == (None, None) or 0 in wanted:
        raise NictopError(f"{name}: {shown(value)} is no value", f"write it like {VARIABLES[name].example}")
    return wanted[0], wanted[1]


def wanted_words(name: str, value: str, plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> str:
    """What somebody shall set: ``queues of ens224 on a and ens3 on b: 4``; clean."""
    if name == "setup":
        return f"set-up {clean(value)}"
    wanted = both_ends(name, value)
    told = []
    for place, number in zip((plan.client, plan.server), wanted, strict=True):
        if number is not None:
            link = _link(place, snapshots)
            told.append(f"{clean(link.name) if link is not None else 'the NIC'} on {clean(place.host)}: {number}")
    return f"{VARIABLES[name].title} of {', '.join(dict.fromkeys(told))}"


def not_shown(name: str, value: str, plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> str:
    """Why the newest inventories do not show that a value set by somebody is in force; "" when they do, or when nobody
    can know (setup). Clean."""
    if name not in ("queues", "mtu"):
        return ""
    differing = []
    for place, wanted in zip((plan.client, plan.server), both_ends(name, value), strict=True):
        if wanted is None:
            continue
        link = _link(place, snapshots)
        if link is None:
            differing.append(f"{clean(place.host)}: the NIC of the run is not known")
            continue
        found = (receive_queues(link) or None) if name == "queues" else link.mtu
        if found != wanted:
            has = "does not say its" if found is None else f"has {found}"
            differing.append(f"{clean(place.host)}: {clean(link.name)} {has} {_unit(name, found)}, wanted: {wanted}")
    return "; ".join(differing)


def _unit(name: str, number: int | None) -> str:
    if name == "mtu":
        return "bytes of MTU" if number is not None else "MTU"
    return "queue" if number == 1 else "queues"


def _link(place: Endpoint, snapshots: Mapping[str, Snapshot]) -> Link | None:
    snapshot = snapshots.get(place.host)
    return snapshot.links.get(place.ifindex) if snapshot is not None and place.ifindex is not None else None
