"""NICs that their driver resets: counters of the driver, its messages, and what happened while the
host was watched.

Reads nothing. A mean since boot hides what happens now: the last hour of the kernel log, and the
time watched, decide first.
"""

from __future__ import annotations

from nictop.model.rates.links import Rates
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import command, joined
from nictop.rules.host import DriverCounter, HostFacts, link_driver
from nictop.rules.kernel_messages import (
    HOUR_SECONDS,
    LOG,
    RECENT_SECONDS,
    Messages,
    link_messages,
    message_evidence,
)
from nictop.rules.link.transmit_hang import starved_evidence, starved_fixes
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    CLOUD_DRIVERS,
    link_finding,
    links_with_driver_counters,
    used_links,
)

MIN_RESETS_PER_HOUR = 3
"""Logged in the last hour, or counted in the time watched: single resets are normal when a cloud
moves an instance."""
MIN_RESETS_PER_DAY = 3
"""Mean since boot, and logged in 24 hours."""
MIN_MISSED_COMPLETIONS = 3
"""Logged in 24 hours, ena."""
MIN_RESETS = 10
"""Since the driver was loaded: worth knowing, whenever they were."""
HIGH_STEAL_SHARE = 0.05
SOURCES = (
    "counters.driver",
    "ethtool.driver",
    "ethtool.driver_counter_names",
    "ethtool.driver_counters",
    "messages",
)


@dataclass(frozen=True, eq=False)
class Resets:
    """What is known about the resets of one link."""

    counters: tuple[DriverCounter, ...]
    """Of resets, and of shutdowns of the interface; those above 0."""
    logged: Messages | None
    missed: Messages | None
    """Completions that the driver did not process in time."""
    watched: int
    """In the time watched, at most an hour."""

    @property
    def total(self) -> int:
        """Of the highest counter: a reset is counted by its reason and as a shutdown."""
        return max((counter.total for counter in self.counters), default=0)

    @property
    def is_rising(self) -> bool:
        return any(counter.rate for counter in self.counters)

    def logged_within(self, seconds: float = RECENT_SECONDS) -> int:
        """Number of resets that were logged."""
        if self.logged is None:
            return 0
        return self.logged.count(seconds).number


@host_rule(
    "warning",
    yields_to=("transmit_queue_timed_out", "driver_has_detached_the_nic"),
    uses=SOURCES,
)
def nic_is_reset_repeatedly(host: HostFacts) -> Outcomes:
    """The driver resets the NIC repeatedly: each time all queued packets are lost.

    nictop reads the counters of resets and transmit timeouts of the driver: ena (wd_expired,
    tx_timeout, reset_fail, interface_down), gve (reset_cnt, tx_timeouts), mlx5 (tx_recover,
    rx_recover), ice, i40e, e1000, e1000e, igb, igc, ixgbe, ixgbevf, vmxnet3, virtio_net (tx
    timeouts); and the messages of the driver about resets. Warning: they rise while the link is
    watched, three or more in the last hour, or three or more a day on average. Info: ten or more
    since boot.

    If a CPU was stuck at that time, or the hypervisor takes much CPU time, that is the cause: the
    driver then did not get to run in time.

    Not reported: a stalled transmit queue, which has a rule of its own.

    Sources: the drivers' ethtool source files; amzn/amzn-drivers#134, #147, #163, #220, #285 and
    #336.
    """
    for link in _links_that_tell(host):
        resets = _resets(host, link)
        severity = _severity(host, link, resets) if resets is not None else None
        if resets is None or severity is None:
            continue
        starved = _starved_evidence(host, resets)
        evidence = [_evidence(link, counter) for counter in resets.counters]
        if resets.logged is not None:
            evidence += message_evidence(resets.logged)
        evidence += _missed_evidence(resets.missed)
        yield link_finding(
            severity,
            host,
            link,
            _title(resets),
            evidence=(*evidence, *starved),
            why=_why(link, starved),
            fixes=_fixes(host, link, starved),
        )


def _links_that_tell(host: HostFacts) -> tuple[Link, ...]:
    """Links in use whose driver counts or logs what may be a reset."""
    if host.snapshot.kernel_log.has(("reset", "completions_missed")):
        return used_links(host)
    return links_with_driver_counters(host)


def _missed_evidence(missed: Messages | None) -> tuple[Evidence, ...]:
    """Completions that the driver did not process in time, ena."""
    if missed is None:
        return ()
    text = f"{missed.count()} logged: {missed.newest.text}"
    return (Evidence("missed completions", text, LOG),)


def _resets(host: HostFacts, link: Link) -> Resets | None:
    """None: nothing was counted or logged."""
    counted = []
    for counter in (host.driver_losses(link, "resets"), host.driver_losses(link, "downs")):
        if counter is not None and counter.total:
            counted.append(counter)
    logged = link_messages(host, link, "reset")
    missed = link_messages(host, link, "completions_missed")
    if not counted and logged is None and missed is None:
        return None
    history = host.history_of(link)
    watched = 0 if history is None else history.new_resets
    return Resets(tuple(counted), logged, missed, watched)


def _severity(host: HostFacts, link: Link, resets: Resets) -> Severity | None:
    if resets.is_rising or resets.logged_within() >= MIN_RESETS_PER_DAY:
        return "warning"
    if max(resets.logged_within(HOUR_SECONDS), resets.watched) >= MIN_RESETS_PER_HOUR:
        return "warning"
    hours = max(1.0, (host.inventory.time - (link.created or 0.0)) / HOUR_SECONDS)
    is_frequent = resets.total * 24 >= MIN_RESETS_PER_DAY * hours
    if is_frequent and resets.total >= MIN_RESETS_PER_DAY:
        return "warning" if resets.total >= hours else "info"
    if resets.missed is not None and resets.missed.count().number >= MIN_MISSED_COMPLETIONS:
        return "warning"
    return "info" if resets.total >= MIN_RESETS else None


def _title(resets: Resets) -> str:
    """By the counters, or by the log if that shows more."""
    if resets.logged is not None and resets.logged_within() > resets.total:
        return f"reset {resets.logged.count()} times in 24 h by its driver"
    return f"reset {resets.total} times by its driver since that was loaded"


def _starved_evidence(host: HostFacts, resets: Resets) -> tuple[Evidence, ...]:
    """A CPU that was stuck near the resets, or CPU time that the hypervisor takes."""
    found: list[Evidence] = []
    if resets.logged is not None:
        found += starved_evidence(host, resets.logged)
    steal = host.mean(_highest_steal)
    if steal is not None and steal >= HIGH_STEAL_SHARE:
        found.append(Evidence("CPU steal", f"{units.percentage(steal)} of a CPU", "/proc/stat"))
    return tuple(found)


def _highest_steal(rates: Rates) -> float | None:
    """Of one CPU; None: not known."""
    return max((shares.steal for shares in rates.cpus.values()), default=None)


def _why(link: Link, starved: tuple[Evidence, ...]) -> str:
    effect = (
        "Packets in its queues are lost each time, and nothing is sent or received for some "
        "seconds."
    )
    if starved:
        return (
            f"{effect} Likely cause: CPUs that did not run, so that the driver missed its "
            f"deadlines; not the NIC."
        )
    if link_driver(link) in CLOUD_DRIVERS:
        return (
            f"{effect} Causes, most likely first: CPUs of this instance that do not run for "
            f"seconds (memory or disk "
            "pressure, steal, a flooded serial console), the driver, the machine of the cloud."
        )
    return f"{effect} Causes: the driver, the firmware, or CPUs that do not run for seconds."


def _fixes(host: HostFacts, link: Link, starved: tuple[Evidence, ...]) -> tuple[Fix, ...]:
    driver = link_driver(link)
    log = Fix(
        "here",
        "Show related kernel messages",
        (joined("|", command("dmesg", "-T"), command("grep", "-F", link.name)),),
    )
    if driver in CLOUD_DRIVERS:
        note = (
            "If it continues although the CPUs have time: stop and start the instance, which "
            "moves it."
        )
        update = Fix("cloud", "Update kernel and driver", (), note=note)
        return (*starved_fixes(host), log, update)
    where = f"Driver: {driver or 'unknown'}."
    update = Fix("firmware", "Update firmware and driver", (), note=where)
    return (*(starved_fixes(host) if starved else ()), log, update)


def _evidence(link: Link, counter: DriverCounter) -> Evidence:
    now = f", {units.per_second(counter.rate)}" if counter.rate else ""
    return Evidence(
        counter.name, f"{units.count(counter.total)} in total{now}", f"ethtool -S {link.name}"
    )
