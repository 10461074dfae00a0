"""Texts for values, and for the reasons of their absence, shared by the screens and the report.

`text.terminal` sanitizes strings of a host; `text.words`, `hardware` and `ethtool_settings` format
single facts; `facts` collects everything known of one link.
"""

from nictop.model.facts.hardware import pci_name, pcie_text, vf_text
from nictop.model.facts.sections import SUMMARY, Fact, Section
from nictop.model.text.terminal import clean, fit, width, wrap
from nictop.model.text.words import (
    Tone,
    absence_reason,
    driver_name,
    hypervisor_text,
    is_virtual,
    platform_text,
    state_mark,
    state_text,
    value_or_reason,
)

__all__ = [
    "SUMMARY",
    "Fact",
    "Section",
    "Tone",
    "absence_reason",
    "clean",
    "driver_name",
    "fit",
    "hypervisor_text",
    "is_virtual",
    "pci_name",
    "pcie_text",
    "platform_text",
    "state_mark",
    "state_text",
    "value_or_reason",
    "vf_text",
    "width",
    "wrap",
]
