"""Plans and captured output of iperf3, for the tests of traffic."""

from __future__ import annotations

import re
from pathlib import Path

from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import Endpoint, RunPlan

DATA = Path(__file__).parent.parent / "data" / "iperf3"
VERSIONS = ("3.12", "3.21")
"""Both as text; 3.18 and 3.21 also as JSON."""

CLIENT, SERVER = Endpoint("a", 4, "192.0.2.1"), Endpoint("b", 5, "192.0.2.2")
PLAN = RunPlan(CLIENT, SERVER, time=2, interval=0.5)


def captured(version: str, name: str) -> list[str]:
    """Lines of one end as iperf3 of that version wrote them, over a link limited to 400 Mb/s."""
    return (DATA / version / f"{name}.txt").read_text().splitlines()


def error_text(version: str, name: str) -> str:
    """Its standard error."""
    return (DATA / version / f"{name}.err").read_text()


def tools(version: str = "3.12") -> TrafficTools:
    """As a probe reports them for iperf3 of that version."""
    options = re.findall(r"--[a-z0-9][a-z0-9-]*", (DATA / version / "help.txt").read_text())
    return TrafficTools(
        "/usr/bin/iperf3",
        (DATA / version / "version.txt").read_text(),
        tuple(dict.fromkeys(options)),
        ("reno", "cubic"),
        ("reno", "cubic"),
        "cubic",
        (0, 1),
    )
