"""Why a NIC has its name: records of udev's database."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.model.facts.links import address_section
from nictop.model.snapshot import Snapshot
from nictop.probe.inventory.links.udev_names import with_udev_names
from tests.support.lines import link

RECORD = """\
I:4210987
E:ID_MM_CANDIDATE=1
E:ID_NET_NAMING_SCHEME=v252
E:ID_NET_NAME_MAC=enx525400123456
E:ID_NET_NAME_PATH=enp3s0
E:ID_NET_NAME_SLOT=ens3
E:ID_NET_DRIVER=virtio_net
E:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link
E:ID_NET_NAME=ens3
G:systemd
V:1
"""
DEFAULT = "/usr/lib/systemd/network/99-default.link"
OWN, OTHER = "52:54:00:12:34:56", "52:54:00:99:99:99"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "udev/data").mkdir(parents=True)
    (tmp_path / "udev/data/n2").write_text(RECORD)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "address", "bus", "expected"),
    [
        ("ens3", OWN, "pci", ("ID_NET_NAME_SLOT", DEFAULT)),
        ("enp3s0", OTHER, "pci", ("ID_NET_NAME_PATH", DEFAULT)),
        ("enx525400123456", OWN, "usb", ("ID_NET_NAME_MAC", DEFAULT)),
        ("eth0", OWN, "pci", ("", DEFAULT)),
        ("eth0", OTHER, "pci", ("", "")),
        ("ens3", OWN, None, ("", "")),
    ],
)
def test_the_property_that_has_the_name(
    run: Path, name: str, address: str, bus: str | None, expected: tuple[str, str]
) -> None:
    """A record with neither the name nor the MAC address is of another network namespace."""
    (found,) = with_udev_names((link(2, name, bus=bus, address=address),), str(run))
    assert (found.name_property, found.link_file) == expected


def test_without_a_record_nothing_is_known(run: Path, tmp_path: Path) -> None:
    nic = link(7, "ens3", bus="pci", address=OWN)
    assert with_udev_names((nic,), str(run)) == (nic,)
    assert with_udev_names((nic,), str(tmp_path / "nosuch")) == (nic,)


@pytest.mark.parametrize(
    "text", ["", "E:", "E:ID_NET_NAME", "\ufffd\n=\nE:=x", RECORD.replace("E:", "S:")]
)
def test_a_strange_record_says_nothing(run: Path, text: str) -> None:
    (run / "udev/data/n2").write_text(text)
    nic = link(2, "ens3", bus="pci", address=OWN)
    assert with_udev_names((nic,), str(run)) == (nic,)


def test_it_is_a_fact_of_the_nic() -> None:
    nic = link(2, "ens3", bus="pci", name_property="ID_NET_NAME_SLOT", link_file=DEFAULT)
    for one, text in ((nic, f"ID_NET_NAME_SLOT · {DEFAULT}"), (link(3, "eth0", bus="pci"), None)):
        (section,) = address_section(one, Snapshot.empty("vm1"))
        named = {fact.label: fact.text for fact in section.facts}
        assert named.get("Name by udev") == text
