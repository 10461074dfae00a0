"""What is wrong and what to type: pure functions of snapshots, one folder per family.

`diagnose` asks all of them; their modules are imported when `RULES` is first asked for one. A new
rule: ARCHITECTURE.md, "How to add a rule".
"""

from __future__ import annotations

from nictop.model.window import RATES_WINDOW_SECONDS
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.host import HostFacts
from nictop.rules.registry import (
    FAMILIES,
    RULES,
    Diagnosis,
    Rule,
    diagnose,
    diagnosis_steps,
)

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
