"""Adding a rule: its place, its words, and the skeleton that ``python -m tests.new_rule`` writes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nictop.rules import FAMILIES, RULES
from nictop.rules.order import RULE_MODULES
from tests import new_rule
from tests.support.rule_cases import CASES_DIRECTORY

TOP = Path(__file__).parents[2]
RULES_FOLDER = TOP / "nictop" / "rules"
FAMILY, NAME = "link", "transmit_queue_holds_one_packet"
FILLED_IN = {
    'link.name == "TODO: condition"': "link.tx_queue_length == 1",
    "TODO: what the rules of this module are about.": "Links whose transmit queue is too short.",
    "TODO: what is wrong, in one sentence.": "The transmit queue of a link holds one packet.",
    "TODO: what nictop reads, and from which value on it reports it.": (
        "nictop reads txqueuelen of each link: 1 is reported, as the queueing discipline may take "
        "its\n    size from it."
    ),
    "TODO: what looks alike and is right.": "other lengths.",
    "TODO: file of the kernel, manual page or public report.": "ip-link(8) txqueuelen.",
    "TODO: title, shown after the name of the link": "txqueuelen 1",
    '"TODO: what", "TODO: value"': '"txqueuelen", "1"',
    "TODO: what it costs the user.": "Packets that are sent at the same time are dropped.",
    "TODO: setting": "txqueuelen",
    "TODO: new value": "1000",
    "TODO: old value": "1",
    "TODO: what the command does": "Set the default length",
    "TODO: shell commands that make it wrong": "ip link set dev v1 txqueuelen 1",
    "TODO: what is wrong": "one packet",
    "TODO: why it is healthy": "the default",
    "TODO: field of Link": "tx_queue_length",
    '"TODO: wrong value"': "1",
    '"TODO: right value"': "1000",
    "TODO: the command as it is typed": "ip link set dev eno1 txqueuelen 1000",
    "TODO: what undoes it": "ip link set dev eno1 txqueuelen 1",
}
"""Part of a skeleton → what the author of a rule writes there."""
IN_ANOTHER_ORDER = """
import importlib, sys, types
import nictop
package = types.ModuleType("nictop.rules")
package.__path__ = [sys.argv[1]]
sys.modules["nictop.rules"] = package
order = importlib.import_module("nictop.rules.order")
for module in reversed(order.RULE_MODULES):
    importlib.import_module("nictop.rules." + module)
imported = list(importlib.import_module("nictop.rules.registry").RULES._rules)
del sys.modules["nictop.rules"]
from nictop.rules import RULES
assert imported != list(RULES), "the modules were imported in another order"
print(*RULES)
"""


def test_findings_are_in_the_same_order_if_modules_are_imported_in_another() -> None:
    result = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_ORDER, str(RULES_FOLDER)],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == list(RULES)


def test_each_module_with_a_rule_is_in_the_order() -> None:
    """One that is not would never be imported, and its rules never evaluated."""
    found = set()
    for path in RULES_FOLDER.glob("*/*.py"):
        if re.search(r"^@(?:host|pair)_rule\(", path.read_text(), re.MULTILINE):
            found.add(f"{path.parent.name}.{path.stem}")
    assert found == set(RULE_MODULES)
    assert len(RULE_MODULES) == len(set(RULE_MODULES))


def test_folders_of_rules_and_of_their_cases_are_the_words_of_the_families() -> None:
    folders = {module.partition(".")[0] for module in RULE_MODULES}
    assert folders == set(FAMILIES)
    assert {path.name for path in CASES_DIRECTORY.iterdir()} == {*FAMILIES, "bases"}
    for folder, family in FAMILIES.items():
        assert folder in family.lower().replace("-", "").split()


@pytest.mark.parametrize("name", sorted(RULES))
def test_the_cases_of_a_rule_are_in_the_folder_of_its_family(name: str) -> None:
    folder = RULES[name].module.partition(".")[0]
    assert (CASES_DIRECTORY / folder / f"{name}.json").exists()


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [
        ("path", NAME, "no family 'path': one of profiles, "),
        (FAMILY, "Link-Is-Down", "is not the name of a rule"),
        (
            FAMILY,
            "mtu_differs_in_one_subnet",
            "there is a rule mtu_differs_in_one_subnet in link.mtu",
        ),
    ],
)
def test_a_rule_that_cannot_be_added_is_refused(family: str, name: str, words: str) -> None:
    assert words in new_rule.why_not(family, name)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the new rule, all parts of which are filled in."""
    top = tmp_path_factory.mktemp("copy")
    without = shutil.ignore_patterns("__pycache__", "recordings", "runs", "iperf3")
    for folder in ("nictop", "tests", "docs"):
        shutil.copytree(TOP / folder, top / folder, ignore=without)
    for file in [TOP / "pyproject.toml", *TOP.glob("*.md")]:
        shutil.copy(file, top)
    run(top, "tests.new_rule", FAMILY, NAME)
    for path in (RULES_FOLDER.relative_to(TOP), CASES_DIRECTORY.relative_to(TOP)):
        fill_in(next((top / path).glob(f"{FAMILY}/{NAME}.*")))
    fill_in(top / new_rule.TYPED)
    return top


def fill_in(path: Path) -> None:
    text = path.read_text()
    for todo, written in sorted(FILLED_IN.items(), key=lambda item: -len(item[0])):
        text = text.replace(todo, written)
    assert "TODO" not in text
    path.write_text(text)


def run(top: Path, *arguments: str) -> str:
    """The output of ``python -m`` in the copy."""
    environment = {**os.environ, "NICTOP_DRAW_SCREENSHOTS": "", "PYTEST_ADDOPTS": ""}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTHONPATH"):
        environment.pop(name, None)
    result = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=top,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_skeleton_passes_the_checks_of_the_project(copy: Path) -> None:
    module = f"nictop/rules/{FAMILY}/{NAME}.py"
    changed = (module, new_rule.ORDER, new_rule.TYPED)
    run(copy, "ruff", "check", "--no-cache", *changed)
    run(copy, "ruff", "format", "--no-cache", "--check", *changed)
    run(copy, "mypy", "--cache-dir", str(copy / "types"), module)


def test_the_skeleton_passes_the_tests_of_rules(copy: Path) -> None:
    """Its two cases, its explanation, and its commands in a namespace, where that is possible."""
    wanted = f"{NAME} or every_rule_with_commands or healthy_host"
    output = run(
        copy,
        "pytest",
        "-v",
        "tests/rules/test_rule_cases.py",
        "tests/rules/test_typed_fixes.py",
        "-k",
        wanted,
    )
    for test in (f"{NAME}-fires", f"{NAME}-silent", "healthy_host", "every_rule_with_commands"):
        assert re.search(f"{test}.* PASSED", output), output
    assert re.search(rf"after_its_commands\[{NAME}\] (PASSED|SKIPPED)", output), output
