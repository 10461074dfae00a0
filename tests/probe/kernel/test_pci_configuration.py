"""A root probe that has given up CAP_SYS_ADMIN reads extended capabilities as before."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from nictop.probe.inventory.pci.functions import PCI_EXT_CAP_ID_SRIOV, read_sriov_capable
from nictop.probe.kernel import pci_configuration

WHOLE = bytes(256) + struct.pack("<I", PCI_EXT_CAP_ID_SRIOV | 1 << 16) + bytes(4096 - 260)
FOR_USERS = bytes(64)
"""What the kernel returns without CAP_SYS_ADMIN."""


@pytest.fixture
def nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pci_configuration, "_kept", {})
    return function(tmp_path, "0000:02:00.0", "0x020000")


def function(sys: Path, address: str, class_code: str) -> Path:
    path = sys / "bus/pci/devices" / address
    path.mkdir(parents=True)
    (path / "class").write_text(f"{class_code}\n")
    (path / "config").write_bytes(WHOLE)
    return path


def lose_right(path: Path) -> None:
    """The same path as seen without the capability; an open descriptor shows what it showed."""
    other = path / "other"
    other.write_bytes(FOR_USERS)
    other.replace(path / "config")


def test_a_configuration_that_was_opened_before_is_read_as_before(
    tmp_path: Path, nic: Path
) -> None:
    pci_configuration.keep_configurations(str(tmp_path))
    lose_right(nic)
    assert read_sriov_capable(str(nic)) is True
    assert read_sriov_capable(str(nic)) is True, (
        "the descriptor is still there for the next inventory"
    )


def test_a_nic_that_was_added_later_is_not_known(tmp_path: Path, nic: Path) -> None:
    pci_configuration.keep_configurations(str(tmp_path))
    later = function(tmp_path, "0000:03:00.0", "0x020000")
    lose_right(later)
    assert read_sriov_capable(str(later)) is None


def test_only_what_is_needed_is_opened(tmp_path: Path, nic: Path) -> None:
    function(tmp_path, "0000:00:01.0", "0x060400")
    (function(tmp_path, "0000:04:00.0", "0x020000") / "sriov_totalvfs").write_text("7\n")
    (function(tmp_path, "0000:05:00.0", "0x020000") / "physfn").symlink_to("../0000:04:00.0")
    infiniband = function(tmp_path, "0000:06:00.0", "0x0c0600")
    pci_configuration.keep_configurations(str(tmp_path))
    assert set(pci_configuration._kept) == {str(nic / "config"), str(infiniband / "config")}


def test_a_descriptor_of_a_nic_that_is_gone_is_not_used(tmp_path: Path, nic: Path) -> None:
    """Its read fails (ENODEV), and another one may have its address."""
    pci_configuration.keep_configurations(str(tmp_path))
    (descriptor,) = pci_configuration._kept.values()
    with open(tmp_path / "write-only", "wb") as file:
        os.dup2(file.fileno(), descriptor)  # reading it fails
    assert read_sriov_capable(str(nic)) is True and not pci_configuration._kept


def test_a_host_without_pci(tmp_path: Path, nic: Path) -> None:
    pci_configuration.keep_configurations(str(tmp_path / "none"))
    assert pci_configuration._kept == {}
