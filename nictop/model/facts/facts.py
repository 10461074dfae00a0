"""Everything known of one row of the device tree, for the Link panel and the report.

Reads nothing; `link_facts(row, snapshot)` returns sections of unsanitized text for a host, a PCI function, a virtual
function, a netdev or a group.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nictop.model.devices.rights import restriction_text
from nictop.model.devices.virtual_functions import PASSTHROUGH_DRIVERS
from nictop.model.facts.bonds import bond_sections
from nictop.model.facts.bridges import bridge_section
from nictop.model.facts.counters import counter_sections
from nictop.model.facts.devlink import devlink_section
from nictop.model.facts.esxi import machine_section
from nictop.model.facts.ethtool import ethtool_sections
from nictop.model.facts.filters import filter_section
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
from nictop.model.facts.summary import summary_section
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text import units
from nictop.model.text.words import (
    absence_reason,
    count_noun,
    driver_name,
    hypervisor_text,
    is_esxi,
    is_virtual,
    on_off,
    state_text,
)
from nictop.probe.records import NOT_OFFERED_BY_ESXI, VF_COUNTERS, Link, PciFunction, Unreadable

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row

LINK_OF_FAILURE = re.compile(r"ifindex ([0-9]{1,10}):")
"""Begins the detail of counters that could not be read of one link (`nictop.probe.counters.reader`)."""

MAX_MEMBERS = 40
"""Listed interfaces of a group."""
EXPERIMENTAL_ESXI = "experimental: not tested on a real ESXi host"


def link_facts(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Sections for any kind of row, the most important first; never empty, and no fact is blank."""
    if row.kind == "host":
        return _host_sections(snapshot)
    if row.kind == "group":
        return _group_sections(row, snapshot)
    sections: tuple[Section, ...] = ()
    if row.link is not None:
        sections += summary_section(row.link, row.pci, snapshot)
        sections += profile_sections(row.link, snapshot)
        sections += bridge_section(row.link, snapshot)
        sections += state_section(row.link, snapshot)
        sections += bond_sections(row.link, snapshot)
        sections += lldp_sections(row.link, snapshot)
        sections += address_section(row.link, snapshot)
        sections += driver_section(row.link, row.pci)
        if row.link.type != ARPHRD_VOID:
            sections += ethtool_sections(row.link, row.pci)
        sections += counter_sections(row.link, snapshot)
    if row.kind == "vf" or row.vf is not None:
        sections += _vf_section(row, snapshot)
    sections += devlink_section(row, snapshot)
    if row.pci is not None:
        sections += pci_section(row.pci)
    sections += kernel_log_section(row.link, row.pci, snapshot)
    return sections or section("Device", [Fact("Information", "none", "dim")])


def _group_sections(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    if row.key == "group:pending":
        members = [link for link in snapshot.links.values() if link.type == ARPHRD_VOID]
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
    addresses = [f"{one.address}/{one.prefix_length}" for one in link.addresses]
    mtu = f"MTU {link.mtu}" if link.mtu else ""
    return " · ".join(filter(None, (state_text(link)[0], link.kind or "", mtu, *addresses)))


def _host_sections(snapshot: Snapshot) -> tuple[Section, ...]:
    facts = [Fact("State", f"{snapshot.state}: {snapshot.message}" if snapshot.message else snapshot.state)]
    if snapshot.inventory is None:
        return section("Host", [*facts, Fact("Platform", "inventory pending", "dim")])
    platform = snapshot.inventory.platform
    unreadable = platform.unreadable
    facts.append(Fact("Platform", hypervisor_text(platform)))
    for label, field in (
        ("Vendor", "system_vendor"),
        ("Product", "product_name"),
        ("Distribution", "distribution"),
        ("CPUs online", "online_cpus"),
        ("CPUs possible", "possible_cpus"),
        ("NUMA nodes", "numa_nodes"),
    ):
        value = getattr(platform, field)
        facts.append(Fact(label, value or _absence(unreadable, field), "normal" if value else "dim"))
    groups = platform.iommu_groups
    facts.append(
        Fact(
            "IOMMU",
            _absence(unreadable, "iommu_groups")
            if groups is None
            else count_noun(groups, "group")
            if groups
            else "off",
        )
    )
    hello = snapshot.hello
    if hello is not None:
        facts.append(Fact("Kernel", f"{hello.kernel} {hello.machine}"))
        rights = "root" if hello.euid == 0 else f"user {hello.euid} (not root)"
        if is_esxi(platform):
            facts.append(Fact("Probe", "none: outputs of esxcli and net-stats"))
            facts.append(Fact("Support", EXPERIMENTAL_ESXI, "warn"))
        else:
            facts.append(Fact("Probe", f"nictop {hello.version}, Python {hello.python}, pid {hello.pid}, {rights}"))
            facts += [Fact("Read-only", text) for text in (restriction_text(snapshot),) if text]
    absent = [source for source, why in _failed(snapshot) if is_esxi(platform) and why.detail == NOT_OFFERED_BY_ESXI]
    failed = [Fact("Not available", f"{NOT_OFFERED_BY_ESXI}: {', '.join(absent)}", "dim")] if absent else []
    failed += [
        Fact("Not readable", _failure_text(source, why, snapshot), "warn")
        for source, why in _failed(snapshot)
        if source not in absent
    ]
    errors = [Fact("Error", trouble.message, "warn") for trouble in snapshot.troubles]
    machines = machine_section(snapshot) if is_esxi(platform) else ()
    messages = other_messages_section(snapshot)
    host = section("Host", [*facts, *failed, *errors])
    network = (*routing_section(snapshot), *filter_section(snapshot))
    return (*host, *machines, *network, *host_profile_sections(snapshot), *messages)


def _failed(snapshot: Snapshot) -> list[tuple[str, Unreadable]]:
    inventory = snapshot.inventory.unreadable if snapshot.inventory is not None else {}
    counters = snapshot.counters.unreadable if snapshot.counters is not None else {}
    return [*inventory.items(), *counters.items()]


def _failure_text(source: str, why: Unreadable, snapshot: Snapshot) -> str:
    """``queues of ens192: not supported by vmxnet3``: of counters of one link, with its name."""
    found = LINK_OF_FAILURE.match(why.detail)
    if found is None:
        return f"{source}: {absence_reason(why, None)}"
    link = snapshot.links.get(int(found[1]))
    name = f"ifindex {found[1]}" if link is None else link.name
    return f"{source} of {name}: {absence_reason(why, None if link is None else driver_name(link))}"


def _absence(unreadable: dict[str, Unreadable], field: str) -> str:
    """The reason for an absent value; "none" when it does not exist on this host."""
    return absence_reason(unreadable[field], None) if field in unreadable else "none"


def pci_section(pci: PciFunction) -> tuple[Section, ...]:
    """Hardware facts of one PCI function."""
    driver, tone = driver_text(pci)
    link, link_tone = pcie_text(pci.link)
    capacity = pcie_capacity(pci.link) if pci.link is not None else None
    if capacity is not None:
        link += f" · {units.bits_per_second(capacity * 1e9)} per direction"
    if pci.link is None and "link" in pci.unreadable:
        link = absence_reason(pci.unreadable["link"], None)
    facts = [
        Fact("Device", pci_name(pci)),
        Fact("Address", f"{pci.address} · {_ids(pci)}"),
        Fact("PCI driver", driver, tone),
        Fact("PCIe", link, link_tone),
    ]
    if pci.parent_link is not None:
        facts.append(Fact("PCIe slot", f"{pcie_text(pci.parent_link)[0]} at {pci.parent or 'the root bus'}"))
    facts += _error_facts(pci)
    if pci.aspm:
        facts.append(Fact("ASPM", aspm_text(pci.aspm)))
    facts.append(Fact("NUMA node", _number(pci, "numa_node", "not reported by firmware")))
    facts.append(Fact("IOMMU group", _number(pci, "iommu_group", "none (IOMMU off)")))
    if pci.sriov is not None:
        probing = "" if pci.sriov.autoprobe is None else f" · sriov_drivers_autoprobe {on_off(pci.sriov.autoprobe)}"
        facts.append(Fact("SR-IOV", f"{pci.sriov.num_vfs} of {pci.sriov.total_vfs} VFs{probing}"))
    elif "sriov" in pci.unreadable:
        facts.append(Fact("SR-IOV", absence_reason(pci.unreadable["sriov"], pci.driver), "dim"))
    elif pci.physical_function is not None:
        number = "?" if pci.virtual_function is None else pci.virtual_function
        facts.append(Fact("SR-IOV", f"VF {number} of {pci.physical_function}"))
    else:
        facts.append(Fact("SR-IOV", "not supported", "dim"))
    facts += _reset_facts(pci)
    if pci.rdma_devices:
        facts.append(Fact("RDMA", ", ".join(pci.rdma_devices)))
    shown = {"link", "sriov", "numa_node", "iommu_group"}
    facts += [
        Fact("Not readable", f"{name}: {absence_reason(why, pci.driver)}", "dim")
        for name, why in pci.unreadable.items()
        if name not in shown
    ]
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
    return [Fact("PCIe errors", " · ".join(parts), "warn" if has_uncorrected else "normal")]


def _reset_facts(pci: PciFunction) -> list[Fact]:
    """Reset methods of a function that can have VFs, or is reserved for a VM or user-space driver."""
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


def _number(pci: PciFunction, field: str, none: str) -> str:
    value = getattr(pci, field)
    if value is not None:
        return str(value)
    return absence_reason(pci.unreadable[field], pci.driver) if field in pci.unreadable else none


def _vf_section(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Attributes and counters of a VF as reported by its physical function."""
    facts = []
    if row.pci is None:
        facts.append(Fact("Function", "not on this host's PCI bus", "dim"))
    elif row.pci.driver in PASSTHROUGH_DRIVERS:
        facts.append(Fact("Function", f"reserved for a VM or user-space driver ({row.pci.driver})"))
    if row.vf is None:
        why = f"not reported by {row.uplink.name}" if row.uplink is not None else "the PF has no netdev"
        return section("Virtual function", [*facts, Fact("Attributes", why, "dim")])
    if row.vf.machine is not None:
        facts.append(Fact("Assigned to", f"VM {row.vf.machine}"))
    facts += [Fact("Attributes", vf_text(row.vf)), Fact("TX rate", vf_rate_text(row.vf))]
    if row.vf.rss_query is not None:
        facts.append(Fact("RSS query", on_off(row.vf.rss_query)))
    return section("Virtual function", [*facts, *_vf_counters(row, snapshot)])


def _vf_counters(row: Row, snapshot: Snapshot) -> list[Fact]:
    if row.vf is None or row.uplink is None:
        return []
    functions = snapshot.counters.vfs.get(row.uplink.ifindex, {}) if snapshot.counters is not None else {}
    numbers = functions.get(row.vf.number, row.vf.counters)
    if numbers is None:
        why = f"not supported by the driver of {row.uplink.name}"
        if snapshot.inventory is not None and is_esxi(snapshot.inventory.platform):
            why = "not read: no VM has it" if row.vf.machine is None else "not read"
        return [Fact("Counters", why, "dim")]
    total = dict(zip(VF_COUNTERS, numbers, strict=False))
    rates = snapshot.rates.vfs.get(row.uplink.ifindex, {}).get(row.vf.number) if snapshot.rates is not None else None
    facts = []
    for label, side in (("RX", "rx"), ("TX", "tx")):
        bits = getattr(rates, f"{side}_bits") if rates is not None else None
        packets = getattr(rates, f"{side}_packets") if rates is not None else None
        moved = f"total {units.bytes_(total.get(f'{side}_bytes'))}, {units.count(total.get(f'{side}_packets'))} packets"
        facts.append(Fact(label, f"{units.bits_per_second(bits)} · {units.packets_per_second(packets)} · {moved}"))
    drops = [f"{name} {units.count(total[name])}" for name in ("rx_dropped", "tx_dropped") if total.get(name)]
    return [*facts, Fact("Errors", ", ".join(drops), "warn")] if drops else facts
