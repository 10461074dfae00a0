"""The table of variables that can be swept or compared, and how a value gets into a run.

Reads nothing. Most values are options of the plan. Others (queues, mtu, setup) are set on the hosts
by the user, as nictop does not change hosts here; `not_in_force` checks afterwards that they are.
"default" is the default of the generator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nictop.errors import NictopError
from nictop.model.queues.counts import receive_queues
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.plan.plan import Direction, Endpoint, Generator, RunOptions, RunPlan
from nictop.traffic.plan.quantities import (
    parse_bit_rate,
    parse_byte_count,
    parse_sizes,
    parse_whole_number,
    parse_yes_or_no,
    quoted,
)

DEFAULT = "default"
MAX_VALUES = 64
MAX_VALUE_CHARACTERS = 64

IntoPlan = Callable[[RunPlan, str], RunPlan]


@dataclass(frozen=True)
class Variable:
    """One row of the table."""

    name: str
    title: str
    """Title of an axis: ``message size``."""
    example: str
    """Values as they are typed: ``512,4K,8M``."""
    facts: tuple[str, ...] = ()
    """Facts of a run that differ with the variable: they are expected to differ in
    `comparison.compare`."""
    into_plan: IntoPlan | None = None
    """The plan with a value; raises NictopError if the value is invalid. None: not an option of the
    plan."""
    manual: bool = False
    """Set by the user or a command between the runs, not by nictop."""


def _length(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, length=None)
    return replace(plan, length=parse_byte_count(value, "length"))


def _size(plan: RunPlan, value: str) -> RunPlan:
    request, response = parse_sizes(value)
    return replace(plan, request_size=request, response_size=response)


def _mss(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, mss=None)
    return replace(plan, mss=parse_byte_count(value, "mss"))


def _window(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, window=None)
    return replace(plan, window=parse_byte_count(value, "window"))


def _streams(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, streams=1)
    return replace(plan, streams=parse_whole_number(value, "streams"))


def _bitrate(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, bitrate=None)
    return replace(plan, bitrate=parse_bit_rate(value))


def _rate(plan: RunPlan, value: str) -> RunPlan:
    if value == DEFAULT:
        return replace(plan, rate=None)
    return replace(plan, rate=parse_whole_number(value, "rate"))


def _congestion(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, congestion=None if value == DEFAULT else value)


def _zerocopy(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, zerocopy=value != DEFAULT and parse_yes_or_no(value, "zerocopy"))


def _direction(plan: RunPlan, value: str) -> RunPlan:
    known: dict[str, Direction] = {
        "forward": "forward",
        "reverse": "reverse",
        "bidirectional": "bidirectional",
    }
    if value not in known:
        raise NictopError(f"direction: {quoted(value)} is unknown", f"one of {', '.join(known)}")
    return replace(plan, direction=known[value])


def _generator(plan: RunPlan, value: str) -> RunPlan:
    known: dict[str, Generator] = {
        "iperf3": "iperf3",
        "builtin": "builtin",
        "ntttcp": "ntttcp",
    }
    if value not in known:
        raise NictopError(f"generator: {quoted(value)} is unknown", f"one of {', '.join(known)}")
    return replace(plan, generator=known[value])


VARIABLES: dict[str, Variable] = {
    row.name: row
    for row in (
        Variable("length", "block size", "512,4K,128K,1M,8M", ("length",), _length),
        Variable("size", "size", "1,64,4K,64:4K", ("request size", "response size"), _size),
        Variable("mss", "MSS", "default,100", ("mss",), _mss),
        Variable("streams", "streams", "1,2,4,8", ("streams",), _streams),
        Variable("window", "socket buffer", "default,256K,4M", ("window",), _window),
        Variable("bitrate", "rate", "1G,2G,5G", ("bitrate",), _bitrate),
        Variable("rate", "requests/s", "100,1000,10000", ("request rate",), _rate),
        Variable(
            "congestion", "congestion control", "cubic,bbr", ("congestion control",), _congestion
        ),
        Variable("zerocopy", "zerocopy", "no,yes", ("zerocopy",), _zerocopy),
        Variable(
            "direction",
            "direction",
            "forward,reverse",
            ("direction", "congestion control"),
            _direction,
        ),
        Variable(
            "generator",
            "generator",
            "iperf3,builtin",
            ("generator", "client iperf3", "server iperf3"),
            _generator,
        ),
        Variable(
            "nic", "NIC", "ens224,ens256 (client and server alike) or ens224/ens3,ens256/ens3"
        ),
        Variable(
            "queues",
            "queues",
            "1,2,4 (both ends), 1/,4/ (client's) or /1,/4 (server's)",
            manual=True,
        ),
        Variable("mtu", "MTU", "1500,9000 (both ends)", ("mtu",), manual=True),
        Variable("setup", "setup", "passthrough,vswitch (any names)", manual=True),
    )
}
"""By name."""


ONE_HOST_VARIABLES = ("nic", "queues", "mtu", "setup")
"""Those of `VARIABLES` that a workload has; every other name is one of its command."""
VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


def variable_in(plan: RunOptions, name: str) -> Variable:
    """`variable_of` of a run with these options; of a workload every other name is one of its
    command, which gets the value as $NICTOP_VALUE. A measurement by hand has no command. Raises
    NictopError."""
    if not plan.is_of_one_host or name in ONE_HOST_VARIABLES:
        return variable_of(name)
    if plan.test != "workload":
        wrong = f"{quoted(name)} cannot be varied without a command"
        raise NictopError(wrong, f"one of {', '.join(ONE_HOST_VARIABLES)}")
    return Variable(name, name, "4K,64K,1M", ("value",), _workload_value)


def _workload_value(plan: RunPlan, value: str) -> RunPlan:
    return replace(plan, variable_value=value)


def check_value_in(plan: RunOptions, name: str, value: str) -> None:
    """`check_value` for a run with these options."""
    if plan.test == "workload" and name not in ONE_HOST_VARIABLES:
        check_workload_value(name, value)
    else:
        variable_in(plan, name)
        check_value(name, value)


def check_workload_value(name: str, value: str) -> None:
    """Raises NictopError if it cannot be the value of a variable of a command."""
    if not value or len(value) > MAX_VALUE_CHARACTERS or not value.isprintable():
        raise NictopError(f"{name}: {quoted(value)} is not a value", "e.g. size=4K,64K,1M")


def variable_of(name: str) -> Variable:
    """A row of `VARIABLES`. Raises NictopError, whose hint lists the names, if there is none."""
    found = VARIABLES.get(name)
    if found is None:
        raise NictopError(f"{quoted(name)} cannot be varied", f"one of {', '.join(VARIABLES)}")
    return found


def check_value(name: str, value: str) -> None:
    """Raise NictopError if the value is invalid for the variable, whatever the hosts have."""
    variable = variable_of(name)
    is_too_long = len(value) > MAX_VALUE_CHARACTERS
    if not value or is_too_long or not value.isprintable():
        raise NictopError(f"{name}: {quoted(value)} is not a value", f"e.g. {variable.example}")
    if variable.into_plan is not None:
        variable.into_plan(RunPlan(Endpoint("", None, ""), Endpoint("", None, "")), value)
    elif name in ("queues", "mtu"):
        both_ends(name, value)


def both_ends(name: str, value: str) -> tuple[int | None, int | None]:
    """Values of client and server: ``4`` both, ``4/`` and ``/4`` one of them, ``4/2`` different
    ones."""
    client, slash, server = value.partition("/")
    if not slash:
        server = client
    wanted = _number_of_end(name, client), _number_of_end(name, server)
    if wanted == (None, None) or 0 in wanted:
        example = VARIABLES[name].example
        raise NictopError(f"{name}: {quoted(value)} is not a value", f"e.g. {example}")
    return wanted


def _number_of_end(name: str, text: str) -> int | None:
    """None: that of this end does not matter."""
    if not text.strip():
        return None
    return parse_whole_number(text, name)


def manual_change_text(
    name: str, value: str, plan: RunPlan, snapshots: Mapping[str, Snapshot]
) -> str:
    """The change that the user must make: ``queues of ens224 on a and ens3 on b: 4``; without
    control characters."""
    if name == "setup":
        return f"setup {clean(value)}"
    wanted = both_ends(name, value)
    changes = []
    for endpoint, number in zip((plan.client, plan.server), wanted, strict=True):
        if number is not None:
            link = endpoint.link_in(snapshots)
            nic = clean(link.name) if link is not None else "the NIC"
            changes.append(f"{nic} on {clean(endpoint.host)}: {number}")
    return f"{VARIABLES[name].title} of {', '.join(dict.fromkeys(changes))}"


def not_in_force(name: str, value: str, plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> str:
    """Why the newest inventories do not show that a value set by the user is in force; "" if they
    do, or if it cannot be checked (setup). Without control characters."""
    if name not in ("queues", "mtu"):
        return ""
    differing = []
    for endpoint, wanted in zip((plan.client, plan.server), both_ends(name, value), strict=True):
        if wanted is None:
            continue
        host, link = clean(endpoint.host), endpoint.link_in(snapshots)
        if link is None:
            differing.append(f"{host}: NIC of the run unknown")
            continue
        found = receive_queues(link) if name == "queues" else link.mtu
        if found != wanted:
            present = f"{clean(link.name)} {VARIABLES[name].title} {found or 'unknown'}"
            differing.append(f"{host}: {present}, required {wanted}")
    return "; ".join(differing)
