"""State files of systemd-networkd: real ones, missing ones, and arbitrary text."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.managers.networkd import parse_networkd_link, read_networkd
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


def test_the_directory(tmp_path: Path) -> None:
    assert read_networkd(str(tmp_path)) == ({}, None)
    links = tmp_path / "systemd/netif/links"
    links.mkdir(parents=True)
    for name, text in (("10", STATE), ("2", "ADMIN_STATE=pending\n"), ("#2abc", STATE), ("-1", STATE), ("3", "")):
        (links / name).write_text(text)
    found, trouble = read_networkd(str(tmp_path))
    assert (list(found.items()), trouble) == ([(2, NetworkdLink("pending")), (10, CONFIGURED)], None)
    (links / "4").mkdir()
    found, trouble = read_networkd(str(tmp_path))
    assert set(found) == {2, 10} and trouble is not None and trouble.detail.endswith("EISDIR")
