"""``python -m tests.new_rule FAMILY NAME``: the skeleton of a rule and of its tests.

It writes what every rule has: a module with the function, its place in the order of findings, a
case that fires, a healthy twin, and a case whose commands are run in a network namespace. Each part
that is to be filled in says TODO; everything else is as the checks of the project want it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from nictop.rules import FAMILIES, RULES

TOP = Path(__file__).parent.parent
RULE_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
ORDER = "nictop/rules/order.py"
TYPED = "tests/rules/test_typed_fixes.py"

MODULE = '''"""TODO: what the rules of this module are about.

Reads nothing.
"""

from __future__ import annotations

from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import with_undo
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding


@host_rule("warning")
def <NAME>(host: HostFacts) -> Outcomes:
    """TODO: what is wrong, in one sentence.

    TODO: what nictop reads, and from which value on it reports it.

    Not reported: TODO: what looks alike and is right.

    Source: TODO: file of the kernel, manual page or public report.
    """
    for link in host.links:
        if not _is_wrong(link):
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "TODO: title, shown after the name of the link",
            evidence=(Evidence("TODO: what", "TODO: value", f"ip link show dev {link.name}"),),
            why="TODO: what it costs the user.",
            fixes=(_fix(link),),
        )


def _is_wrong(link: Link) -> bool:
    return link.name == "TODO: condition"


def _fix(link: Link) -> Fix:
    words = ("ip", "link", "set", "dev", link.name, "TODO: setting")
    change, undo = with_undo(words, "TODO: new value", "TODO: old value")
    return Fix("here", "TODO: what the command does", (change,), persistent=False, undo=(undo,))
'''

TYPED_CASE = """    Case(
        "<NAME>",
        "v1",
        (Host(f"{PAIR}; TODO: shell commands that make it wrong"),),
    ),
"""

NEXT_STEPS = """Fill in every TODO in them, then:

    make check
    python -m pytest tests/rules/test_rule_cases.py tests/rules/test_typed_fixes.py -k "<NAME>"
    NICTOP_DRAW_SCREENSHOTS=1 python -m pytest tests/test_documentation.py    # docs/findings.md

Its step in <ORDER> is that of the module before it: change it if the rule is about another layer.
Add the rule to CHANGELOG.md. If its commands cannot be run in a network namespace, or it has none,
remove its case from <TYPED>; rules with commands are then listed in NOT_TYPED there, with the reason."""


def cases(name: str) -> dict[str, Any]:
    """The content of a case file: see tests/rules/test_rule_cases.py."""

    def host(value: str) -> dict[str, Any]:
        return {"base": "spare-nic", "links": {"eno1": {"TODO: field of Link": value}}}

    finding = {
        "rule": name,
        "subject": "eno1",
        "severity": "warning",
        "commands": ["TODO: the command as it is typed"],
        "undo": ["TODO: what undoes it"],
    }
    fires = {
        "case": "TODO: what is wrong",
        "hosts": [host("TODO: wrong value")],
        "findings": [finding],
    }
    silent = {
        "case": "TODO: why it is healthy",
        "hosts": [host("TODO: right value")],
        "findings": [],
    }
    return {"fires": [fires], "silent": [silent]}


def with_module(order: str, family: str, name: str) -> str:
    """The text of `ORDER` with one more module, behind the last one of its family, and with the
    step of that one."""
    place = order.rindex(f'    "{family}.', 0, order.index("}\n"))
    end = order.index("\n", place) + 1
    step = order[place:end].partition(": ")[2]
    return f'{order[:end]}    "{family}.{name}": {step}{order[end:]}'


def with_typed_case(tests: str, name: str) -> str:
    """The text of `TYPED` with one more case, as the first."""
    start = "\nCASES = (\n"
    return tests.replace(start, start + TYPED_CASE.replace("<NAME>", name), 1)


def write(top: Path, family: str, name: str) -> list[str]:
    """Write the skeleton into a source tree; paths of the files, relative to `top`."""
    module = f"nictop/rules/{family}/{name}.py"
    case_file = f"tests/data/rules/{family}/{name}.json"
    order, tests = (top / ORDER).read_text(), (top / TYPED).read_text()
    texts = {
        module: MODULE.replace("<NAME>", name),
        ORDER: with_module(order, family, name),
        case_file: json.dumps(cases(name), indent=2) + "\n",
        TYPED: with_typed_case(tests, name),
    }
    for path, text in texts.items():
        (top / path).write_text(text)
    return list(texts)


def why_not(family: str, name: str) -> str:
    """Why there can be no such rule; "": there can."""
    if family not in FAMILIES:
        return f"no family {family!r}: one of {', '.join(FAMILIES)}"
    if RULE_NAME.fullmatch(name) is None:
        return f"{name!r} is not the name of a rule: the problem in lower case, as link_is_down"
    if name in RULES:
        return f"there is a rule {name} in {RULES[name].module}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.new_rule", description=__doc__)
    parser.add_argument("family", metavar="FAMILY", help=f"folder: {', '.join(FAMILIES)}")
    parser.add_argument("name", metavar="NAME", help="the problem that the rule finds")
    options = parser.parse_args()
    problem = why_not(options.family, options.name)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    for path in write(TOP, options.family, options.name):
        print(path)
    print()
    print(
        NEXT_STEPS.replace("<NAME>", options.name)
        .replace("<TYPED>", TYPED)
        .replace("<ORDER>", ORDER)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
