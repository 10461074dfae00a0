"""How values, and the reasons for their absence, are said: one wording for the screen and for the report.

`text` makes machine strings fit for a terminal; `words`, `hardware` and `settings` put facts into a few words; `facts`
lays out everything known of one link.
"""

from nictop.model.facts.hardware import pci_name, pcie_words, vf_words
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
    "vf_words",
    "width",
    "wrap",
]
