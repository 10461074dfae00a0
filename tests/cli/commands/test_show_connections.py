"""``nictop show --connections`` of a recording, in reports, and its schema; live hosts:
tests/probe."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nictop.cli.main import main
from nictop.hosts.connections import chosen_nic
from nictop.hosts.observe import Answer
from nictop.model.window import RatesWindow
from nictop.report.facts.connections import ConnectionsDocument, HostConnections, connections_text
from nictop.report.html.page import html_page
from nictop.report.page import report_of
from nictop.report.redaction.redaction import redact
from nictop.wire.codec import LineError, decode
from tests.model.connections.test_table import snapshot_with
from tests.support.connections import busy_reading, connection, line
from tests.support.lines import link
from tests.support.recordings import host_items, write_recording


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Connections were shown for one reading, 2.6 s after the begin."""
    path = tmp_path / "monday.nictop"
    items = host_items("vm1", 30)
    shown = ("vm1", line(busy_reading(time=1002.85)), 1002.85)
    write_recording(path, [*items[:7], shown, *items[7:]])
    return str(path)


def test_of_a_recording(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", recording, "--connections", "--at", "+3"]) == 0
    text = capsys.readouterr().out
    assert "UTC · ens192 · RX 58.4 Mb/s · TX 940 Mb/s · TCP payload 90 %, other 10 %" in text
    assert (
        re.search("^nginx +83 % ", text, re.MULTILINE)
        and "198.51.100.2:50002" in text
        and "recv window" in text
    )
    assert max(map(len, text.splitlines())) <= 120


def test_not_recorded_at_that_time(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, too long after, and of another NIC."""
    for arguments in (["--at", "+1"], ["--at", "+20"], ["--at", "+3", "--nic", "lo"]):
        assert main(["show", recording, "--connections", *arguments]) == 0
        assert "no connections recorded at this time" in capsys.readouterr().out


def test_json_and_schema(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", recording, "--connections", "--at", "+3", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    host = msgspec.convert(
        msgspec.convert(document, ConnectionsDocument).hosts[0], HostConnections, strict=False
    )
    assert host.connections is not None and host.connections.rows[0].tx_bits == 568e6
    assert main(["show", "--connections", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"HostConnections", "ConnectionTable", "ConnectionRow", "Connection"} <= schema[
        "$defs"
    ].keys()


def test_a_nic_needs_connections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--nic", "ens192"]) == 2
    assert "--nic needs --connections" in capsys.readouterr().err


def test_the_nic_that_is_chosen() -> None:
    links = (
        link(1, "lo"),
        link(2, "ens192", device="0000:01:00.0", altnames=("enp1s0",)),
        link(3, "ens224"),
    )
    snapshot = snapshot_with(busy_reading(), *links)
    for name, ifindex in (("", 2), ("enp1s0", 2), ("ens224", 3), ("lo", 1)):
        found = chosen_nic(snapshot, name)
        assert found is not None and found.ifindex == ifindex
    assert chosen_nic(snapshot, "ens9") is None
    only_virtual = chosen_nic(snapshot_with(busy_reading(), link(1, "lo"), link(2, "veth0")))
    assert only_virtual is not None and only_virtual.name == "veth0"


def test_no_control_character_reaches_the_terminal() -> None:
    hostile = connection(
        1, process="\x1b[2Jx", cgroup="/\x1b]0;x\x07.service", remote="\x1b[31m", state="\x9b1m"
    )
    snapshot = snapshot_with(replace(busy_reading(), connections=(hostile,)), link(2, "e\x1bx"))
    text = connections_text([(snapshot, RatesWindow())], 120)
    assert all(one == "\n" or one.isprintable() for one in text)


def test_a_hostile_number_of_connections_is_not_accepted() -> None:
    found = busy_reading()
    many = msgspec.to_builtins(replace(found, connections=found.connections[:1] * 300))
    decoded = decode(json.dumps({"connections": many}).encode()).connections
    assert decoded is not None and decoded.connections == ()
    assert decoded.unreadable["connections"].detail == "more than 256 entries"
    many["connections"] = many["connections"][:1]
    many["connections"][0]["rtt"] = 1 << 70
    with pytest.raises(LineError, match="64 bits"):
        decode(json.dumps({"connections": many}).encode())


def test_reports_have_them_and_redact_them() -> None:
    rows = (
        connection(
            1,
            sent=71_000_000,
            process="vhost-1234",
            cgroup="/machine.slice/machine-qemu\\x2d1\\x2dcustomer.scope",
        ),
        connection(2, sent=1000, process="nginx", cgroup="/lxc.payload.shop/init.scope"),
        connection(3, sent=1000, process="db-server agent", remote="2001:db8:77::5"),
    )
    snapshot = replace(snapshot_with(replace(busy_reading(), connections=rows)), host="db-server")
    answers: list[Answer] = [(snapshot, RatesWindow())]
    page = html_page(report_of(answers, wall=0.0))
    assert (
        "Connections of ens192" in page and "qemu customer" in page and "198.51.100.1:50001" in page
    )
    hidden, _, _, _, sentences = redact(answers, ())
    redacted = html_page(report_of(hidden, wall=0.0, hidden=sentences))
    for name in ("customer", "shop", "198.51.100.1:", "2001:db8:77::5", "db-server"):
        assert name not in redacted, name
    for name in ("qemu machine-", "lxc machine-", "nginx", ":50001", "568 M"):
        assert name in redacted, name
