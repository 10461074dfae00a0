"""Texts for values, and for the reasons of their absence, shared by the screens and the report.

`text.terminal` sanitizes strings of a host; `text.words`, `hardware` and `ethtool_settings` format single facts;
`facts` collects everything known of one link.
"""

from nictop.model.facts.hardware import pci_name, pcie_words, vf_text
from nictop.model.facts.sections import SUMMARY, Fact, Section
from nictop.model.text.terminal import clean, fit, width, wrap
from nictop.model.text.words import (
    Tone,
    driver_name,
    hypervisor_words,
    is_virtual,
    platform_words,
    reason,
    state_mark,
    state_words,
    value_or_reason,
)

__all__ = [
    "SUMMARY",
    "Fact",
    "Section",
    "Tone",
    "clean",
    "driver_name",
    "fit",
    "hypervisor_words",
    "is_virtual",
    "pci_name",
    "pcie_words",
    "platform_words",
    "reason",
    "state_mark",
    "state_words",
    "value_or_reason",
    "vf_text",
    "width",
    "wrap",
]
