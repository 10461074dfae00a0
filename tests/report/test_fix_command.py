"""The text of ``nictop check`` has the command that applies a fix, with all that it needs."""

from __future__ import annotations

from nictop.report.findings.fix_command import fix_command
from nictop.rules.finding import Finding, Fix
from nictop.rules.fixes.commands import command

MTU = Fix("here", "Set MTU", (command("ip", "link", "set", "ens4", "mtu", "9000"),))
BY_HAND = Fix("here", "Pull the cable", ())
COMPARING, ALONE = "mtu_differs_in_one_subnet", "configured_link_is_down"


def finding(rule: str = ALONE, *fixes: Fix, subject: str = "ens4", item: str = "") -> Finding:
    return Finding(rule, "warning", "vm1", subject, "t", (), "why", fixes or (MTU,), item=item)


def told(one: Finding, *others: Finding) -> str:
    return str(fix_command(one, (one, *others), ("vm1", "vm2", "vm3")))


def test_it_has_what_the_fix_needs() -> None:
    assert told(finding()) == f"nictop fix vm1 {ALONE} ens4 --allow-changes"
    assert told(finding(COMPARING)) == (
        f"nictop fix vm1 {COMPARING} ens4 --with vm2 --with vm3 --allow-changes"
    )
    assert told(finding(subject="")) == f"nictop fix vm1 {ALONE} --allow-changes"
    filled = Fix("here", "Add", (command("ip", "address", "add", "<ADDRESS/PREFIX>", "dev", "a"),))
    assert "--fill ADDRESS/PREFIX=VALUE --allow-changes" in told(finding(ALONE, filled))


def test_several_findings_of_one_interface_are_told_apart_by_their_items() -> None:
    one, other = finding(item="192.0.2.1"), finding(item="192.0.2.2")
    assert told(one, other) == f"nictop fix vm1 {ALONE} 192.0.2.1 --allow-changes"


def test_without_a_fix_that_nictop_can_carry_out_there_is_none() -> None:
    assert fix_command(finding(ALONE, BY_HAND), (), ("vm1",)) is None
