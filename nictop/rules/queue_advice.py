"""What to do about the queues of a NIC: one sentence with its reason, and its commands if there is
something to change.

From the findings about the NIC, its RSS table and transmit packet steering (XPS), and how its load
is spread now. Pure. RSS selects the queue by a hash of addresses and ports: all packets of one flow
use the same queue, whatever the table (kernel Documentation/networking/scaling.rst).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list, short_cpu_list
from nictop.model.queues.map import QueueMap, balance
from nictop.model.snapshot import is_unread_link
from nictop.model.text.words import driver_name
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.commands import echo
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts
from nictop.rules.interrupts.steering import cpu_mask
from nictop.rules.registry import RULES
from nictop.rules.wording import fixes_with_commands, where_text

MAX_LIST_CELLS = 24
"""Of a list of CPUs in a sentence."""
QUEUE_FAMILY = "interrupts and softirqs"
QUEUE_RULES = frozenset(
    (
        "hyperv_channels_share_one_processor",
        "hypervisor_offers_one_queue",
        "interrupts_are_on_another_numa_node",
        "more_queues_than_processors",
        "multiqueue_is_not_used",
        "nic_has_no_msix",
        "queues_share_interrupts",
        "vf_offers_fewer_queues_than_needed",
        "vmxnet3_has_one_queue",
    )
)
"""Rules about queues in other families."""
SOURCES = frozenset(("ethtool", "interrupts", "queues", "services"))
"""Parts of the inventory that the advice rests on."""
UNEQUAL_WEIGHTS = 2.0
"""Entries of the queue with most of them in the RSS table, per entry of that with fewest: above it,
the table itself is uneven. A table whose length is no multiple of the queues differs by one
entry."""
ONE_FLOW = "one flow uses one queue"
RECEIVED_FLOW = f"{ONE_FLOW}, RSS cannot split it"
STREAMS = "a test with several streams uses more"


@dataclass(frozen=True)
class QueueAdvice:
    """`text`: the sentence. `fix`: its commands; None: there is nothing to change, or nothing that
    a command does. `finding`: that it is a fix of; None: it was made from the settings."""

    text: str
    fix: Fix | None = None
    finding: Finding | None = None


def queue_advice(host: HostFacts, link: Link, findings: Sequence[Finding] | None) -> QueueAdvice:
    """`findings`: those of the host, worst first; None: the rules have not run yet."""
    is_unread = is_unread_link(link) or SOURCES & set(host.inventory.pending)
    if findings is None or is_unread:
        return QueueAdvice("not known yet, because the inventory is not complete")
    for finding in findings:
        is_of_link = finding.host == host.name and finding.ifindex == link.ifindex
        if is_of_link and _is_of_queues(finding):
            return _of_finding(finding)
    found = host.queue_map(link)
    if not found.rows:
        return QueueAdvice("not known, because no queues are reported")
    return _of_steering(host, link) or _of_table(host, link) or _of_balance(link, found)


def _is_of_queues(finding: Finding) -> bool:
    rule = RULES.get(finding.rule)
    return rule is not None and (rule.family == QUEUE_FAMILY or rule.name in QUEUE_RULES)


def _of_finding(finding: Finding) -> QueueAdvice:
    fixes = fixes_with_commands(finding)
    if not fixes:
        return QueueAdvice(f"{finding.title} (see Findings)", None, finding)
    fix = fixes[0]
    place = "" if fix.where == "here" else f"; {where_text(finding.host, fix)}:"
    return QueueAdvice(f"{finding.title}{place}", fix, finding)


def _of_steering(host: HostFacts, link: Link) -> QueueAdvice | None:
    """XPS that assigns all CPUs to some of the transmit queues: the others are never used."""
    cpus = host.cpu_numbers
    masks = _transmit_cpus(host, link)
    used = [queue for queue, mask in masks.items() if mask]
    assigned = set().union(*masks.values())
    if not used or len(used) >= min(len(masks), len(cpus)) or not assigned >= set(cpus):
        return None
    unused = [queue for queue in masks if queue not in used]
    return QueueAdvice(
        f"transmit packet steering (XPS) assigns all CPUs to queue {format_cpu_list(used)}, so "
        f"{format_cpu_list(unused)} are not selected by it: assign CPUs to each queue",
        _cpus_for_each_queue(link, masks, cpus),
    )


def _transmit_cpus(host: HostFacts, link: Link) -> dict[int, set[int]]:
    """Transmit queue → the CPUs that XPS assigns to it."""
    found = {}
    for row in host.queue_map(link).rows:
        if row.queue is not None and row.has_tx and row.xps is not None:
            found[row.queue] = set(row.xps)
    return found


def _cpus_for_each_queue(link: Link, masks: Mapping[int, set[int]], cpus: Sequence[int]) -> Fix:
    commands, undo = [], []
    for place, (queue, before) in enumerate(masks.items()):
        file = f"/sys/class/net/{link.name}/queues/tx-{queue}/xps_cpus"
        commands.append(echo(cpu_mask(cpus[place :: len(masks)]), file))
        undo.append(echo(cpu_mask(before), file))
    title = "Assign CPUs to each transmit queue"
    return Fix("here", title, tuple(commands), persistent=False, undo=tuple(undo))


def _of_table(host: HostFacts, link: Link) -> QueueAdvice | None:
    """An RSS table that gives some queues many times the entries of others."""
    rss = link.ethtool.rss
    counts = Counter(rss.indirection if rss is not None else ())
    if len(counts) < 2 or max(counts.values()) <= UNEQUAL_WEIGHTS * min(counts.values()):
        return None
    ((queue, most),) = counts.most_common(1)
    share = f"{most} of {sum(counts.values())} entries to queue {queue}"
    text = f"the RSS table gives {share}: set equal shares, unless they are intended"
    if counts.keys() != set(range(len(counts))):  # "equal" would take other queues than these
        return QueueAdvice(text)
    fixes = ethtool_fixes(host, link, ["-X", "equal", str(len(counts))])
    return QueueAdvice(text, fixes[0])


def _of_balance(link: Link, found: QueueMap) -> QueueAdvice:
    """Nothing is wrong with the settings."""
    queues = sum(row.in_use for row in found.rows)
    level, sentence = balance(found)
    if queues == 0:
        return QueueAdvice("not known, because no queues are reported")
    if queues == 1:
        return QueueAdvice(f"nothing to change at this load: {_single_queue_text(link)}")
    if level == "uneven":
        return QueueAdvice(f"nothing to change: {_selection_text(link, found)}; {STREAMS}")
    if level:
        return QueueAdvice(
            f"nothing to change: the load is spread over {queues} queues{_cpus_text(found)}"
        )
    why = "no traffic" if "no traffic" in sentence else "too little traffic"
    return QueueAdvice(f"not judged: {why}")


def _cpus_text(found: QueueMap) -> str:
    """All CPUs on which interrupts of queues were counted, as the table lists them; "" if none
    were."""
    cpus = sorted({cpu for row in found.rows if row.in_use for cpu in row.busy_cpus})
    if not cpus:
        return ""
    text = short_cpu_list(cpus, MAX_LIST_CELLS)
    return f", their interrupts are on {'' if text.endswith('CPUs') else 'CPU '}{text}"


def _single_queue_text(link: Link) -> str:
    """How many queues there could be."""
    channels = link.ethtool.channels
    offered = channels.max_combined if channels is not None else None
    if offered is None:
        return "one queue is in use"
    if offered == 1:
        return f"one queue is the maximum that {driver_name(link) or 'the driver'} reports"
    return f"one of {offered} queues is in use"


def _selection_text(link: Link, found: QueueMap) -> str:
    """What selects the queue of most packets, as far as known: for those that are sent XPS, else a
    hash of the flow (net/core/dev.c, netdev_pick_tx) or the driver; else the RSS table."""
    sends_most = (found.total.tx_packets or 0.0) > (found.total.rx_packets or 0.0)
    if sends_most and any(row.xps for row in found.rows):
        return f"the CPU that sends selects the queue (XPS); {ONE_FLOW}"
    if sends_most:
        return f"most packets are sent, and the kernel or the driver selects the queue; {ONE_FLOW}"
    rss = link.ethtool.rss
    if rss is None or not rss.indirection:
        unread = f"the RSS table is not reported by {driver_name(link) or 'the driver'}"
        return f"{unread}; {RECEIVED_FLOW}"
    queues = f"{len(set(rss.indirection))} of {receive_queues(link)} queues"
    return f"the RSS table has {queues}; {RECEIVED_FLOW}"
