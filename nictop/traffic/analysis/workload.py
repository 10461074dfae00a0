"""The record of a run on one host → its `Result`: counters of its NICs, CPU of all hosts, whose the
bytes were, how the command ended, and the figure that it reports.

Reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nictop.model.devices.ceiling import end_limits, transmit_rates
from nictop.model.devices.pairs import pairs
from nictop.model.queues.cpu_consumers import cpu_consumers
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_LOOPBACK, count_noun
from nictop.probe.kernel.exits import signal_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Counters, Link, WorkloadConnection, WorkloadReport
from nictop.traffic.analysis.command_figure import (
    MAX_SEARCHED_CHARS,
    NO_MATCH,
    NO_MATCH_IN_END,
    figure_by_expression,
    known_figure,
    reported_error,
    searched_text,
    text_beside_json,
    why_no_known_figure,
)
from nictop.traffic.analysis.cpu_load import processes_text
from nictop.traffic.analysis.host_loads import host_loads
from nictop.traffic.analysis.judgement import loads_of_machines
from nictop.traffic.analysis.nic_load import snapshot_between
from nictop.traffic.analysis.nic_rates import (
    RX_BYTES,
    RX_PACKETS,
    TX_BYTES,
    TX_PACKETS,
    CountedNic,
    counted,
    counted_nic,
    has_counters,
    nic_flow,
    nic_points,
)
from nictop.traffic.analysis.setup_facts import setup_facts
from nictop.traffic.drops.counted_losses import CountedLoss, counted_losses
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Total
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.endpoint import EXEC_STATUSES, RunEnd
from nictop.traffic.record.log import RunLog, axis_start
from nictop.traffic.results.host_load import ThreadLoad
from nictop.traffic.results.result import (
    WORKLOAD_SCHEMA,
    ExaminedLimit,
    Flow,
    LimitVerdict,
    Result,
)
from nictop.traffic.results.workload import (
    BytesByOwner,
    EndReason,
    GuestFigures,
    NicTraffic,
    TrafficPeer,
    WorkloadFigures,
)

MAX_LINES, MAX_LINE_CHARS = 12, 300
"""Last lines of each stream that are kept in a result."""
TAB_CELLS = 4
"""Of a tab in it: JSON of iperf3 is indented by tabs."""
MAX_ERROR_CHARS = 200
MAX_PEERS = 8
MAX_LOSSES = 32
MAX_NICS = 16
SHORT_SECONDS = 2.0
"""Below which a measurement may have no two counter records that are far enough apart for a share
of CPU time (`cpu_load.MIN_CPU_WINDOW_SECONDS`)."""
NEEDS_TERMINAL = re.compile(
    r"not a tty|not a terminal|inappropriate ioctl|no tty present|a terminal is required|"
    r"must be (?:run|connected) (?:from|to) a terminal|stdin is not|cannot open /dev/tty|"
    r"no such device or address: ?'?/dev/tty|TERM environment variable not set",
    re.IGNORECASE | re.ASCII,
)
"""Messages of sudo, ssh, top, whiptail and others that have no terminal."""
MAX_LOSS_LIMITS = 3
"""Counters of lost packets that are named."""
MIN_NAMED_SHARE = 0.1
"""Threads that are named beside a full CPU, and the share of a core from which on."""
MAX_IDLE_SHARE, MAX_IDLE_BYTES_PER_SECOND = 0.05, 10_000
"""Of a core, and of all NICs of the host: what a command that only waits does not exceed."""
AT_LINE_SHARE = 0.9
"""Of the speed of a NIC, from which on it may limit a workload: its counters have no preamble and
gap, which are up to 24 of 84 bytes of a frame, but 24 of 1538 of a full one."""


def one_host_result(log: RunLog) -> Result:
    """Of one that failed, as far as it is known."""
    axis, end, plan = axis_start(log), log.ends["client"], log.plan
    snapshots = {name: host.snapshot for name, host in log.hosts.items()}
    figures = _figures(log, end, snapshots) if end.started is not None else None
    flows = _flows(log, axis, figures)
    result = Result(
        plan=plan,
        wall=log.wall,
        flows=flows,
        hosts=host_loads(log, flows, axis),
        failure=log.failure or (_failure(plan, figures, end.work) if figures is not None else None),
        stopped=log.stopped,
        schema=WORKLOAD_SCHEMA,
        facts=_facts(plan, snapshots),
        losses=_losses(log, snapshots),
        workload=figures,
    )
    limits = tuple(_limits(result, snapshots)) if result.failure is None else ()
    idle = _idle_text(result)
    if idle:
        limits = ()
    result = replace(result, bottleneck=idle or _bottleneck(limits), limits=limits)
    login = _login_ifindex(snapshots[end.host]) if figures is not None else None
    return replace(result, notes=(*log.notes, *_notes(result, login)))


def _facts(plan: RunPlan, snapshots: Mapping[str, Snapshot]) -> dict[str, str]:
    facts = setup_facts(plan, snapshots, {})
    found = {}
    for name, value in facts.items():
        if name.startswith("client ") and name not in ("client affinity", "client iperf3"):
            found[name] = value
    of_test = {
        "test": plan.test,
        "command": plan.workload,
        "value": plan.variable_value,
        "mtu": facts.get("mtu", ""),
    }
    found.update((name, value) for name, value in of_test.items() if value)
    return found


# -------------------------------------------------------------------------------------- the figures


def _figures(log: RunLog, end: RunEnd, snapshots: Mapping[str, Snapshot]) -> WorkloadFigures:
    snapshot = snapshots[end.host]
    figures = WorkloadFigures(
        seconds=log.seconds,
        reason=_reason(log, end),
        user=end.begin.user if end.begin is not None else "",
        nics=tuple(_nics(log, snapshot)),
        chosen_ifindex=log.plan.client.ifindex,
        guest=_guest(log, snapshot),
    )
    report = end.work
    if report is None:
        why = "nictop does not see the connections of a measurement by hand"
        if end.is_interval:
            why = "a recording does not have the connections of all processes"
        if log.plan.guest:
            why = "the connections of a guest are not seen from its hypervisor"
        if log.plan.test == "workload":
            why = "the host did not report the end of the command"
        return replace(figures, owners_unknown=why)
    figures = replace(
        figures,
        status=report.status,
        signal=report.signal,
        stdout=last_lines(report.stdout),
        stderr=last_lines(report.stderr),
        stdout_bytes=report.stdout_bytes,
        stderr_bytes=report.stderr_bytes,
        user_seconds=report.user_seconds,
        system_seconds=report.system_seconds,
        processes=report.processes,
        left=report.left,
        storage=report.storage,
    )
    return _with_owners(_with_figure(figures, log.plan, report), log.plan, report, snapshot)


def _reason(log: RunLog, end: RunEnd) -> EndReason:
    if end.work is not None:
        return end.work.reason
    if log.plan.test == "manual" and log.failure is None:
        if end.is_interval:
            return "interval"
        is_over = end.measured is not None and end.measured >= log.plan.time
        return "deadline" if is_over else "hand"
    return "lost"


def last_lines(text: str) -> tuple[str, ...]:
    """Each shortened; lines that a carriage return has overwritten are left out, as on a
    terminal."""
    lines = []
    for line in text.rstrip("\n").split("\n")[-MAX_LINES:]:
        shown = line.rstrip("\r").rpartition("\r")[2]
        lines.append(shown.expandtabs(TAB_CELLS)[:MAX_LINE_CHARS])
    return tuple(lines) if text.strip() else ()


def _with_figure(
    figures: WorkloadFigures, plan: RunPlan, report: WorkloadReport
) -> WorkloadFigures:
    if not plan.value_pattern:
        figure = known_figure(report.stdout, report.stderr)
        why = "" if figure is not None else why_no_known_figure(report.stdout, report.stderr)
        return replace(figures, figure=figure, no_figure=why)
    try:
        expression = re.compile(plan.value_pattern)
    except re.error:
        return replace(figures, no_figure="--value is not a regular expression")
    searched = searched_text(report.stdout, report.stderr)
    figure, why = figure_by_expression(searched, expression)
    if why == NO_MATCH and max(report.stdout_bytes, report.stderr_bytes) > MAX_SEARCHED_CHARS:
        why = NO_MATCH_IN_END
    if figure is not None and plan.judged_by == "smaller-value":
        figure = replace(figure, less_is_better=True)
    return replace(figures, figure=figure, no_figure=why)


def _nics(log: RunLog, snapshot: Snapshot) -> Iterator[NicTraffic]:
    """The chosen one, then the others by their bytes."""
    host, chosen = log.plan.client.host, log.plan.client.ifindex
    before, after = log.before.get(host), log.after.get(host)
    if before is None or after is None or after.time <= before.time:
        return
    found = []
    for ifindex, link in snapshot.links.items():
        if ifindex not in before.links or ifindex not in after.links:
            continue
        name = clean(link.name)
        if ifindex == chosen:
            nic = counted_nic(log.plan, snapshot)
            first, last = _counted_records(log, nic, before, after)
            found.append(_nic_traffic(name, ifindex, nic, first, last))
            continue
        if link.flags & IFF_LOOPBACK:
            continue
        traffic = _nic_traffic(name, ifindex, CountedNic(ifindex), before, after)
        if traffic.received_packets or traffic.sent_packets:
            found.append(traffic)
    found.sort(key=lambda traffic: (traffic.ifindex != chosen, -traffic.bytes, traffic.ifindex))
    yield from found[:MAX_NICS]


def _nic_traffic(
    name: str, ifindex: int, nic: CountedNic, first: Counters, last: Counters
) -> NicTraffic:
    """What it carried between two records."""
    return NicTraffic(
        name,
        ifindex,
        received_bytes=counted(first, last, nic, RX_BYTES),
        sent_bytes=counted(first, last, nic, TX_BYTES),
        received_packets=counted(first, last, nic, RX_PACKETS),
        sent_packets=counted(first, last, nic, TX_PACKETS),
        seconds=last.time - first.time,
    )


def _counted_records(
    log: RunLog, nic: CountedNic, before: Counters, after: Counters
) -> tuple[Counters, Counters]:
    """The first and the last record that counts the NIC: VFs are read less often."""
    records = (before, *log.hosts[log.plan.client.host].records, after)
    known = [record for record in records if has_counters(record, nic)]
    return (known[0], known[-1]) if known else (before, after)


def _guest(log: RunLog, snapshot: Snapshot) -> GuestFigures | None:
    """CPU time of the guest that is measured; None: none is."""
    plan = log.plan
    before, after = log.before.get(plan.client.host), log.after.get(plan.client.host)
    if not plan.guest:
        return None
    if before is None or after is None:
        return GuestFigures(plan.guest)
    for consumer in cpu_consumers(snapshot_between(snapshot, before, after)):
        if consumer.kind == "machine" and consumer.name == plan.guest:
            return GuestFigures(
                plan.guest, consumer.total, consumer.vcpu, consumer.vhost, consumer.rest
            )
    return GuestFigures(plan.guest)


def _flows(log: RunLog, axis: float | None, figures: WorkloadFigures | None) -> tuple[Flow, ...]:
    """What the chosen NIC sent and received; () if none is chosen."""
    plan = log.plan
    host = log.hosts.get(plan.client.host)
    if axis is None or host is None or plan.client.ifindex is None:
        return ()
    origin = axis + host.offset.seconds
    flows = []
    for sends in (True, False):
        nic = counted_nic(plan, host.snapshot)
        every = nic_points(host.records, nic, origin, sends=sends)
        points = [point for point in every if point.time > 0]
        flow = nic_flow(host.name, points, sends=sends)
        flows.append(replace(flow, received=_total(plan, figures, sends=sends)))
    return tuple(flows)


def _total(plan: RunPlan, figures: WorkloadFigures | None, *, sends: bool) -> Total | None:
    """Of the seconds of a command, which moved what was counted; without one of those between both
    readings of the counters."""
    nic = figures.chosen if figures is not None else None
    if figures is None or nic is None:
        return None
    seconds = nic.seconds if plan.test == "manual" else figures.seconds
    moved = nic.sent_bytes if sends else nic.received_bytes
    if moved is None or seconds <= 0:
        return None
    return Total(False, False, seconds, 8 * moved / seconds, moved)


def _losses(log: RunLog, snapshots: Mapping[str, Snapshot]) -> tuple[CountedLoss, ...]:
    """What all hosts counted as lost meanwhile."""
    chosen = {log.plan.client.host: log.plan.client.ifindex}
    found: list[CountedLoss] = []
    for name, counts in log.losses.items():
        found += counted_losses(snapshots[name], counts, chosen.get(name))[:MAX_LOSSES]
    return tuple(found)


# -------------------------------------------------------------------------------------- connections


def _with_owners(
    figures: WorkloadFigures, plan: RunPlan, report: WorkloadReport, snapshot: Snapshot
) -> WorkloadFigures:
    if report.unreadable is not None:
        why = clean(report.unreadable.detail) or report.unreadable.reason
        return replace(figures, owners_unknown=f"its connections could not be read: {why}")
    if plan.client.ifindex is None:
        return replace(figures, owners_unknown="no NIC is chosen")
    addresses = addresses_over(plan.client.ifindex, snapshot)
    over_nic = [one for one in report.connections if one.local in addresses]
    return replace(figures, owners=bytes_by_owner(over_nic))


def addresses_over(ifindex: int, snapshot: Snapshot) -> frozenset[str]:
    """Addresses whose packets use a NIC: its own, and those of the bridge, bond or VLAN above."""
    found, waiting = set[int](), [ifindex]
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        link = snapshot.links.get(number)
        if link is not None and link.master is not None:
            waiting.append(link.master)
        for upper in snapshot.links.values():
            if upper.lower == number and upper.kind != "veth" and upper.lower_namespace is None:
                waiting.append(upper.ifindex)
    return frozenset(_addresses(snapshot.links[number] for number in found & snapshot.links.keys()))


def _addresses(links: Iterable[Link]) -> Iterator[str]:
    for link in links:
        for address in link.addresses:
            yield address.address


def bytes_by_owner(connections: Sequence[WorkloadConnection]) -> BytesByOwner:
    sums = {"own": 0, "other": 0, "unknown": 0}
    peers: dict[str, dict[str, TrafficPeer]] = {"own": {}, "other": {}, "unknown": {}}
    for one in connections:
        sums[one.owner] += one.sent + one.received
        text = _peer_text(one)
        known = peers[one.owner].get(text, TrafficPeer(text, 0, 0, 0))
        peers[one.owner][text] = TrafficPeer(
            text,
            known.sent + one.sent,
            known.received + one.received,
            known.connections + one.connections,
        )
    return BytesByOwner(
        sums["own"],
        sums["other"],
        sums["unknown"],
        _largest(peers["own"]),
        _largest(peers["other"]),
        _largest(peers["unknown"]),
        sum(one.retransmits for one in connections if one.owner == "own"),
    )


def _peer_text(one: WorkloadConnection) -> str:
    """The service of a peer: the port below the ephemeral ones, if one of both is (32768 is the
    lowest of net.ipv4.ip_local_port_range by default)."""
    if one.owner == "other":
        return clean(one.process) or "another process"
    if not one.remote:
        return "other peers"
    if one.remote_port >= 32768 > one.local_port > 0:
        return f"{clean(one.remote)} at port {one.local_port}"
    return f"{clean(one.remote)} port {one.remote_port}"


def _largest(peers: Mapping[str, TrafficPeer]) -> tuple[TrafficPeer, ...]:
    ordered = sorted(peers.values(), key=lambda peer: (-(peer.sent + peer.received), peer.text))
    return tuple(ordered[:MAX_PEERS])


# --------------------------------------------------------------------------------------------- end


def _failure(
    plan: RunPlan, figures: WorkloadFigures, report: WorkloadReport | None
) -> Failure | None:
    """How the command failed; None: it did not."""
    if plan.test != "workload" or figures.reason == "stopped":
        return None
    if figures.reason == "deadline":
        sentence = f"the command did not end within {plan.time} s (--time), and was ended"
        return Failure("deadline", sentence + _terminal_text(figures))
    if figures.signal is not None:
        return Failure("died", f"the command was ended by {_signal_text(figures.signal)}")
    error = reported_error(report.stdout) if report is not None else ""
    if not figures.status:
        sentence = "the command reports an error in its JSON, with exit status 0"
        return Failure("died", f"{sentence}: {_message(error)}") if error else None
    said = _last_error(figures, report, error)
    if figures.status in EXEC_STATUSES:
        sentence = f"the command could not be executed (exit status {figures.status})"
        return Failure("start", f"{sentence}{said}")
    sentence = f"the command failed with exit status {figures.status}{said}"
    return Failure("died", sentence + _terminal_text(figures))


def _signal_text(number: int) -> str:
    """``signal 9 (SIGKILL)``"""
    return f"signal {signal_text(number)}"


def _last_error(figures: WorkloadFigures, report: WorkloadReport | None, error: str) -> str:
    """``: No space left on device``: the last line of its standard error, else what its JSON has
    as `error`; else the last line of its output beside JSON, which need not be an error."""
    beside = last_lines(text_beside_json(report.stdout)) if report is not None else ()
    for begin, lines in (
        (": ", figures.stderr),
        (": ", (error,)),
        ("; its last line: ", beside),
        ("; its last line: ", figures.stdout),
    ):
        said = [line for line in lines if line.strip()]
        if said:
            return f"{begin}{_message(said[-1])}"
    return " and wrote nothing: it has no terminal, and its standard input is /dev/null"


def _message(text: str) -> str:
    return clean(text)[:MAX_ERROR_CHARS]


def _terminal_text(figures: WorkloadFigures) -> str:
    if not any(NEEDS_TERMINAL.search(line) for line in (*figures.stderr, *figures.stdout)):
        return ""
    return "; it may need a terminal: it has none, and its standard input is /dev/null"


def _stopped_text(figures: WorkloadFigures) -> str:
    if figures.reason == "lost":
        return "its host did not report that its processes were ended"
    if figures.left < 0:
        return "some of its processes were not ended"
    return "its processes were ended"


def _login_ifindex(snapshot: Snapshot) -> int | None:
    """Of the NIC with the address at which nictop's own connection ends; None: not over SSH."""
    inventory = snapshot.inventory
    session = inventory.platform.session_address if inventory is not None else None
    for ifindex, link in snapshot.links.items():
        if session and any(address.address == session for address in link.addresses):
            return ifindex
    return None


def _notes(result: Result, login_ifindex: int | None = None) -> Iterator[str]:
    """`login_ifindex`: see `_login_ifindex`."""
    figures = result.workload
    if figures is None:
        return
    if result.stopped is not None:
        yield f"stopped after {units.duration(result.stopped)}; {_stopped_text(figures)}"
    yield from _left_notes(figures)
    if figures.user == "root" and result.plan.test == "workload":
        yield "it ran as root, as the login is root's"
    busier = figures.busier_nic
    if busier is not None and not result.compares_other_nic:
        yield _busier_nic_note(busier, login_ifindex)
    is_unmeasured = any(load.busy is None for load in result.hosts)
    is_short = figures.seconds < SHORT_SECONDS and figures.reason != "lost"
    if is_unmeasured and is_short:
        yield "it was too short for the CPU of the hosts, which count it in ticks of 10 ms"


def _left_notes(figures: WorkloadFigures) -> Iterator[str]:
    """Processes that ran longer than the command."""
    if figures.left > 0:
        left = count_noun(figures.left, "process", "processes")
        yield (
            f"the command left {left} running, which nictop ended: a command that starts others in "
            "the background must wait for them (shell: wait)"
        )
    elif figures.left < 0:
        yield "some processes of the command could not be ended: they have another user, or hang"


def _busier_nic_note(busier: NicTraffic, login_ifindex: int | None) -> str:
    size = units.bytes_(busier.bytes)
    if busier.ifindex == login_ifindex:
        size += ", nictop's own connection is in it"
    return f"{busier.name} carried more ({size}): --client-nic {busier.name} measures that"


# ------------------------------------------------------------------------------------------- limits


def _limits(result: Result, snapshots: Mapping[str, Snapshot]) -> Iterator[ExaminedLimit]:
    """What of the hosts may have limited it, and what is not seen."""
    found = [
        *_line_limits(result, snapshots),
        *_cpu_limits(result),
        *_loss_limits(result),
        _unseen(result),
    ]
    yield from sorted(found, key=lambda limit: limit.verdict == "excluded")


def _unseen(result: Result) -> ExaminedLimit:
    """Datagrams that the receiver drops for a full socket buffer are counted only there."""
    who = "its peer and what its full socket buffers drop, the network, the command itself"
    if result.plan.test == "manual":
        who = "its peer and what its full socket buffers drop, the network, the programs"
    if result.plan.guest:
        who = "the guest and its peer, and what their full socket buffers drop; the network"
    return ExaminedLimit("what is not seen from here", who, "possible")


def _loss_limits(result: Result) -> Iterator[ExaminedLimit]:
    """What the hosts counted as lost meanwhile, as far as it can be of what was measured."""
    causes = [loss for loss in result.losses if loss.is_cause]
    causes.sort(key=lambda loss: -loss.count)
    for loss in causes[:MAX_LOSS_LIMITS]:
        yield ExaminedLimit(f"lost on {clean(loss.host)}", loss.text, "possible")


def _line_limits(result: Result, snapshots: Mapping[str, Snapshot]) -> Iterator[ExaminedLimit]:
    endpoint = result.plan.client
    link, end = endpoint.link_in(snapshots), endpoint.end
    rates = [flow.goodput for flow in result.flows if flow.goodput is not None]
    if link is None or end is None or not rates:
        return
    limits, _ = end_limits(
        snapshots[endpoint.host],
        end.ifindex,
        transmit_rates(snapshots.values(), pairs(snapshots.values())),
    )
    lowest = min(limits, key=lambda limit: limit.bits_per_second, default=None)
    if lowest is None:
        return
    share = max(rates) / lowest.bits_per_second
    verdict: LimitVerdict = "possible" if share >= AT_LINE_SHARE else "excluded"
    value = f"{units.percentage(share)} of {lowest.words}"
    yield ExaminedLimit(f"speed of {clean(link.name)}", value, verdict)


def _idle_text(result: Result) -> str:
    """That the command did nothing that a CPU or a NIC could hold back, as ``sleep`` does: ``no
    work …: the command used 2.10 ms of CPU time in 2.00 s, and all NICs carried 1.20 KiB``; "": it
    did, or that is not known."""
    figures = result.workload
    if figures is None or result.failure is not None or result.plan.test != "workload":
        return ""
    if figures.user_seconds is None or figures.system_seconds is None or not figures.nics:
        return ""
    counts = [(nic.received_bytes, nic.sent_bytes) for nic in figures.nics]
    if any(None in count for count in counts):
        return ""
    used = figures.user_seconds + figures.system_seconds
    carried = sum(nic.bytes for nic in figures.nics)
    has_used = used > MAX_IDLE_SHARE * figures.seconds
    if has_used or carried > MAX_IDLE_BYTES_PER_SECOND * figures.seconds:
        return ""
    took = f"{units.duration(used)} of CPU time in {units.duration(figures.seconds)}"
    return (
        f"no work is seen that CPUs or NICs could limit: the command used {took}, and all NICs "
        f"carried {units.bytes_(carried)}"
    )


def _cpu_limits(result: Result) -> Iterator[ExaminedLimit]:
    for load in loads_of_machines(result):
        if load.busy is None:
            continue
        host = clean(load.host)
        if not load.full:
            hottest = f"hottest CPU {load.busy.hottest}: {units.percentage(load.busy.hottest_busy)}"
            yield ExaminedLimit(f"CPUs of {host}", hottest, "excluded")
            continue
        first = load.full[0]
        text = f"CPU {first.cpu} {units.percentage(first.busy)} busy"
        text += f", softirq {units.percentage(first.softirq)}"
        if len(load.full) > 1:
            text += f"; {len(load.full) - 1} more nearly full"
        busiest = [thread for thread in load.known_threads if thread.share >= MIN_NAMED_SHARE]
        if busiest:
            text += f"; most CPU time: {processes_text(busiest, _process, ' of a core')}"
        yield ExaminedLimit(f"CPUs of {host}", text, "possible")


def _process(thread: ThreadLoad) -> str:
    of_whom = ", of the command" if thread.generator else ""
    return f"{clean(thread.name)} (pid {thread.pid}{of_whom})"


def _bottleneck(limits: Sequence[ExaminedLimit]) -> str:
    """A sentence; "": nothing was examined."""
    if not limits:
        return ""
    possible = [f"{limit.limit} ({limit.value})" for limit in limits if limit.verdict == "possible"]
    return f"not determined; possible: {', '.join(possible)}"
