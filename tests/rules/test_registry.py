"""The table of rules is filled when it is first asked for, whoever asks, and in one order."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nictop.rules import RULES
from nictop.rules.order import RULE_MODULES

FAMILY_MODULE = "nictop.rules.link.carrier"
LOOK = f"""
import json, sys
{{imports}}
early = {FAMILY_MODULE!r} in sys.modules
from nictop.rules import RULES
{{use}}
print(json.dumps([early, list(RULES)]))
"""


@pytest.mark.parametrize(
    "use",
    [
        "",
        "len(RULES)",
        "assert 'carrier_flaps' in RULES",
        "next(RULES.load())",  # while it is being filled
        "import nictop.rules.link.carrier",
        "import nictop.rules.all",
    ],
)
def test_the_order_is_that_of_the_modules(use: str) -> None:
    code = LOOK.format(imports="import nictop.tui.screens.live.screen", use=use)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    early, names = json.loads(done.stdout)
    assert not early, "a screen is drawn before the rules are imported"
    assert names == list(RULES)


def test_every_module_has_its_place() -> None:
    places = list(RULE_MODULES)
    modules = [rule.module for rule in RULES.values()]
    assert modules == sorted(modules, key=places.index)
    assert set(modules) == set(places)
