"""What a lab consists of, for each combination of options."""

from __future__ import annotations

import pytest
from pyroute2.netlink.rtnl.tcmsg import sched_netem, sched_tbf

from nictop.errors import NictopError
from nictop.hosts.specification import parse_host
from nictop.lab.build import MAKE_FAULT, _netem, _tbf
from nictop.lab.request import (
    FAULTS,
    JOINS,
    MAX_VLAN_ID,
    LabRequest,
    Network,
    checked,
    namespace_names,
    networks,
    summary,
    vlan_of,
    vlan_of_port,
)
from tests.probe.inventory.links.test_qdiscs import by_pyroute2, parsed


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("hosts", [2, 3])
def test_every_host_has_an_address_and_can_be_watched(hosts: int, join: str) -> None:
    request = LabRequest(hosts=hosts, join=join)  # type: ignore[arg-type]
    names = namespace_names(request)
    assert names[:hosts] == ("a", "b", "c")[:hosts]
    assert ("switch" in names) is (join == "bridge")
    addressed = {host for network in networks(request) for host in network.nics}
    assert addressed == set(names) - {"switch"}
    for name in names:
        host = parse_host(f"netns:{name}=local/netns:{name}")
        assert (host.label, host.place) == (f"netns:{name}", f"local/netns:{name}")
        assert host.place in summary(request)


def test_of_a_chain_the_middle_host_has_two_nics() -> None:
    assert networks(LabRequest(hosts=3)) == (
        Network(0, {"a": "lab0", "b": "lab0"}),
        Network(1, {"b": "lab1", "c": "lab0"}),
    )
    assert networks(LabRequest(hosts=3, join="bridge")) == (
        Network(0, {"a": "lab0", "b": "lab0", "c": "lab0"}),
    )


def test_every_fault_that_is_offered_can_be_made() -> None:
    assert FAULTS.keys() == MAKE_FAULT.keys()


def test_the_wrong_vlan_is_that_of_the_link_or_of_the_port() -> None:
    veth = LabRequest(vlan=5, faults=("vlan",))
    assert [vlan_of(veth, host) for host in "ab"] == [5, 6]
    bridge = LabRequest(vlan=MAX_VLAN_ID, faults=("vlan",), join="bridge")
    assert [vlan_of(bridge, host) for host in "ab"] == [MAX_VLAN_ID, MAX_VLAN_ID]
    assert [vlan_of_port(bridge, host) for host in "ab"] == [MAX_VLAN_ID, 1]
    assert vlan_of(LabRequest(), "b") == 0


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (LabRequest(faults=("vlan",)), "--fault vlan needs the VLAN that the others have"),
        (LabRequest(faults=("mtu",), mtu=1300), "--fault mtu needs an MTU of 1380 or more"),
        (
            LabRequest(faults=("prefix-length", "no-address")),
            "--fault no-address and --fault prefix-length exclude each other",
        ),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(request_: LabRequest, sentence: str) -> None:
    with pytest.raises(NictopError, match=sentence):
        checked(request_)


# Kernels without netem exist: what would be sent is read back by nictop's own parser.


def test_delay_and_loss_are_those_of_netem() -> None:
    request = LabRequest(delay_ms=20.5, loss_percent=0.5)
    found = parsed(by_pyroute2("netem", sched_netem.get_parameters(_netem(request))))
    assert (found.delay, found.loss) == pytest.approx((0.0205, 0.005), rel=1e-4)


@pytest.mark.parametrize("rate", [0.1, 2.5, 30_000])
def test_the_rate_is_that_of_tbf(rate: float) -> None:
    options = _tbf(LabRequest(rate_mbit=rate, mtu=9000))
    assert options["burst"] >= 9014, "a frame that is larger is dropped"
    found = parsed(by_pyroute2("tbf", sched_tbf.get_parameters(options)))
    assert found.rate == rate * 1e6
