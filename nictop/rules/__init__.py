"""What is wrong and what to type: pure functions of snapshots, one folder per family.

`diagnose` asks all of them. A new rule: ARCHITECTURE.md, "How to add a rule".
"""

from __future__ import annotations

from importlib import import_module

from nictop.model.window import RATES_WINDOW_SECONDS
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity, Skipped
from nictop.rules.host import HostFacts
from nictop.rules.order import RULE_MODULES
from nictop.rules.registry import (
    FAMILIES,
    RULES,
    Diagnosis,
    Rule,
    diagnose,
    diagnosis_steps,
    put_in_order,
)

for module in RULE_MODULES:
    import_module(f"nictop.rules.{module}")
put_in_order(RULES)

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
