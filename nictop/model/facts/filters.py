"""Facts about packet filters: base chains of the host, and whether bridged frames come to them.

Reads nothing; returns unsanitized text.
"""

from __future__ import annotations

from nictop.model.devices.filter_evaluation import chain_text
from nictop.model.devices.forward_filters import CALLS, FAMILY_NAMES, netfilter_calls
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.parts import sysctl_values
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import absence_reason, count_noun
from nictop.probe.records import Link, PacketChain

MAX_CHAIN_LINES = 16


def filter_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """The base chains that forwarded and received packets come to; none: there are none."""
    inventory = snapshot.inventory
    if inventory is None:
        return ()
    base = [chain for chain in inventory.filters.chains if chain.hook not in ("", "nat")]
    facts = [Fact(f"At {chain.hook}", _chain_fact(chain)) for chain in base[:MAX_CHAIN_LINES]]
    if len(base) > MAX_CHAIN_LINES:
        facts.append(Fact("Chains", f"{len(base) - MAX_CHAIN_LINES} more", "dim"))
    for source, why in inventory.filters.unreadable.items():
        facts.append(Fact("Not readable", f"{source}: {absence_reason(why, None)}", "dim"))
    return section("Packet filters", facts)


def _chain_fact(chain: PacketChain) -> str:
    parts = [chain_text(chain), f"policy {chain.policy}", count_noun(len(chain.rules), "rule")]
    if chain.packets is not None:
        parts.append(f"{units.count(chain.packets)} packets by policy")
    if chain.links:
        parts.insert(1, f"on {', '.join(chain.links)}")
    return " · ".join(parts)


def netfilter_facts(bridge: Link, snapshot: Snapshot) -> list[Fact]:
    """Which frames of a bridge come to the chains of routed packets; none: br_netfilter is not
    loaded."""
    if "net.bridge.bridge-nf-call-iptables" not in sysctl_values(snapshot):
        return []
    called = []
    for family in CALLS:
        if any(netfilter_calls(bridge, snapshot, family)):
            called.append(FAMILY_NAMES[family])
    text = "off (br_netfilter is loaded)"
    if called:
        text = f"{' and '.join(called)} frames pass the chains at forward"
    return [Fact("br_netfilter", text)]
