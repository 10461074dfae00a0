"""Links whose txqueuelen is 0, although their queueing discipline or driver takes the size of a
queue from it.

Kernel: drivers/net/tun.c and tap.c (tx_ring), net/sched/sch_generic.c
(pfifo_fast_change_tx_queue_len), sch_fifo.c (default queue of a class), ip-link(8) txqueuelen.
"""

from __future__ import annotations

from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, Severity
from nictop.rules.fixes.commands import command, with_undo
from nictop.rules.fixes.persistence import SAFE_NAME, udev_fix
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

TAP_KINDS = ("tun", "macvtap", "ipvtap")
DEFAULT_LENGTH = 1000
"""DEFAULT_TX_QUEUE_LEN of the kernel, in packets."""


@host_rule("critical")
def transmit_queue_has_no_length(host: HostFacts) -> Outcomes:
    """The transmit queue length (txqueuelen) of a link is 0, and a queue on it takes its size from
    it.

    Critical: tap and macvtap links. They queue packets in a ring of that size until the virtual
    machine or program reads them, and drop every packet. Warning: the queueing discipline
    pfifo_fast, which then drops packets when the NIC cannot take them at once, and htb, whose
    classes get queues without room if they are created meanwhile.

    Not reported: links that are down, other queueing disciplines, which do not use it (fq_codel,
    fq, noqueue), and pfifo_fast below mq.

    Sources: kernel drivers/net/tun.c, net/sched/sch_generic.c, sch_fifo.c; ip-link(8) txqueuelen.
    """
    for link in host.links:
        found = _effect(link) if link.tx_queue_length == 0 and link.flags & IFF_UP else None
        if found is None:
            continue
        severity, title, why = found
        yield link_finding(
            severity,
            host,
            link,
            title,
            evidence=(
                Evidence("txqueuelen", "0", str(command("ip", "link", "show", "dev", link.name))),
                Evidence(
                    "root qdisc",
                    link.qdisc or "unknown",
                    str(command("tc", "qdisc", "show", "dev", link.name)),
                ),
            ),
            why=why,
            fixes=_fixes(link),
        )


def _effect(link: Link) -> tuple[Severity, str, str] | None:
    """(severity, title, why); None: nothing uses the length."""
    if link.kind in TAP_KINDS:
        return (
            "critical",
            "txqueuelen 0: drops every packet that it should send",
            "No packet reaches the virtual machine or program behind this link; packets from it "
            "pass.",
        )
    if link.qdisc == "pfifo_fast":
        return (
            "warning",
            "txqueuelen 0: pfifo_fast cannot queue packets",
            "Packets are dropped whenever the NIC is busy, which limits TCP far below the link "
            "speed.",
        )
    if link.qdisc == "htb":
        return (
            "warning",
            "txqueuelen 0: new classes of htb drop every packet",
            "A class that is created while txqueuelen is 0 has a queue without room.",
        )
    return None


def _fixes(link: Link) -> tuple[Fix, ...]:
    length, none = with_undo(
        ("ip", "link", "set", "dev", link.name, "txqueuelen"), str(DEFAULT_LENGTH), "0"
    )
    note = "Existing classes keep their queues: create them again." if link.qdisc == "htb" else ""
    if link.kind in TAP_KINDS:
        note = "If it is 0 again after a restart, look for txqueuelen in what creates the link."
    now = Fix("here", "Set now", (length,), False, (none,), note)
    if link.bus is None or SAFE_NAME.fullmatch(link.name) is None:
        return (now,)
    return now, udev_fix(link, "txqueuelen", f'ATTR{{tx_queue_len}}="{DEFAULT_LENGTH}"')
