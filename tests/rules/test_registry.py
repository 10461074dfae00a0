"""The table of rules is filled when it is first asked for, whoever asks, and in one order."""

from __future__ import annotations

import json
import subprocess
import sys

from nictop.rules import RULES
from nictop.rules.order import RULE_MODULES

LOOK = """
import json, sys
from nictop.rules import RULES
early = len([name for name in sys.modules if name.startswith("nictop.rules.link.")])
for _ in range(3):
    next(RULES.load())  # it was begun, and was not continued
import nictop.rules.link.carrier
print(json.dumps([early, list(RULES)]))
"""


def test_the_order_is_that_of_the_modules() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    early, names = json.loads(done.stdout)
    assert early == 0, "imported before a rule was asked for"
    assert names == list(RULES)


def test_every_module_has_its_place() -> None:
    places = list(RULE_MODULES)
    modules = [rule.module for rule in RULES.values()]
    assert modules == sorted(modules, key=places.index)
    assert set(modules) == set(places)
