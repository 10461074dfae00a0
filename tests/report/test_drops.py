"""Text and JSON of ``nictop drops``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII
from nictop.probe.records import DropFlow, DropReport
from nictop.report.drops import drops_json, drops_schema, drops_text
from nictop.report.facts.hosts import UnreachableHost
from nictop.rules.fixes.commands import command
from nictop.traffic.drops.result import DropRow, DropsResult
from tests.cli.commands.test_report import check as matches_schema
from tests.support.findings import finding
from tests.support.hostile import NAME as HOSTILE

ROW = DropRow(
    reason="IP_RPFILTER",
    place="ip_rcv_finish_core",
    kind="loss",
    meaning="rp_filter: the route back does not use this NIC.",
    nic="ens3",
    direction="rx",
    certain=True,
    packets=1200,
    bytes=117600,
    per_second=120.0,
    flows=(
        DropFlow("icmp", "10.9.0.1", "192.0.2.1", None, 1100),
        DropFlow("udp", "10.9.0.1", "192.0.2.1", 53, 100),
    ),
    rules=("rp_filter_drops_an_asymmetric_path",),
    findings=(),
    commands=(
        command("ip", "route", "get", "10.9.0.1"),
        command("sysctl", "net.ipv4.conf.ens3.rp_filter"),
    ),
)
EXPECTED = replace(
    ROW,
    reason="OTHERHOST",
    kind="expected",
    packets=5,
    per_second=0.5,
    flows=(),
    meaning="For others.",
)
REPORT = DropReport("complete", "", 10.0, 1205, hardware=True)
RESULT = DropsResult("vm1", 1.0, REPORT, (ROW, EXPECTED))


def test_text() -> None:
    assert drops_text([RESULT], 80).splitlines() == [
        "vm1: 1205 packets dropped in 10.0 s (120/s)",
        "",
        "Lost: 1200 packets",
        "  REASON       NIC      PLACE               PACKETS   RATE",
        "  IP_RPFILTER  rx ens3  ip_rcv_finish_core     1200  120/s",
        "",
        "Expected (no loss): 5 packets",
        "  REASON     NIC      PLACE               PACKETS    RATE",
        "  OTHERHOST  rx ens3  ip_rcv_finish_core        5  0.50/s",
        "",
        "IP_RPFILTER  rx ens3",
        "  meaning  rp_filter: the route back does not use this NIC.",
        "  place    ip_rcv_finish_core",
        "  packets  1100 icmp 10.9.0.1 → 192.0.2.1",
        "           100 udp 10.9.0.1 → 192.0.2.1 port 53",
        "  next     ip route get 10.9.0.1",
        "           sysctl net.ipv4.conf.ens3.rp_filter",
        "",
        "OTHERHOST",
        "  meaning  For others.",
        "",
        "  note     not monitored: packets without a link-layer header (no route, no",
        "           neighbour, dropped by an output chain of the firewall)",
    ]


def test_a_narrow_table_has_no_places() -> None:
    text = drops_text([RESULT], 40)
    assert (
        "  IP_RPFILTER  rx ens3     1200  120/s\n" in text
        and max(map(len, text.splitlines())) <= 40
    )


def test_a_finding_explains_it() -> None:
    """Its fix is that of the finding; there is nothing to look for."""
    row = replace(
        ROW,
        findings=(
            finding(rule="rp_filter_drops_an_asymmetric_path", subject="ens3", title="drops"),
        ),
    )
    text = drops_text([replace(RESULT, rows=(row,))], 80)
    assert "  finding  " in text and "ens3: drops" in text and "\n  next" not in text
    assert "nictop check vm1; rule rp_filter_drops_an_asymmetric_path" in text


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"nic": "", "direction": ""}, "\nIP_RPFILTER  –\n"),
        ({"nic": "", "direction": "rx"}, "\nIP_RPFILTER  rx ?\n"),
        ({"certain": False}, "\nIP_RPFILTER  rx ens3?\n"),
        ({"reason": ""}, "\nip_rcv_finish_core  rx ens3\n"),
    ],
)
def test_title_of_a_row(changed: dict[str, object], expected: str) -> None:
    row = replace(ROW, **changed)  # type: ignore[arg-type]
    assert expected in drops_text([replace(RESULT, rows=(row,))], 80)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"state": "stopped"}, "(120/s), stopped at the limit of packets"),
        ({"lost": 9}, "9 more dropped, but not reported"),
        ({"overruns": 1}, "an unknown number more dropped, but not reported"),
        ({"namespaces": 2}, "all network namespaces of the host: this one and 2 more"),
        ({"hardware": False}, ", and drops of devices"),
        ({"packets": 0}, "vm1: 0 packets dropped in 10.0 s\n"),
        ({"state": "busy"}, "vm1: another program uses the drop monitor"),
        ({"state": "needs_root"}, "vm1: dropped packets can be monitored as root only (--sudo)"),
        ({"state": "not_offered"}, "(CONFIG_NET_DROP_MONITOR)"),
        ({"state": "other_namespace"}, "initial network namespace only"),
        ({"state": "failed", "detail": "no \x1b"}, "the drop monitor failed: no \\x1b"),
    ],
)
def test_what_else_is_said(changed: dict[str, object], expected: str) -> None:
    report = replace(REPORT, **changed)  # type: ignore[arg-type]
    text = " ".join(drops_text([replace(RESULT, report=report)], 200).split(" "))
    assert expected in text


def test_hosts() -> None:
    text = drops_text([RESULT, UnreachableHost("vm2", "no answer")], 80)
    assert text.startswith("vm1: ") and text.endswith("\n\nvm2: no answer\n")


def test_no_control_characters() -> None:
    row = replace(
        ROW,
        reason=HOSTILE,
        place=HOSTILE,
        nic=HOSTILE,
        flows=(DropFlow(HOSTILE, HOSTILE, HOSTILE, 1, 1),),
    )
    result = replace(
        RESULT, host=HOSTILE, rows=(row, replace(row, reason="", commands=(command(HOSTILE),)))
    )
    for text in (drops_text([result], 80), drops_json([result])):
        assert "\x1b" not in text and "\u202e" not in text
    assert ASCII.encode(drops_text([result], 80)).isascii()


def test_json_matches_its_schema() -> None:
    document, schema = (
        json.loads(drops_json([RESULT, UnreachableHost("vm2", "no")])),
        json.loads(drops_schema()),
    )
    matches_schema(document, schema, schema["$defs"])
    assert document["hosts"][0]["rows"][0]["commands"] == [
        "ip route get 10.9.0.1",
        "sysctl net.ipv4.conf.ens3.rp_filter",
    ]
