"""The command that applies a fix of a finding: ``nictop fix vm1 mtu_differs_in_one_subnet ens224
--with vm2 --allow-changes``.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.changes.actions import Actions, actions_of
from nictop.rules import RULES, Finding
from nictop.rules.fixes.commands import Command, command


def fix_command(
    finding: Finding, findings: Sequence[Finding], hosts: Sequence[str]
) -> Command | None:
    """None: nictop can carry out none of its fixes. `findings`: all of these hosts, `hosts`: their
    names."""
    applied = _first_actions(finding)
    subject = _subject(finding, findings)
    if applied is None or subject is None:
        return None
    words = ["fix", finding.host, finding.rule]
    if subject:
        words.append(subject)
    if RULES[finding.rule].compares_hosts:
        for other in hosts:
            words += [] if other == finding.host else ["--with", other]
    for blank in applied.blanks:
        words += ["--fill", f"{blank}=VALUE"]
    return command("nictop", *words, "--allow-changes")


def _first_actions(finding: Finding) -> Actions | None:
    """Of the fix that is applied without a number."""
    for fix in finding.fixes:
        found = actions_of(fix)
        if isinstance(found, Actions):
            return found
    return None


def _subject(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """The word that tells it from the others of its rule on its host; None: there is none."""
    alike = [one for one in findings if (one.host, one.rule) == (finding.host, finding.rule)]
    for word in (finding.subject, finding.item):
        if len([one for one in alike if word in (one.subject, one.item)]) == 1 and word:
            return word
    return "" if len(alike) == 1 else None
