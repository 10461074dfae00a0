"""Rules that reduce the MSS of forwarded TCP."""

from __future__ import annotations

import pytest

from nictop.model.devices.mss_clamping import reduces_mss
from nictop.probe.records import (
    FilterCondition,
    FilterRule,
    Inventory,
    PacketChain,
    PacketFilters,
    Unreadable,
)


def rule(**names: str) -> FilterRule:
    conditions = tuple(
        FilterCondition(what, (name.lstrip("!"),), name.startswith("!"))
        for what, name in names.items()
    )
    return FilterRule("", "TCPMSS", conditions)


def answer(*rules: FilterRule, backend: str = "nft", missing: str = "") -> bool | None:
    chain = PacketChain(backend, "ip", "mangle", "FORWARD", "forward", rules=rules)  # type: ignore[arg-type]
    unreadable = {missing: Unreadable("needs_root")} if missing else {}
    filters = PacketFilters((chain,) if rules else (), unreadable)
    inventory = Inventory(0.0, 0.0, 0.0, "start", None, (), (), filters=filters)  # type: ignore[arg-type]
    return reduces_mss(inventory, "eth0", "docker0")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, True),
        ({"out": "eth0"}, True),
        ({"out": "eth*", "in": "docker0"}, True),
        ({"out": "!docker0"}, True),
        ({"out": "wg0"}, False),
        ({"in": "br-*"}, False),
        ({"out": "!eth0"}, False),
    ],
)
def test_links_of_the_rule(conditions: dict[str, str], expected: bool) -> None:
    assert answer(rule(**conditions)) is expected


def test_what_is_not_known() -> None:
    """A rule that was read is known, whatever could not be read."""
    assert answer() is False
    assert answer(missing="nft") is None
    assert answer(rule(), missing="nft") is True
    assert answer(FilterRule("accept"), backend="iptables") is None, (
        "the table mangle of iptables-legacy is not read"
    )
    assert answer(FilterRule("accept", "TCPMSS")) is False
