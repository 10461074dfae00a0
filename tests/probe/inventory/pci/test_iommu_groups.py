"""IOMMU groups: a captured guest against lspci, members that are no network functions, removed
groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nictop.probe.inventory.pci.functions import read_pci
from nictop.probe.inventory.pci.iommu_groups import read_iommu
from nictop.probe.records import IommuGroup, PciFunction


def function(address: str, group: int | None, driver: str | None = "ixgbe") -> PciFunction:
    return PciFunction(
        address, 0x020000, 0x8086, 0x10FB, None, None, None, driver=driver, iommu_group=group
    )


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Group 7: a bridge with its driver, a network function, a device without driver and one that
    is not on PCI."""
    folder = tmp_path / "kernel/iommu_groups/7"
    for name, content in (
        ("0000:00:01.0", "0x060400"),
        ("0000:01:00.1", "0x030000"),
        ("acpi:00", None),
    ):
        device = folder / "devices" / name
        device.mkdir(parents=True)
        if content:
            (device / "class").write_text(content + "\n")
    (folder / "devices/0000:00:01.0/driver").symlink_to("../../drivers/pcieport")
    (folder / "devices/0000:01:00.0").mkdir()
    (folder / "type").write_text("DMA-FQ\n")
    return folder


def test_all_members_of_the_group_of_a_network_function(group: Path) -> None:
    functions = [function("0000:01:00.0", 7, "vfio-pci"), function("0000:09:00.0", None)]
    assert read_iommu(functions, str(group.parents[2])) == (
        (
            IommuGroup(
                7,
                (
                    ("0000:00:01.0", 0x060400, "pcieport"),
                    ("0000:01:00.0", 0x020000, "vfio-pci"),
                    ("0000:01:00.1", 0x030000, None),
                ),
                "DMA-FQ",
            ),
        ),
        None,
    )


def test_a_removed_group_and_a_malformed_member(group: Path) -> None:
    functions = [function("0000:01:00.0", 7), function("0000:02:00.0", 9)]
    (group / "devices/0000:01:00.1/class").write_text("elephant")
    (group / "type").unlink()
    found, trouble = read_iommu(functions, str(group.parents[2]))
    assert [(one.number, len(one.members), one.type) for one in found] == [
        (7, 2, None),
        (9, 0, None),
    ]
    assert trouble is not None
    assert trouble.reason == "malformed"
    assert trouble.detail.endswith("class: 'elephant'")


def test_nothing_is_read_without_an_iommu(tmp_path: Path) -> None:
    assert read_iommu([function("0000:01:00.0", None)], str(tmp_path)) == ((), None)


def test_groups_of_a_captured_guest(capture: Callable[[str], Path]) -> None:
    """lspci prints the group of each function; other members of the groups were not captured."""
    root = capture("guest")
    functions, _ = read_pci(str(root / "sys"), lambda wanted: {})
    found, trouble = read_iommu(functions, str(root / "sys"))
    assert trouble is None
    expected = {
        int(match[1])
        for block in (root / "cmd/lspci-Dvvv").read_text().split("\n\n")
        if "Ethernet controller" in block and (match := re.search(r"IOMMU group: (\d+)", block))
    }
    assert {group.number for group in found} == expected
    assert [group.number for group in found] == sorted(expected)
