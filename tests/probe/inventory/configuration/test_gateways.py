"""Gateways of default routes in configuration files."""

from __future__ import annotations

import pytest

from nictop.probe.inventory.configuration.ifupdown import parse_interfaces
from nictop.probe.inventory.configuration.netplan import parse_netplan
from nictop.probe.inventory.configuration.networkd import parse_network

MATCH = "[Match]\nName=eth0\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iface eth0 inet static\n  address 192.0.2.5/24\n  gateway 192.0.2.1\n", ("192.0.2.1",)),
        ("iface eth0 inet6 static\n\tgateway 2001:db8::1 # out\n", ("2001:db8::1",)),
        ("iface eth0 inet static\n  gateway\n  gateway $GW\n", ()),
        ("gateway 192.0.2.1\niface eth0 inet dhcp\n", ()),
    ],
)
def test_ifupdown(text: str, expected: tuple[str, ...]) -> None:
    (entry,), _ = parse_interfaces(text, "interfaces")
    assert entry.gateways == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Network]\nGateway=192.0.2.1\nGateway=2001:db8::1\n", ("192.0.2.1", "2001:db8::1")),
        ("[Network]\nGateway=192.0.2.1\nGateway=\n", ()),
        (
            "[Route]\nGateway=192.0.2.1\n[Route]\nGateway=192.0.2.2\nDestination=10.0.0.0/8\n",
            ("192.0.2.1",),
        ),
        ("[Route]\nDestination=0.0.0.0/0\nGateway=192.0.2.1\nTable=77\n", ()),
        ("[Route]\nGateway=_dhcp4\n[Network]\nGateway=_ipv6ra\n", ()),
    ],
)
def test_networkd(text: str, expected: tuple[str, ...]) -> None:
    entry = parse_network([MATCH + text], "eth0.network")
    assert entry is not None and entry.gateways == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("gateway4: 192.0.2.1", ("192.0.2.1",)),
        ("routes: [{to: default, via: 192.0.2.1}]", ("192.0.2.1",)),
        ("routes: [{to: 10.0.0.0/8, via: 192.0.2.1}, {to: '::/0', via: 'fe80::1'}]", ("fe80::1",)),
        ("routes: [{to: default, via: 192.0.2.1, table: 77}]", ()),
        ("routes: default", ()),
    ],
)
def test_netplan(lines: str, expected: tuple[str, ...]) -> None:
    (entry,) = parse_netplan(f"network: {{ethernets: {{eth0: {{{lines}}}}}}}", "01.yaml")
    assert entry.gateways == expected
