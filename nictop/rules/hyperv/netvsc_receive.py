"""hv_netvsc of old kernels: receiving stops when a completion finds the ring to the host full.

Reads nothing. Kernel drivers/net/hyperv/netvsc.c (send_recv_completions counts rx_comp_busy),
commit 6b81b193b83e.
"""

from __future__ import annotations

import re

from nictop.model.text import units
from nictop.probe.kernel.patterns import pattern
from nictop.rules.finding import Evidence, Fix
from nictop.rules.host import HostFacts
from nictop.rules.hyperv.netvsc import synthetic_links
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

RELEASE = pattern(r"(\d{1,3})\.(\d{1,3})\.(\d{1,4})(?:-(\d{1,5})[^ ]*\.el7)?", re.ASCII)
FIRST, LAST = (4, 12, 0), (4, 14, 51)
"""Kernels of which the defect is known; whether 4.14.52 to 4.17 of a distribution have the cure is
not."""
RHEL_7_CURED = 1062
"""3.10.0-1062.el7, azure-linux-kernel#36."""


@host_rule(
    "warning",
    uses=(
        "counters.driver",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def receive_completions_may_stall(host: HostFacts) -> Outcomes:
    """A queue of a Hyper-V NIC may have stopped receiving: its kernel does not resume after the
    ring was full.

    The driver returns received packets to the host through the transmit ring. rx_comp_busy counts
    how often that found the ring full. Kernels 4.12 to 4.14.51, and those of RHEL 7 before
    3.10.0-1062, may then poll the queue never again: a part of the connections loses everything.

    Not reported: other kernels, in which the counter is harmless, or of which it is not known.

    Sources: kernel commit 6b81b193b83e ("Fix napi reschedule while receive completion is busy"),
    LIS/lis-next#562, azure-linux-kernel#36 and #42.
    """
    hello = host.snapshot.hello
    if hello is None or not _has_the_defect(hello.kernel):
        return
    for link in synthetic_links(host):
        busy = host.driver_sum(link, ("rx_comp_busy",))
        if busy is None or not busy.total:
            continue
        counted = f"{units.count(busy.total)} in total"
        yield link_finding(
            "warning",
            host,
            link,
            "a queue may have stopped receiving (old kernel)",
            evidence=(
                Evidence("rx_comp_busy", counted, f"ethtool -S {link.name}"),
                Evidence("kernel", hello.kernel, "uname -r"),
            ),
            why="After a full ring this kernel may not poll the queue again. One time is enough: "
            "that part of the "
            "traffic is then lost.",
            fixes=(
                Fix(
                    "here",
                    "Update the kernel",
                    (),
                    True,
                    note="4.18 or later; RHEL 7: 3.10.0-1062 or later.",
                ),
            ),
        )


def _has_the_defect(kernel: str) -> bool:
    match = RELEASE.match(kernel)
    if match is None:
        return False
    release = (int(match[1]), int(match[2]), int(match[3]))
    if match[4] is not None:
        return release == (3, 10, 0) and int(match[4]) < RHEL_7_CURED
    return FIRST <= release <= LAST
