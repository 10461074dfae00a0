"""State files of systemd-networkd: real ones, missing ones, and arbitrary text."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.managers.networkd import (
    parse_lease_mtu,
    parse_networkd_link,
    read_networkd,
)
from nictop.probe.records import NetworkdLink

STATE = """# This is private data. Do not parse.
ADMIN_STATE=configured
OPER_STATE=routable
CARRIER_STATE=carrier
NETWORK_FILE=/run/systemd/network/10-netplan-ens3.network
DNS=192.0.2.53
"""
CONFIGURED = NetworkdLink("configured", "routable", "/run/systemd/network/10-netplan-ens3.network")


def test_a_link() -> None:
    assert parse_networkd_link(STATE) == CONFIGURED
    assert parse_networkd_link("ADMIN_STATE=unmanaged\nOPER_STATE=\n") == NetworkdLink("unmanaged")
    assert parse_networkd_link("OPER_STATE=off\n") is None


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    found = parse_networkd_link(text)
    assert found is None or found.setup_state


def test_mtu_of_a_lease(tmp_path: Path) -> None:
    """sd-dhcp-lease.c: dhcp_lease_save."""
    lease = (
        "# This is private data. Do not parse.\nADDRESS=10.128.0.2\nROUTER=10.128.0.1\nMTU=1460\n"
    )
    assert parse_lease_mtu(lease) == 1460
    assert parse_lease_mtu("ADDRESS=10.128.0.2\n") is None
    assert parse_lease_mtu("MTU=67\n") is None and parse_lease_mtu("MTU=65536") is None
    for name, text in (("links", STATE), ("leases", lease)):
        (tmp_path / "systemd/netif" / name).mkdir(parents=True)
        (tmp_path / "systemd/netif" / name / "2").write_text(text)
    found, _ = read_networkd(str(tmp_path))
    assert found[2].dhcp_mtu == 1460


@given(st.text())
def test_any_text_is_a_lease(text: str) -> None:
    for content in (text, f"MTU={text}"):
        found = parse_lease_mtu(content)
        assert found is None or 68 <= found <= 65535


def test_the_directory(tmp_path: Path) -> None:
    assert read_networkd(str(tmp_path)) == ({}, None)
    links = tmp_path / "systemd/netif/links"
    links.mkdir(parents=True)
    for name, text in (
        ("10", STATE),
        ("2", "ADMIN_STATE=pending\n"),
        ("#2abc", STATE),
        ("-1", STATE),
        ("3", ""),
    ):
        (links / name).write_text(text)
    found, trouble = read_networkd(str(tmp_path))
    assert (list(found.items()), trouble) == (
        [(2, NetworkdLink("pending")), (10, CONFIGURED)],
        None,
    )
    (links / "4").mkdir()
    found, trouble = read_networkd(str(tmp_path))
    assert set(found) == {2, 10} and trouble is not None and trouble.detail.endswith("EISDIR")
