"""What both hosts show of a failed connection, without hosts: the causes that are excluded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import TrafficPath
from nictop.traffic.run.unreachable import examined
from tests.traffic.plans import PLAN
from tests.traffic.watched import Watched

SERVER_PATH = TrafficPath("192.0.2.1", "192.0.2.2", "unicast", 5, rp_filter=0)
PLAN_OF_NICS = replace(PLAN, server=replace(PLAN.server, ifindex=5))


@pytest.mark.parametrize(
    ("path", "excluded", "remaining"),
    [
        ({}, "rp_filter of b (0)", ""),
        ({"rp_filter": 1}, "rp_filter of b (1)", ""),
        # of the other host no route is known: packets may come in by the NIC of the run
        ({"rp_filter": 1, "ifindex": 9}, "", "rp_filter on b (1)"),
        ({"rp_filter": None}, "", "rp_filter on b"),
        ({"neighbour": "reachable"}, "neighbour of b (reachable)", ""),
        ({"neighbour": "permanent"}, "", "the neighbour of b (static: not confirmed)"),
    ],
)
def test_only_what_is_known_is_excluded(
    path: dict[str, object], excluded: str, remaining: str
) -> None:
    log = Watched(PLAN_OF_NICS).log
    log.ends["server"].path = replace(SERVER_PATH, **path)  # type: ignore[arg-type]
    found = examined(log)
    for text, texts, others in (
        (excluded, found.excluded, found.remaining),
        (remaining, found.remaining, found.excluded),
    ):
        if text:
            assert text in texts and text not in others
