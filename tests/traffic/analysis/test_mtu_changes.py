"""The MTU of a chosen NIC changes during a run, as by the undo of a change: the result says so."""

from __future__ import annotations

import pytest

from nictop.probe.records import LinkChange
from nictop.traffic.analysis.mtu_changes import (
    MtuChange,
    mtu_changes,
    mtu_note,
    mtu_text,
    with_mtu_texts,
)
from nictop.traffic.analysis.nic_incidents import ChosenNic

BEGIN = 1000.0


def change(second: float, mtu: int, *, ifindex: int = 4, gone: bool = False) -> LinkChange:
    return LinkChange(BEGIN + second, ifindex, gone, "ens4", "up", True, 0x1043, mtu)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ((), []),
        ((change(3.0, 9000),), []),
        ((change(5.0, 1500),), [MtuChange(9000, 1500, 5.0)]),
        ((change(5.0, 1500), change(6.0, 1500)), [MtuChange(9000, 1500, 5.0)]),
        (
            (change(5.0, 1500), change(7.0, 9000)),
            [MtuChange(9000, 1500, 5.0), MtuChange(1500, 9000, 7.0)],
        ),
        ((change(-1.0, 1500), change(4.0, 9000)), [MtuChange(1500, 9000, 4.0)]),
        ((change(11.0, 1500),), []),
        ((change(5.0, 1500, ifindex=5),), []),
        ((change(5.0, 0, gone=True),), []),
    ],
)
def test_changes_of_the_chosen_nic_in_the_run(
    changes: tuple[LinkChange, ...], found: list[MtuChange]
) -> None:
    nic = ChosenNic(4, "ens4", BEGIN, changes)
    assert mtu_changes(nic, 9000, 10.0) == found


def test_what_the_result_says() -> None:
    once = [MtuChange(9000, 1500, 5.2)]
    twice = [*once, MtuChange(1500, 9000, 7.0)]
    assert mtu_note("vm1", "ens4", once) == (
        "vm1 ens4: MTU 9000, 1500 from second 5: the result is of both"
    )
    assert mtu_note("vm1", "ens4", twice).endswith(
        "9000 from second 7: the result is of all of them"
    )
    facts = with_mtu_texts({"client mtu": "1500", "server mtu": "9000"}, {"client": mtu_text(once)})
    assert facts["client mtu"] == facts["mtu"] == "9000, 1500 from second 5"
    assert facts["server mtu"] == "9000"
