"""``nictop guests``: text that fits its width, JSON that its schema describes, hosts that could not be
reached; of a recording, and hostile names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nictop.cli.main import main
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.guests.agent_facts import AgentFacts, guest_key
from nictop.model.window import RatesWindow
from nictop.probe.records import HostedGuest, Line
from nictop.report.facts.guests import (
    GuestsDocument,
    HostGuests,
    guests_json,
    guests_schema,
    guests_text,
)
from nictop.report.facts.host import show_text
from nictop.report.html.page import html_page
from nictop.report.page import report_of
from nictop.report.redaction.redaction import redact
from tests.model.guests.hypervisor import WEB1, hypervisor, hypervisor_inventory
from tests.support.recordings import host_items, write_recording


def answers(**changes: object) -> tuple[Answer, ...]:
    return ((hypervisor(**changes), RatesWindow()),)


TEXT_AT_80 = """\
pve · 4 guests, 1 of them stopped

GUEST          STATE   TAP/VF               RX b/s TX b/s ADDRESS
ct1            running veth5                8.00 k 16.0 k 192.0.2.5/24
ct1            running macvlan on ens1f0       –      –
db1            running macvtap0             8.00 k 16.0 k
web1           running tap101i0             8.00 k 16.0 k 192.0.2.77
web1           running VF 0 of ens1f0       24.0 k 32.0 k
old            stopped vmbr1
old            stopped VF 1 of ens1f0
old            stopped VF 0 of ens1f0
"""


def test_the_table_at_80_columns() -> None:
    text = guests_text(answers(), 80)
    headline, table, facts = text.split("\n\n")
    assert f"{headline}\n\n{table}\n" == TEXT_AT_80
    assert "db1            NICs not fully known: needs root: /proc/60/fd: EACCES" in facts
    assert "net0: virtio-net-pci bc:24:11:00:00:01 · tap101i0" in facts


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_text_fits_its_width(width: int) -> None:
    hostile = HostedGuest("x" * 300 + "\x1b[2J", "vm", "qemu", "running", nics=WEB1.nics)
    text = guests_text(answers(guests=(hostile, WEB1)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_a_host_without_guests_says_why() -> None:
    assert guests_text(answers(guests=()), 80) == "pve · 0 guests\n"
    assert "not read yet" in guests_text(answers(guests=None, pending=("guests",)), 80)


def test_the_json_is_described_by_its_schema() -> None:
    unreachable = Unreachable("db", "connection refused", 3)
    document = json.loads(guests_json((*answers(), unreachable)))
    host, other = msgspec.convert(document, GuestsDocument).hosts
    found = msgspec.convert(host, HostGuests, strict=False)
    assert other == {"host": "db", "unreachable": "connection refused"}
    guests = {guest.name: guest for guest in found.guests}
    tap, function = guests["web1"].nics
    assert (tap.link, tap.port, tap.network, tap.vlans) == ("tap101i0", "fwpr101p0", "vmbr0", "30")
    assert (function.pf, function.vf, function.rx_bits) == ("ens1f0", 0, 24000)
    assert (guests["web1"].vcpu_share, guests["web1"].vhost_share) == (0.5, 0.25)
    assert guests["db1"].nics_missing == "needs root: /proc/60/fd: EACCES"
    assert {"HostGuests", "GuestFacts", "GuestNicFacts"} <= json.loads(guests_schema())[
        "$defs"
    ].keys()


def test_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "monday.nictop"
    items = host_items("pve", 10)
    made = hypervisor_inventory()
    line = Line(inventory=replace(made, time=1002.5))
    write_recording(path, [*items[:5], ("pve", line, 1002.6), *items[5:]])
    assert main(["guests", str(path), "--at", "+3"]) == 0
    assert "web1" in capsys.readouterr().out
    assert main(["guests", str(path), "--at", "+3", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["hosts"][0]["guests"]) == 4


def test_names_of_guests_are_hidden_in_a_redacted_report() -> None:
    hidden, *_ = redact(answers(), ())
    text = guests_json(hidden)
    found = {guest["name"] for guest in json.loads(text)["hosts"][0]["guests"]}
    assert len(found) == 4 and "machine-2" in found
    for name in ("web1", "db1", "ct1", "192.0.2.77", "bc:24:11:00:00:01"):
        assert name not in text


def test_the_facts_of_a_host_and_its_page_have_its_guests() -> None:
    text = show_text(hypervisor(), 80)
    assert "Guests\nGUEST " in text and "web1           running VF 0 of ens1f0" in text
    assert "Guests" not in show_text(hypervisor(guests=()), 80)
    assert "DHCP lease of libvirt virbr0" in html_page(report_of(answers(), wall=1_790_000_001.0))


def test_a_host_that_cannot_be_reached_is_exit_code_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = (*answers(), Unreachable("db", "connection refused", 3))
    monkeypatch.setattr("nictop.cli.commands.guests.observe_hosts", lambda *_, **__: found)
    assert main(["guests", "pve", "db"]) == 3
    text = capsys.readouterr().out
    assert "tap101i0" in text and "connection refused" in text


def test_what_agents_tell_is_printed() -> None:
    told = {guest_key(WEB1): AgentFacts("Windows Server 2022", cpus=4, is_windows=True)}
    found = ((replace(hypervisor(), agents=told), RatesWindow()),)
    text = guests_text(found, 200)
    assert "web1           agent: Windows Server 2022 · 4 CPUs · cannot be watched: Windows" in text
    (host,) = json.loads(guests_json(found))["hosts"]
    agents = {guest["name"]: guest["agent"] for guest in host["guests"]}
    assert agents["web1"]["system"] == "Windows Server 2022" and agents["db1"] is None
    assert "GuestAgentFacts" in json.loads(guests_schema())["$defs"]


def test_agents_of_a_recording_are_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "monday.nictop"
    write_recording(path, host_items("pve", 10))
    assert main(["guests", str(path), "--at", "+3", "--ask-agents"]) == 2
    assert "not of a recording" in capsys.readouterr().err


def test_the_first_line_counts_what_does_not_run() -> None:
    paused = replace(WEB1, condition="paused", condition_reason="ioerror")
    text = guests_text(answers(guests=(paused, replace(WEB1, name="w2", condition="crashed"))), 200)
    assert text.startswith("pve · 2 guests, 1 crashed, 1 paused\n")
    assert "web1           paused (ioerror)" in text


def test_network_namespaces_are_no_guests() -> None:
    """A bridge of a hypervisor may be in one."""
    inner = replace(WEB1, kind="namespace", name="qlab")
    text = guests_text(answers(guests=(WEB1, inner)), 80)
    assert text.startswith("pve · 1 guest · 1 network namespace\n")
