"""The NIC of one host whose traffic is measured, and that from which a foreign server is reached."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Address
from nictop.probe.records.links import DefaultRoute
from nictop.traffic.plan.foreign import foreign_pair, foreign_side
from nictop.traffic.plan.one_nic import automatic_nic_text, select_nic
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.plan.request import RunRequest
from tests.traffic.machines import machine, nic

ENS3 = nic(3, "ens3", "192.0.2.1", "2001:db8::1")
ENS4 = nic(4, "ens4", "198.51.100.1", altnames=("enp1s0",))
DEFAULT = DefaultRoute("ipv4", "198.51.100.254", 100, 254)
ROUTED = replace(ENS4, default_routes=(DEFAULT,))


def hosts(*links: object) -> dict[str, Snapshot]:
    return {"a": machine("a", *links)}  # type: ignore[arg-type]


def request(server: str = "a", **more: str) -> RunRequest:
    return RunRequest("a", server, **more)  # type: ignore[arg-type]


def test_only_nic_with_a_carrier_is_chosen() -> None:
    down = replace(ENS4, carrier=False)
    chosen = select_nic(request(), hosts(ENS3, down))
    assert (chosen.endpoint, chosen.note) == (Endpoint("a", 3, "192.0.2.1"), "")


def test_of_several_that_of_the_default_route_is_chosen_and_that_is_said() -> None:
    chosen = select_nic(request(), hosts(ENS3, ROUTED))
    assert chosen.endpoint == Endpoint("a", 4, "198.51.100.1")
    assert chosen.note.startswith("NIC ens4 of the default route is measured")


def test_without_a_default_route_none_is_chosen() -> None:
    chosen = select_nic(request(), hosts(ENS3, ENS4))
    assert chosen.endpoint == Endpoint("a", None, "")
    assert "--client-nic" in chosen.note and "ens3" in chosen.note


def test_which_one_it_will_be_is_said_before_the_run() -> None:
    """``automatic: default route`` was said of a host without one; the result had no rate."""
    down = replace(ENS4, carrier=False)
    texts = [
        automatic_nic_text(hosts(*links)["a"])
        for links in ((ENS3, ROUTED), (ENS3, down), (ENS3, ENS4), (down,))
    ]
    assert texts == [
        "automatic: ens4",
        "automatic: ens3",
        "no default route: choose one",
        "none has a carrier: choose one",
    ]


def test_a_host_that_is_not_read_is_not_one_without_a_carrier() -> None:
    unread = Snapshot.empty("a")
    assert automatic_nic_text(unread) == "NICs are not read yet"
    assert "(they are not read yet)" in select_nic(request(), {"a": unread}).note


@pytest.mark.parametrize("name", ["ens4", "enp1s0"])
def test_named_nic(name: str) -> None:
    chosen = select_nic(request(client_nic=name), hosts(ENS3, ENS4))
    assert (chosen.endpoint.ifindex, chosen.note) == (4, "")


def test_nic_that_does_not_exist() -> None:
    with pytest.raises(NictopError) as raised:
        select_nic(request(client_nic="ens9"), hosts(ENS3))
    assert raised.value.message == 'a has no NIC "ens9"'
    assert "--client-nic ens3" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("server", "client"),
    [
        ("192.0.2.50", Endpoint("a", 3, "192.0.2.1")),
        ("203.0.113.5", Endpoint("a", 4, "198.51.100.1")),
        ("2001:db8::50", Endpoint("a", 3, "2001:db8::1")),
        ("2001:db8:9::50", Endpoint("a", 3, "2001:db8::1")),
    ],
)
def test_foreign_server_is_reached_from_its_subnet_else_by_the_default_route(
    server: str, client: Endpoint
) -> None:
    pair = foreign_pair(request(server), hosts(ENS3, ROUTED)).pair
    assert (pair.client, pair.server) == (client, Endpoint(server, None, server))


def test_address_of_the_client_can_be_chosen() -> None:
    found = foreign_pair(request("203.0.113.5", client_address="192.0.2.1"), hosts(ENS3, ROUTED))
    assert found.pair.client == Endpoint("a", 3, "192.0.2.1")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"client_address": "192.0.2.77"}, 'a has no address "192.0.2.77"'),
        ({"server": "2001:db8::5", "client_nic": "ens4"}, "a: the NIC ens4 has no IPv6 address"),
        ({"client_nic": "ens9"}, 'a has no NIC "ens9"'),
    ],
)
def test_client_that_has_no_such_end(more: dict[str, str], message: str) -> None:
    with pytest.raises(NictopError) as raised:
        foreign_pair(request(**{"server": "203.0.113.5", **more}), hosts(ENS3, ROUTED))
    assert raised.value.message == message


@pytest.mark.parametrize("text", ["nas1", "192.0.2.300", "", "192.0.2.0/24"])
def test_name_is_no_foreign_server(text: str) -> None:
    with pytest.raises(NictopError):
        foreign_side("vm1", text)


def test_prefix_of_an_address_that_is_invalid_is_no_subnet() -> None:
    wrong = replace(ENS3, addresses=(Address("ipv4", "192.0.2.1", 99, "global", ()),))
    pair = foreign_pair(request("192.0.2.50"), hosts(wrong)).pair
    assert pair.client == Endpoint("a", 3, "192.0.2.1")


def test_foreign_end_is_the_address() -> None:
    """Of two addresses the server, as before a client could be one."""
    assert foreign_side("vm1", "192.0.2.50") == "server"
    assert foreign_side("192.0.2.50", "vm1") == "client"
    assert foreign_side("192.0.2.1", "192.0.2.50") == "server"
