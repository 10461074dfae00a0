"""A path test between watched hosts: request → pair of addresses → test → result with findings.

`PathSession.run` carries out the whole of it for the command line and the screens.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from nictop.errors import HostUnreachable
from nictop.hosts.session import HostSession
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.probe.records import Firewalls, LossCount
from nictop.probe.traffic.loss_differences import increases
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts
from nictop.traffic.failures import RunFailed
from nictop.traffic.hosts.host import RunHost, slowness_of, subscribed_hosts
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.hosts.losses import LossCounts, read_losses
from nictop.traffic.hosts.readings import wait_for_readings
from nictop.traffic.path.drop_reasons import read_drop_reasons
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.hypervisor_filters import with_hypervisor_filter
from nictop.traffic.path.findings.known_causes import with_known_causes
from nictop.traffic.path.findings.observed_losses import with_observed_losses
from nictop.traffic.path.result import PathReport, PathRequest
from nictop.traffic.path.run import (
    STAGE_TEXTS,
    PathRun,
    PathStage,
    PathTimeouts,
    add_or_expire,
    end_path_run,
)
from nictop.traffic.plan.endpoints import PATH_OPTIONS, chosen_addresses_text, select_pair
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs

FIREWALL_RULES = ("path_firewall", "path_only_icmp", "path_blocked_here")
"""Findings for which the firewalls of both hosts are read."""
UNEXPLAINED_RULES = ("path_no_answer", "path_lost", "path_only_icmp", "path_loss", "path_firewall")
"""Findings for which the test is repeated with the drop monitors of both kernels, where their hosts
offer them."""
LOSSES_SECONDS = 2.0
"""For the hosts that are no end to read their counters of lost packets."""
TELL_SECONDS = 5.0
"""A stage that lasts longer is reported again each time."""

Progress = Callable[[str], object]
"""Called with a sentence for each stage."""


class PathSession:
    """One path test. `sessions`: the hosts of the request, and others that are watched, whose items
    the caller processes. `timeout`: as for `wait_for_readings`."""

    def __init__(
        self, request: PathRequest, sessions: Iterable[HostSession], *, timeout: float | None = None
    ) -> None:
        self.request = request
        self._sessions, self._timeout = tuple(sessions), timeout

    async def run(self, progress: Progress = lambda _: None) -> PathReport:
        """Raises NictopError if the request means no pair of addresses, HostUnreachable if a host
        is not reached or lost."""
        with subscribed_hosts(self._sessions) as hosts:
            await wait_for_readings(
                self._sessions, self._timeout, lambda sentence: progress(clean(sentence))
            )
            snapshots = {name: host.snapshot for name, host in hosts.items()}
            pair = self._chosen_pair(snapshots, progress)
            ends = {name: hosts[name] for name in (self.request.client, self.request.server)}
            observers = {name: hosts[name] for name in _hypervisors(snapshots, pair)}
            ports = (self.request.port, self.request.port)
            run = PathRun(pair, hosts, ports=ports, timeouts=_timeouts(ends))
            before = await _losses(observers)
            await _carry_out(run, TrafficInbox(hosts, ends), progress)
            result = run.result()
            facts = {name: HostFacts(host.snapshot) for name, host in hosts.items()}
            findings = path_findings(result, facts)
            firewalls: dict[str, Firewalls] = {}
            if any(finding.rule in FIREWALL_RULES for finding in findings):
                progress("checking the firewalls of both hosts")
                firewalls = await _firewalls(ends.values())
                findings = path_findings(result, facts, firewalls)
            if any(map(_is_unexplained, findings)):
                observed = _added(before, await _losses(observers))
                again = partial(self._repeat, pair, ends, progress)
                drops = await read_drop_reasons([*ends.values(), *observers.values()], again)
                findings = path_findings(result, facts, firewalls, drops=drops)
                findings = with_observed_losses(findings, result, snapshots, observed)
            findings = with_hypervisor_filter(findings, result, snapshots)
            return PathReport(result, with_known_causes(findings, result, facts))

    def _chosen_pair(self, snapshots: Mapping[str, Snapshot], progress: Progress) -> EndpointPair:
        """The pair of addresses that the request means."""
        candidates = endpoint_pairs(pairs(snapshots.values()).subnets, snapshots.values())
        pair = select_pair(self.request, candidates, snapshots, options=PATH_OPTIONS)
        choice = chosen_addresses_text(self.request, pair, snapshots)
        if choice:
            progress(f"{choice} (--address and --peer-address select others)")
        return pair

    async def _repeat(
        self, pair: EndpointPair, hosts: Mapping[str, RunHost], progress: Progress
    ) -> None:
        """The same packets once more, fewer of them, for the drop monitors of both hosts."""
        progress("repeating the test while the kernels tell what they drop")
        ports = (self.request.port, self.request.port)
        run = PathRun(pair, hosts, ports=ports, short=True, timeouts=_timeouts(hosts))
        await _carry_out(run, TrafficInbox(hosts, tuple(hosts)), lambda _: None)


def _timeouts(ends: Mapping[str, RunHost]) -> PathTimeouts:
    return PathTimeouts().for_slow(slowness_of(ends, ends))


async def _carry_out(run: PathRun, inbox: TrafficInbox, progress: Progress) -> None:
    """Raises HostUnreachable when a host is lost."""
    inbox.open()
    try:
        progress(STAGE_TEXTS[run.stage])
        began = told = time.monotonic()
        await run.begin()
        while run.stage != "over":
            before = run.stage
            line = await inbox.next(min(run.deadline, told + TELL_SECONDS))
            await add_or_expire(run, line)
            if run.stage == before and time.monotonic() >= told + TELL_SECONDS:
                told = time.monotonic()
                if STAGE_TEXTS[before]:
                    progress(_waiting_text(before, told - began, run.deadline - began))
            if run.stage != before:
                began = told = time.monotonic()
                if STAGE_TEXTS[run.stage]:
                    progress(STAGE_TEXTS[run.stage])
    except RunFailed as error:
        raise HostUnreachable(error.failure.sentence) from None
    finally:
        await end_path_run(run, inbox)
        inbox.close()


def _waiting_text(stage: PathStage, seconds: float, limit: float) -> str:
    """``testing both directions: no result after 10 s, at most 45 s``"""
    return f"{STAGE_TEXTS[stage]}: no result after {seconds:.0f} s, at most {limit:.0f} s"


def _hypervisors(snapshots: Mapping[str, Snapshot], pair: EndpointPair) -> tuple[str, ...]:
    """Hosts that are connected to the NIC of an end, and are no end: other watched hosts are not
    asked for anything."""
    known = pairs(snapshot for snapshot in snapshots.values() if snapshot.inventory is not None)
    ends = {(end.host, end.ifindex) for end in (pair.client, pair.server)}
    below = [(tap.guest, tap.tap) for tap in known.taps]
    below += [(function.guest, function.physical) for function in known.virtual_functions]
    found: dict[str, None] = {}
    for guest, lower in below:
        is_of_end = (guest.host, guest.ifindex) in ends
        if is_of_end and lower.host not in (pair.client.host, pair.server.host):
            found[lower.host] = None
    return tuple(found)


async def _losses(hosts: Mapping[str, RunHost]) -> LossCounts:
    """What the hosts that are no end have counted as lost so far; without those that do not
    answer."""
    inbox = TrafficInbox(hosts, ())
    inbox.open()
    try:
        seconds = LOSSES_SECONDS * slowness_of(hosts, hosts)
        return await read_losses(
            hosts, inbox, f"{uuid.uuid4().hex[:12]}-losses", nics={}, seconds=seconds
        )
    finally:
        inbox.close()


def _is_unexplained(finding: Finding) -> bool:
    """Its cause may be among what the kernels of both hosts drop."""
    return finding.rule in UNEXPLAINED_RULES and finding.severity != "info"


def _added(before: LossCounts, after: LossCounts) -> dict[str, tuple[LossCount, ...]]:
    """Of the hosts that answered twice."""
    added = {}
    for name, counts in after.items():
        if name in before:
            added[name] = increases(before[name], counts)
    return added


async def _firewalls(hosts: Iterable[RunHost]) -> dict[str, Firewalls]:
    found = {}
    for host in hosts:
        firewalls = (await host.tools()).firewalls
        if firewalls is not None:
            found[host.name] = firewalls
    return found
