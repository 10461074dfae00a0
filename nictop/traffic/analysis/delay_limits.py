"""What delays each packet of a transaction, without a counter that shows it: interrupt coalescing,
sleep states of CPUs, hypervisors, and the network between the hosts.

Reads nothing. What the inventory has of them is used: what is absent is excluded, and a setting
that delays less than `POSSIBLE_SHARE` of the median latency too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.traffic.analysis.judgement import Judgement, Phrase, combined, on_one_machine
from nictop.traffic.analysis.setup_facts import NicSetup, ReceiveCoalescing
from nictop.traffic.results.result import LimitVerdict, Result
from nictop.traffic.results.transactions import NEAR_FLOOR

POSSIBLE_SHARE = 0.1
DELAY_VERDICTS: tuple[tuple[float, LimitVerdict], ...] = (
    (1 / NEAR_FLOOR, "cause"),
    (POSSIBLE_SHARE, "possible"),
    (0.0, "excluded"),
)
"""(share of 1 of the median latency that a delay takes at least, its verdict). Below the lowest
bound nine tenths of the latency or more are something else."""
MODE_DRIVERS = ("e1000", "e1000e", "igb", "igc")
HOST_COALESCED_DRIVERS = ("vmxnet3",)
"""The hypervisor delays their interrupts, by default, whether ethtool shows that or not (VMware:
Best Practices for Performance Tuning of Latency-Sensitive Workloads in vSphere VMs, "Virtual
interrupt coalescing"; vmxnet3_ethtool.c: vmxnet3_get_coalesce, from version 3 of the device on)."""
MAX_MODE_USECS = 4
"""Drivers that take rx-usecs from 1 to this number for a mode in which they choose the interval
(e1000e/ethtool.c: e1000_set_coalesce, igb_ethtool.c: igb_set_coalesce)."""


def of_delay(limit: str, delay: float, median: float) -> Judgement:
    """Of a delay of each transaction; both in seconds."""
    share = delay / median if median > 0 else 0.0
    verdict = next(name for bound, name in DELAY_VERDICTS if share >= bound)
    part = f"{units.duration(delay)} of the median latency of {units.duration(median)}"
    rest = f": {part}, {units.percentage(share)}"
    make = {
        "cause": Judgement.of_cause,
        "possible": Judgement.of_possible,
        "excluded": Judgement.of_excluded,
    }
    return make[verdict](limit, rest)


def beyond_the_counters(result: Result, setups: Mapping[str, NicSetup], median: float) -> Judgement:
    """Never a cause. `setups`: host → its chosen NIC; `median`: of the latency, in seconds."""
    ends = tuple(dict.fromkeys((result.plan.client.host, result.plan.server.host)))
    between = "network between the hosts"
    if on_one_machine(result):
        between = "both ends share this machine"
    return combined(
        (
            Judgement.of_possible(between),
            _coalescing(ends, setups, median),
            _sleep_states(ends, setups),
            _hypervisor(ends, setups),
        )
    )


def _coalescing(ends: Iterable[str], setups: Mapping[str, NicSetup], median: float) -> Judgement:
    """A request waits at the server for its interrupt, and a response at the client."""
    texts = []
    delay: float | None = 0.0
    for host in ends:
        setup = setups.get(host)
        if setup is None or not setup.coalescing:
            texts.append(f"{clean(host)} not read")
            delay = None
            continue
        for coalescing in setup.coalescing:
            longest = receive_delay(coalescing)
            texts.append(f"{clean(coalescing.link)} of {clean(host)} {_delay_text(coalescing)}")
            delay = None if longest is None or delay is None else delay + longest
    phrase = Phrase("interrupt coalescing", f" ({', '.join(texts)})")
    if delay is None or delay >= POSSIBLE_SHARE * median:
        return Judgement(possible=(phrase,))
    return Judgement(excluded=(phrase,))


def receive_delay(coalescing: ReceiveCoalescing) -> float | None:
    """Seconds that a received packet waits for its interrupt at most; None: not known.
    Coalescing is off with rx-usecs 0 and rx-frames 1, and an interrupt follows when the first of
    both is reached (include/uapi/linux/ethtool.h: struct ethtool_coalesce)."""
    if not coalescing.offered:
        return None if coalescing.driver in HOST_COALESCED_DRIVERS else 0.0
    parameters = coalescing.parameters
    if parameters is None or _is_adaptive(coalescing, parameters):
        return None
    frames, usecs = parameters.get("rx-frames"), parameters.get("rx-usecs")
    if frames == 1:
        return 0.0
    if usecs is None or (not usecs and frames):
        return None
    return usecs / 1e6


def _is_adaptive(coalescing: ReceiveCoalescing, parameters: Mapping[str, int]) -> bool:
    """The driver chooses the interval."""
    if parameters.get("adaptive-rx"):
        return True
    is_mode = 1 <= parameters.get("rx-usecs", 0) <= MAX_MODE_USECS
    return is_mode and coalescing.driver in MODE_DRIVERS


def _delay_text(coalescing: ReceiveCoalescing) -> str:
    delay = receive_delay(coalescing)
    if delay is not None:
        return f"at most {units.duration(delay)}" if delay else "none"
    if not coalescing.offered:
        return "by the hypervisor, not known"
    if coalescing.parameters is None:
        return "not read"
    if _is_adaptive(coalescing, coalescing.parameters):
        return "adaptive"
    return "not known: no rx-usecs"


def _sleep_states(ends: Iterable[str], setups: Mapping[str, NicSetup]) -> Judgement:
    texts = []
    are_absent = True
    for host in ends:
        setup = setups.get(host)
        driver = "" if setup is None else setup.idle_driver
        texts.append(f"{clean(host)} {_idle_text(driver)}")
        are_absent = are_absent and driver == "none"
    phrase = Phrase("CPU sleep states", f" ({', '.join(texts)})")
    return Judgement(excluded=(phrase,)) if are_absent else Judgement(possible=(phrase,))


def _idle_text(driver: str) -> str:
    """`driver`: see `NicSetup.idle_driver`."""
    if not driver:
        return "not read"
    if driver == "none":
        return "none: no cpuidle driver"
    return f"cpuidle driver {clean(driver)}, time of its wake-ups not known"


def _hypervisor(ends: Iterable[str], setups: Mapping[str, NicSetup]) -> Judgement:
    bare = [host for host in ends if host in setups and setups[host].is_guest is False]
    if len(bare) < len(tuple(ends)):
        return Judgement.of_possible("hypervisor")
    names = " and ".join(map(clean, bare))
    return Judgement.of_excluded("hypervisor", f" (none detected on {names})")
