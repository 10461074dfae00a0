"""What is wrong and what to type: pure functions of snapshots, one family per file.

`diagnose` asks all of them. A new rule is one function here and one case file under ``tests/data/rules``.
"""

from __future__ import annotations

from nictop.model.window import WINDOW
from nictop.rules import activation as activation
from nictop.rules import addressing as addressing
from nictop.rules import duplicate_addresses as duplicate_addresses
from nictop.rules import generated_profiles as generated_profiles
from nictop.rules import hyperv as hyperv
from nictop.rules import interrupts as interrupts
from nictop.rules import link_flags as link_flags
from nictop.rules import links_without_profile as links_without_profile
from nictop.rules import messages as messages
from nictop.rules import mtu as mtu
from nictop.rules import offloads as offloads
from nictop.rules import old_names as old_names
from nictop.rules import passthrough as _passthrough
from nictop.rules import path as path
from nictop.rules import pci as _pci
from nictop.rules import pcie as _pcie
from nictop.rules import prefix_lengths as prefix_lengths
from nictop.rules import processors as processors
from nictop.rules import profile_bindings as profile_bindings
from nictop.rules import reverse_paths as reverse_paths
from nictop.rules import shared_subnets as shared_subnets
from nictop.rules import softirqs as softirqs
from nictop.rules import sriov as _sriov
from nictop.rules import steering as steering
from nictop.rules import stopped_managers as stopped_managers
from nictop.rules import traffic_control as traffic_control
from nictop.rules import virtio as virtio
from nictop.rules import virtual_function_addresses as _virtual_function_addresses
from nictop.rules import virtual_function_carrier as _virtual_function_carrier
from nictop.rules import virtual_function_complaints as _virtual_function_complaints
from nictop.rules import virtual_function_load as _virtual_function_load
from nictop.rules import virtual_function_pairs as _virtual_function_pairs
from nictop.rules import virtual_functions as _virtual_functions
from nictop.rules import vmxnet3 as vmxnet3
from nictop.rules import wire as wire
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.registry import FAMILIES, RULES, Diagnosis, Rule, diagnose, diagnosis_steps
from nictop.rules.watched import Watched

__all__ = [
    "FAMILIES",
    "RULES",
    "SEVERITIES",
    "WINDOW",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Fix",
    "Rule",
    "Severity",
    "Skipped",
    "Watched",
    "diagnose",
    "diagnosis_steps",
]
