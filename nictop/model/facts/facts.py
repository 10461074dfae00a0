"""Everything known of one row of the device tree, for the Link panel and the report.

Reads nothing; `link_facts(row, snapshot)` returns sections of unsanitized text for a host, a PCI
function, a virtual function, a netdev or a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.devices.rights import restriction_text
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.facts.bonds import bond_sections
from nictop.model.facts.bridges import bridge_section
from nictop.model.facts.counters import counter_sections, traffic_fact
from nictop.model.facts.devlink import devlink_section
from nictop.model.facts.esxi import machine_section
from nictop.model.facts.ethtool import ethtool_sections
from nictop.model.facts.filters import filter_section
from nictop.model.facts.guests import guest_section, owner_of
from nictop.model.facts.hardware import (
    aspm_text,
    driver_text,
    ids_text,
    pci_name,
    pcie_capacity,
    pcie_errors_text,
    pcie_text,
    vf_rate_text,
    vf_text,
)
from nictop.model.facts.kernel_log import kernel_log_section, other_messages_section
from nictop.model.facts.links import address_section, driver_section, state_section
from nictop.model.facts.lldp import lldp_sections
from nictop.model.facts.profiles import host_profile_sections, profile_sections
from nictop.model.facts.routing import routing_section
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.facts.summary import age_facts, summary_section
from nictop.model.parts import unreadable_sources
from nictop.model.snapshot import Snapshot, is_unread_link, trouble_text
from nictop.model.text import units
from nictop.model.text.words import (
    absence_reason,
    address_text,
    count_noun,
    dim_if,
    driver_name,
    hypervisor_text,
    is_esxi,
    is_virtual,
    on_off,
    state_text,
    trouble_kind,
    warn_if,
)
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import (
    NOT_OFFERED_BY_ESXI,
    VF_COUNTERS,
    Hello,
    Link,
    PciFunction,
    Platform,
    Unreadable,
    VirtualFunction,
)
from nictop.probe.records.unreadable import NOT_RECORDED

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row

LINK_OF_FAILURE = pattern(r"ifindex ([0-9]{1,10}):")
"""Begins the detail of counters that could not be read of one link
(`nictop.probe.counters.reader`)."""

COUNTER_NAMES = {"queues": "queue counters", "links": "link counters", "cpus": "CPU counters"}
"""Field of `Counters` → what is in it."""
MAX_MEMBERS = 40
"""Listed interfaces of a group."""
PLATFORM_FIELDS = {
    "Vendor": "system_vendor",
    "Product": "product_name",
    "Distribution": "distribution",
    "CPUs online": "online_cpus",
    "CPUs possible": "possible_cpus",
    "NUMA nodes": "numa_nodes",
}
"""Label → field of the platform."""
SHOWN_ABOVE = {"link", "sriov", "numa_node", "iommu_group"}
"""Fields of a PCI function whose lines say why they could not be read."""
EXPERIMENTAL_ESXI = "experimental: not tested on a real ESXi host"


class FixedSections(NamedTuple):
    """Sections of a row that are the same for all readings of an inventory."""

    profiles: tuple[Section, ...]
    driver: tuple[Section, ...]
    """Of the netdev, and its settings."""
    function: tuple[Section, ...]


def fixed_sections(row: Row, snapshot: Snapshot) -> FixedSections:
    """Of the links and the inventory of the snapshot."""
    profiles: tuple[Section, ...] = ()
    driver: tuple[Section, ...] = ()
    if row.link is not None:
        profiles = profile_sections(row.link, snapshot)
        driver = driver_section(row.link, row.pci)
        if not is_unread_link(row.link):
            driver += ethtool_sections(row.link, row.pci)
    function = () if row.pci is None else pci_section(row.pci)
    return FixedSections(profiles, driver, function)


def link_facts(
    row: Row, snapshot: Snapshot, fixed: FixedSections | None = None
) -> tuple[Section, ...]:
    """Sections for any kind of row, the most important first; never empty, and no fact is blank.
    `fixed`: those of this row, if they are known already."""
    first, *others = _row_sections(row, snapshot, fixed)
    ages = age_facts(row.link or row.uplink, row.pci, snapshot)
    return (replace(first, facts=(*ages, *first.facts)), *others)


def _row_sections(row: Row, snapshot: Snapshot, fixed: FixedSections | None) -> tuple[Section, ...]:
    if row.kind == "host":
        return _host_sections(snapshot)
    if row.kind == "group":
        return _group_sections(row, snapshot)
    if fixed is None:
        fixed = fixed_sections(row, snapshot)
    sections: tuple[Section, ...] = ()
    if row.link is not None:
        sections += summary_section(row.link, row.pci, snapshot)
        sections += fixed.profiles
        sections += guest_section(row, snapshot)
        sections += bridge_section(row.link, snapshot)
        sections += state_section(row.link, snapshot)
        sections += bond_sections(row.link, snapshot)
        sections += lldp_sections(row.link, snapshot)
        sections += address_section(row.link, snapshot)
        sections += fixed.driver
        sections += counter_sections(row.link, snapshot)
    if row.kind == "vf" or row.vf is not None:
        sections += _vf_section(row, snapshot)
    if row.link is None:
        sections += guest_section(row, snapshot)
    sections += devlink_section(row, snapshot)
    sections += fixed.function
    sections += kernel_log_section(row.link, row.pci, snapshot)
    return sections or section("Device", [Fact("Information", "none", "dim")])


def _group_sections(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    if row.key == "group:pending":
        members = [link for link in snapshot.links.values() if is_unread_link(link)]
        text = "only name and state are known: inventory pending"
    else:
        members = [link for link in snapshot.links.values() if is_virtual(link)]
        text = "interfaces without a device: bridge, veth, tap, tunnel, VLAN, lo"
    facts = [Fact("Number", str(len(members))), Fact("Note", text, "dim")]
    listed = [Fact(link.name, _member_text(link)) for link in members[:MAX_MEMBERS]]
    if members[MAX_MEMBERS:]:
        listed.append(Fact("", f"{len(members) - MAX_MEMBERS} more", "dim"))
    return section("Interfaces", [*facts, *listed])


def _member_text(link: Link) -> str:
    """``up · bridge · MTU 1500 · 10.0.0.1/24``: what is known of it."""
    addresses = map(address_text, link.addresses)
    mtu = f"MTU {link.mtu}" if link.mtu else ""
    return " · ".join(filter(None, (state_text(link)[0], link.kind or "", mtu, *addresses)))


def _host_sections(snapshot: Snapshot) -> tuple[Section, ...]:
    state = f"{snapshot.state}: {snapshot.message}" if snapshot.message else snapshot.state
    when = "" if snapshot.recorded_at is None else " at that time"
    facts = [Fact("State", state + when)]
    if snapshot.inventory is None:
        return section("Host", [*facts, Fact("Platform", "inventory pending", "dim")])
    platform = snapshot.inventory.platform
    facts += _platform_facts(platform)
    if snapshot.hello is not None:
        facts += _probe_facts(snapshot.hello, snapshot, platform)
    facts += _failure_facts(snapshot, platform)
    for trouble in snapshot.troubles:
        kind, tone = trouble_kind(trouble)
        facts.append(Fact(kind.capitalize(), trouble_text(snapshot, trouble), tone))
    machines = machine_section(snapshot) if is_esxi(platform) else ()
    return (
        *section("Host", facts),
        *machines,
        *routing_section(snapshot),
        *filter_section(snapshot),
        *host_profile_sections(snapshot),
        *other_messages_section(snapshot),
    )


def _failed(snapshot: Snapshot) -> list[tuple[str, Unreadable]]:
    failed = [*unreadable_sources(snapshot).items()]
    if snapshot.counters is not None:
        for field, why in snapshot.counters.unreadable.items():
            failed.append((COUNTER_NAMES.get(field, f"{field} counters"), why))
    return failed


def _platform_facts(platform: Platform) -> list[Fact]:
    """Machine and system, with the reason for each value that is absent."""
    facts = [Fact("Platform", hypervisor_text(platform))]
    for label, field in PLATFORM_FIELDS.items():
        value = getattr(platform, field)
        text = value or _absence(platform.unreadable, field)
        facts.append(Fact(label, text, dim_if(not value)))
    facts.append(Fact("IOMMU", _iommu_text(platform)))
    return facts


def _iommu_text(platform: Platform) -> str:
    groups = platform.iommu_groups
    if groups is None:
        return _absence(platform.unreadable, "iommu_groups")
    if not groups:
        return "off"
    return count_noun(groups, "group")


def _probe_facts(hello: Hello, snapshot: Snapshot, platform: Platform) -> list[Fact]:
    """The kernel, and what reads the host with which rights."""
    facts = [Fact("Kernel", f"{hello.kernel} {hello.machine}")]
    if is_esxi(platform):
        facts.append(Fact("Probe", "none: outputs of esxcli and net-stats"))
        facts.append(Fact("Support", EXPERIMENTAL_ESXI, "warn"))
        return facts
    rights = "root" if hello.euid == 0 else f"user {hello.euid} (not root)"
    program = f"nictop {hello.version}, Python {hello.python}"
    facts.append(Fact("Probe", f"{program}, pid {hello.pid}, {rights}"))
    restriction = restriction_text(snapshot)
    if restriction:
        facts.append(Fact("Read-only", restriction))
    return facts


def _failure_facts(snapshot: Snapshot, platform: Platform) -> list[Fact]:
    """What ESXi does not offer, and what an older nictop did not record, in a line each; and what
    could not be read."""
    absent: dict[str, list[str]] = {}
    facts = []
    for source, why in _failed(snapshot):
        is_absent = why.detail == NOT_OFFERED_BY_ESXI and is_esxi(platform)
        if is_absent or why.detail == NOT_RECORDED:
            absent.setdefault(why.detail, []).append(source)
        else:
            facts.append(Fact("Not readable", failure_text(source, why, snapshot), "warn"))
    listed = [f"{reason}: {', '.join(sources)}" for reason, sources in absent.items()]
    return [*(Fact("Not available", text, "dim") for text in listed), *facts]


def failure_text(source: str, why: Unreadable, snapshot: Snapshot) -> str:
    """``queue counters of ens192: not supported by vmxnet3``: of one link, with its name."""
    match = LINK_OF_FAILURE.match(why.detail)
    if match is None:
        return f"{source}: {absence_reason(why, None)}"
    link = snapshot.links.get(int(match[1]))
    if link is None:
        return f"{source} of ifindex {match[1]}: {absence_reason(why, None)}"
    return f"{source} of {link.name}: {absence_reason(why, driver_name(link))}"


def _absence(unreadable: dict[str, Unreadable], field: str) -> str:
    """The reason for an absent value; "none" when it does not exist on this host."""
    if field not in unreadable:
        return "none"
    return absence_reason(unreadable[field], None)


def pci_section(pci: PciFunction) -> tuple[Section, ...]:
    """Hardware facts of one PCI function."""
    driver, tone = driver_text(pci)
    facts = [
        Fact("Device", pci_name(pci)),
        Fact("Address", f"{pci.address} · {_ids(pci)}"),
        Fact("PCI driver", driver, tone),
        *_pcie_facts(pci),
        *_error_facts(pci),
    ]
    if pci.aspm:
        facts.append(Fact("ASPM", aspm_text(pci.aspm)))
    facts.append(Fact("NUMA node", _number(pci, "numa_node", "not reported by firmware")))
    facts.append(Fact("IOMMU group", _number(pci, "iommu_group", "none (IOMMU off)")))
    facts.append(_sriov_fact(pci))
    facts += _reset_facts(pci)
    if pci.rdma_devices:
        facts.append(Fact("RDMA", ", ".join(pci.rdma_devices)))
    for name, why in pci.unreadable.items():
        if name not in SHOWN_ABOVE:
            text = f"{name}: {absence_reason(why, pci.driver)}"
            facts.append(Fact("Not readable", text, "dim"))
    return section("PCI function", facts)


def _error_facts(pci: PciFunction) -> list[Fact]:
    """PCIe errors of the function and of the port above it; none when neither has reported any."""
    own, port = pcie_errors_text(pci.errors), pcie_errors_text(pci.parent_errors)
    parts = []
    if own:
        parts.append(f"{pci.address}: {own}")
    if port:
        parts.append(f"port {pci.parent or 'above'}: {port}")
    if not parts:
        return []
    counted = [errors for errors in (pci.errors, pci.parent_errors) if errors is not None]
    has_uncorrected = any(errors.nonfatal > 0 or errors.fatal > 0 for errors in counted)
    return [Fact("PCIe errors", " · ".join(parts), warn_if(has_uncorrected))]


def _reset_facts(pci: PciFunction) -> list[Fact]:
    """Reset methods of a function that can have VFs, or is reserved for a VM or user-space
    driver."""
    can_have_vfs = pci.sriov is not None or pci.sriov_capable is True
    is_shown = can_have_vfs or pci.driver in PASSTHROUGH_DRIVERS
    if pci.reset_methods is None or not is_shown:
        return []
    if not pci.reset_methods:
        return [Fact("Reset methods", "none", "warn")]
    return [Fact("Reset methods", ", ".join(pci.reset_methods))]


def _ids(pci: PciFunction) -> str:
    parts = [ids_text(pci)]
    if pci.subsystem_vendor_id is not None and pci.subsystem_device_id is not None:
        parts.append(f"subsystem {pci.subsystem_vendor_id:04x}:{pci.subsystem_device_id:04x}")
    if pci.revision is not None:
        parts.append(f"revision {pci.revision:02x}")
    return " · ".join(parts)


def _pcie_facts(pci: PciFunction) -> list[Fact]:
    """Speed and width of the link of the function, and of its slot."""
    text, tone = pcie_text(pci.link)
    if pci.link is not None:
        capacity = pcie_capacity(pci.link)
        if capacity is not None:
            text += f" · {units.bits_per_second(capacity * 1e9)} per direction"
    elif "link" in pci.unreadable:
        text = absence_reason(pci.unreadable["link"], None)
    facts = [Fact("PCIe", text, tone)]
    if pci.parent_link is not None:
        slot, _ = pcie_text(pci.parent_link)
        facts.append(Fact("PCIe slot", f"{slot} at {pci.parent or 'the root bus'}"))
    return facts


def _sriov_fact(pci: PciFunction) -> Fact:
    """Of a function that can have VFs, or is one."""
    if pci.sriov is not None:
        text = f"{pci.sriov.num_vfs} of {pci.sriov.total_vfs} VFs"
        if pci.sriov.autoprobe is not None:
            text += f" · sriov_drivers_autoprobe {on_off(pci.sriov.autoprobe)}"
        return Fact("SR-IOV", text)
    if "sriov" in pci.unreadable:
        return Fact("SR-IOV", absence_reason(pci.unreadable["sriov"], pci.driver), "dim")
    if pci.physical_function is not None:
        number = "?"
        if pci.virtual_function is not None:
            number = str(pci.virtual_function)
        return Fact("SR-IOV", f"VF {number} of {pci.physical_function}")
    return Fact("SR-IOV", "not supported", "dim")


def _number(pci: PciFunction, field: str, none: str) -> str:
    value = getattr(pci, field)
    if value is not None:
        return str(value)
    if field in pci.unreadable:
        return absence_reason(pci.unreadable[field], pci.driver)
    return none


def _vf_section(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Attributes and counters of a VF as reported by its physical function."""
    facts = []
    if row.pci is None:
        facts.append(Fact("Function", "not on this host's PCI bus", "dim"))
    elif row.pci.driver in PASSTHROUGH_DRIVERS:
        facts.append(Fact("Function", f"reserved for a VM or user-space driver ({row.pci.driver})"))
    if row.vf is None:
        why = "the PF has no netdev"
        if row.uplink is not None:
            why = f"not reported by {row.uplink.name}"
        return section("Virtual function", [*facts, Fact("Attributes", why, "dim")])
    owner = owner_of(row, snapshot)
    if owner is not None:
        facts.append(Fact("Assigned to", owner.text))
    facts += [Fact("Attributes", vf_text(row.vf)), Fact("TX rate", vf_rate_text(row.vf))]
    if row.vf.rss_query is not None:
        facts.append(Fact("RSS query", on_off(row.vf.rss_query)))
    return section("Virtual function", [*facts, *_vf_counters(row, snapshot)])


def _vf_counters(row: Row, snapshot: Snapshot) -> list[Fact]:
    vf, uplink = row.vf, row.uplink
    if vf is None or uplink is None:
        return []
    numbers = vf.counters
    if snapshot.counters is not None:
        functions = snapshot.counters.vfs.get(uplink.ifindex, {})
        numbers = functions.get(vf.number, numbers)
    if numbers is None:
        return [Fact("Counters", _why_no_vf_counters(vf, uplink, snapshot), "dim")]
    total = dict(zip(VF_COUNTERS, numbers, strict=False))
    rates = None
    if snapshot.rates is not None:
        rates = snapshot.rates.vfs.get(uplink.ifindex, {}).get(vf.number)
    facts = [traffic_fact("RX", "rx", total, rates), traffic_fact("TX", "tx", total, rates)]
    dropped = [name for name in ("rx_dropped", "tx_dropped") if total.get(name)]
    if dropped:
        text = ", ".join(f"{name} {units.count(total[name])}" for name in dropped) + " in total"
        facts.append(Fact("Errors", text, "warn"))
    return facts


def _why_no_vf_counters(vf: VirtualFunction, uplink: Link, snapshot: Snapshot) -> str:
    inventory = snapshot.inventory
    if inventory is None or not is_esxi(inventory.platform):
        return f"not supported by the driver of {uplink.name}"
    if vf.machine is None:
        return "not read: no VM has it"
    return "not read"
