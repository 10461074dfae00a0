"""What many modules ask about a link."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.links import (
    ethtool_driver,
    function_of,
    functions_by_address,
    is_into_namespace,
    link_at,
    ports_of,
    reported_speed,
)
from nictop.probe.records import Ethtool
from tests.model.hosts import BRIDGE, LINKS, PCI, PF, VETH

BY_IFINDEX = {link.ifindex: link for link in LINKS}


def test_a_link_is_found_by_its_number() -> None:
    assert link_at(PF.ifindex, BY_IFINDEX) is PF
    assert link_at(None, BY_IFINDEX) is None
    assert link_at(99, BY_IFINDEX) is None


def test_ports_are_those_whose_master_it_is() -> None:
    ports = [replace(PF, ifindex=number, master=BRIDGE.ifindex) for number in (31, 32)]
    links = {link.ifindex: link for link in (BRIDGE, *ports, VETH)}
    assert ports_of(BRIDGE, {**links, VETH.ifindex: replace(VETH, master=None)}) == ports


def test_only_a_veth_leads_into_another_namespace() -> None:
    assert is_into_namespace(replace(VETH, lower_namespace=0))
    assert not is_into_namespace(replace(VETH, lower_namespace=None))
    assert not is_into_namespace(replace(PF, lower_namespace=0))


def test_the_function_of_a_link_is_found_by_its_address() -> None:
    functions = functions_by_address(PCI)
    assert len(functions) == len(PCI)
    found = function_of(PF, functions)
    assert found is not None and found.address == PF.pci_address
    assert function_of(replace(PF, pci_address=None), functions) is None
    assert function_of(PF, {}) is None


def test_what_ethtool_does_not_report_is_none() -> None:
    assert ethtool_driver(PF) is not None and reported_speed(PF) is not None
    unread = replace(PF, ethtool=Ethtool())
    assert ethtool_driver(unread) is None
    assert reported_speed(unread) is None
