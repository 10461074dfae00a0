"""A gateway that ceases to answer, and answers again, is noticed; entries are set by
ip-neighbour(8)."""

from __future__ import annotations

import dataclasses
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.events.gateways import GatewayWatch, gateways_of, parse_has_failed
from nictop.probe.inventory.collect import NOTHING_KNOWN
from nictop.probe.records import DefaultRoute, Inventory, Link, Neighbour, Routing
from tests.support.namespaces import Namespace

MAC = "02:00:00:00:00:01"


@pytest.mark.parametrize("address", ["192.0.2.254", "2001:db8::fe"])
def test_a_gateway_that_does_not_answer_any_more(namespace: Namespace, address: str) -> None:
    def neigh(*words: str) -> None:
        namespace.run(["ip", "neigh", *words, "dev", "v1"])

    for line in ("add v1 type veth peer name v2", "set dev v1 up", "set dev v2 up"):
        namespace.run(["ip", "link", *line.split()])
    ifindex = namespace.call(lambda: socket.if_nametoindex("v1"))
    neigh("replace", address, "lladdr", MAC, "nud", "stale")
    watch = GatewayWatch()
    watch.set_gateways([(ifindex, address, False)])
    assert not namespace.call(watch.have_changed)
    neigh("change", address, "nud", "failed")
    assert watch.have_changed() and not watch.have_changed()
    neigh("change", address, "lladdr", MAC, "nud", "permanent")
    assert watch.have_changed() and not watch.have_changed()
    neigh("del", address)
    assert not namespace.call(watch.have_changed), "an entry that is gone says nothing"


def test_the_gateways_of_default_routes_are_watched() -> None:
    routes = (DefaultRoute("ipv4", "192.0.2.1", 100, 254), DefaultRoute("ipv6", None, 100, 254))
    link = Link(2, "eth0", 1, 1, "up", True, 1500, default_routes=routes)
    neighbours = (Neighbour(2, "192.0.2.1", "failed"), Neighbour(2, "192.0.2.2", "reachable", MAC))
    made = Inventory(
        time=1.0, wall=2.0, took=0.1, reason="start", platform=NOTHING_KNOWN, pci=(), links=(link,)
    )
    assert gateways_of(made) == []
    assert gateways_of(dataclasses.replace(made, routing=Routing(neighbours, (), (), ()))) == [
        (2, "192.0.2.1", True)
    ]


def test_an_interface_that_does_not_exist() -> None:
    watch = GatewayWatch()
    watch.set_gateways([(2**31 - 1, "192.0.2.1", False)])
    assert not watch.have_changed() and not watch.have_changed()


@given(st.binary(max_size=40))
def test_any_message(payload: bytes) -> None:
    assert parse_has_failed(payload) in (True, False, None)
