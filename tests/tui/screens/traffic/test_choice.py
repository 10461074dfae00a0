"""What the form says of the tools of both hosts."""

from __future__ import annotations

from typing import cast

from nictop.errors import HostUnreachable
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import Endpoint, EndpointPair
from nictop.tui.controllers.traffic import TrafficController
from nictop.tui.screens.traffic.choice import RunTools
from nictop.tui.widgets.traffic.pair_table import OfferRow

ROW = OfferRow(
    EndpointPair("192.0.2.0/24", Endpoint("vm1", 2, "192.0.2.1"), Endpoint("vm2", 2, "192.0.2.2")),
    client_nic="ens3", server_nic="ens3", speed="", differs="",
)  # fmt: skip


class UnreachableHosts:
    """Its errors name the host, as those of `RunHost.tools`."""

    async def tools(self, name: str) -> TrafficTools:
        raise HostUnreachable(f"{name}: no answer from the probe within 5 s")


async def test_a_host_is_named_once_before_the_reason_why_its_tools_are_unknown() -> None:
    tools = RunTools()
    assert tools.words(ROW) == "vm1: checking iperf3 · vm2: checking iperf3"
    for name in ("vm1", "vm2"):
        await tools.ask(cast("TrafficController", UnreachableHosts()), name)
    why = "no answer from the probe within 5 s"
    assert tools.words(ROW) == f"vm1: {why} · vm2: {why}"
