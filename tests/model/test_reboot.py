"""Whether a host was started anew, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.reboot import NOTICE_SECONDS, Reboot, reboot_between
from nictop.probe.records import Hello
from tests.model.hosts import HELLO

KNOWN = replace(HELLO, boot_id="first", monotonic=5000.0, pid=7)


def hello(**changes: object) -> Hello:
    return replace(KNOWN, **({"boot_id": "second", "monotonic": 30.0} | changes))  # type: ignore[arg-type]


def test_a_reboot_is_that_of_another_boot_id() -> None:
    assert reboot_between(KNOWN, hello(), 100.0, 150.0) == Reboot(150.0, 120.0)


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (None, hello()),
        (KNOWN, hello(boot_id="first")),
        (KNOWN, hello(boot_id="")),
        (replace(KNOWN, boot_id=""), hello()),
        (KNOWN, hello(hostname="another")),
        (KNOWN, hello(pid=0)),  # an ESXi host has another one with each connection
    ],
    ids=["first", "same", "unknown", "was unknown", "other name", "esxi"],
)
def test_without_two_that_differ_none_is_known(known: Hello | None, new: Hello) -> None:
    assert reboot_between(known, new, 100.0, 150.0) is None


@pytest.mark.parametrize("uptime", [51.0, 1e9, -1.0])
def test_a_clock_that_does_not_count_from_this_boot_has_no_time_of_it(uptime: float) -> None:
    """It ran already when the boot before was still read, or it is that of a namespace."""
    assert reboot_between(KNOWN, hello(monotonic=uptime), 100.0, 150.0) == Reboot(150.0, None)


def test_it_is_said_with_its_time_for_a_while() -> None:
    found = Reboot(150.0, 120.0)
    assert found.text(155.0) == "rebooted 35 s ago"
    assert Reboot(150.0, None).text(155.0) == "has rebooted, noticed 5 s ago"
    assert found.is_new(155.0) and not found.is_new(150.0 + NOTICE_SECONDS)
