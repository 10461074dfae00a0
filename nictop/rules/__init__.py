"""What is wrong and what to type: pure functions of snapshots, one family per file.

`diagnose` asks all of them. A new rule is one function here and one case file under ``tests/data/rules``.
"""

from __future__ import annotations

# in the order in which findings of one severity are listed
# ruff: isort: off
import nictop.rules.profiles.activation
import nictop.rules.profiles.addressing
import nictop.rules.profiles.duplicate_addresses
import nictop.rules.profiles.generated
import nictop.rules.paravirtual.hyperv
import nictop.rules.paravirtual.netvsc_receive
import nictop.rules.paravirtual.ena
import nictop.rules.cpu.interrupts
import nictop.rules.bridge.forward_filters
import nictop.rules.bridge.guest_vlans
import nictop.rules.bridge.topology
import nictop.rules.bridge.uplinks
import nictop.rules.bridge.connected_pvids
import nictop.rules.link.flags
import nictop.rules.profiles.missing
import nictop.rules.bond.port_links
import nictop.rules.bond.lacp
import nictop.rules.bond.ports
import nictop.rules.pci.detached
import nictop.rules.pci.starting
import nictop.rules.pci.faults
import nictop.rules.link.transmit_hang
import nictop.rules.link.resets
import nictop.rules.pci.pcie_errors
import nictop.rules.pci.msix
import nictop.rules.link.power_saving
import nictop.rules.link.kernel_log
import nictop.rules.link.connection_tracking
import nictop.rules.link.mtu
import nictop.rules.link.offloads
import nictop.rules.profiles.old_names
import nictop.rules.profiles.renaming
import nictop.rules.profiles.naming_files
import nictop.rules.profiles.zones
import nictop.rules.pci.passthrough
import nictop.rules.link.carrier
import nictop.rules.pci.drivers
import nictop.rules.pci.health
import nictop.rules.pci.pcie
import nictop.rules.profiles.prefix_lengths
import nictop.rules.cpu.processors
import nictop.rules.cpu.shared_processors
import nictop.rules.profiles.bindings
import nictop.rules.profiles.applied
import nictop.rules.profiles.netplan_files
import nictop.rules.link.rp_filter
import nictop.rules.link.shared_subnets
import nictop.rules.cpu.softirqs
import nictop.rules.pci.sriov
import nictop.rules.cpu.steering
import nictop.rules.profiles.stopped_managers
import nictop.rules.profiles.vanished
import nictop.rules.link.traffic_control
import nictop.rules.link.received_limits
import nictop.rules.link.taps
import nictop.rules.link.tunnels
import nictop.rules.link.guest_mtu
import nictop.rules.link.way_out_mtu
import nictop.rules.link.transmit_queue
import nictop.rules.paravirtual.virtio
import nictop.rules.vf.addresses
import nictop.rules.vf.carrier
import nictop.rules.vf.driver_messages
import nictop.rules.vf.life
import nictop.rules.vf.multicast
import nictop.rules.vf.load
import nictop.rules.vf.pairs
import nictop.rules.vf.port_functions
import nictop.rules.vf.switch
import nictop.rules.vf.virtual_switch
import nictop.rules.paravirtual.vmxnet3
import nictop.rules.link.physical
import nictop.rules.link.driver_losses
import nictop.rules.routing.refused
import nictop.rules.routing.other_nic
import nictop.rules.routing.neighbours
import nictop.rules.vf.ipv6
import nictop.rules.routing.gateways
import nictop.rules.routing.intended
import nictop.rules.routing.policy
import nictop.rules.routing.advertisements
import nictop.rules.link.switch_port

# ruff: isort: on
from nictop.model.window import RATES_WINDOW_SECONDS
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.host import HostFacts
from nictop.rules.registry import FAMILIES, RULES, Diagnosis, Rule, diagnose, diagnosis_steps

__all__ = [
    "FAMILIES",
    "RATES_WINDOW_SECONDS",
    "RULES",
    "SEVERITIES",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Fix",
    "HostFacts",
    "Rule",
    "Severity",
    "Skipped",
    "diagnose",
    "diagnosis_steps",
]
