"""Series from snapshots: raw counters, bounded in number, unique, and valid for the strict parser
with any host."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from nictop.metrics import collector as limits
from nictop.metrics import series as layout
from nictop.metrics.collector import HostCollector, finding_samples
from nictop.metrics.exposition import exposition_text, wants_gzip, wants_openmetrics
from nictop.metrics.series import MAX_LABEL_CHARS, label_value, sample
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    CPU_TIMES,
    LINK_COUNTERS,
    VF_COUNTERS,
    Line,
    Link,
    LinkChange,
    PortCounts,
)
from nictop.rules import SEVERITIES, Diagnosis, Skipped, diagnose
from tests.metrics.answers import families, of_host, series, series_with, values_of
from tests.model.guests.hypervisor import VF_ADDRESSES, hypervisor
from tests.rules.test_no_rule_raises import BASES, arbitrary_host, mutated_host
from tests.support.findings import finding, host_of_case
from tests.support.hostile import LABEL as HOSTILE
from tests.support.rule_cases import host_facts


def host(base: str = "kvm-guest") -> Snapshot:
    return host_facts({"base": base}).snapshot


def counted(snapshot: Snapshot, **changes: object) -> Snapshot:
    assert snapshot.counters is not None
    return advance(snapshot, Line(counters=replace(snapshot.counters, **changes)))  # type: ignore[arg-type]


def inventoried(snapshot: Snapshot, **changes: object) -> Snapshot:
    assert snapshot.inventory is not None
    return advance(snapshot, Line(inventory=replace(snapshot.inventory, **changes)))  # type: ignore[arg-type]


def with_links(snapshot: Snapshot, *links: Link) -> Snapshot:
    """The host with exactly these links, each with all counters at 7."""
    counters = {link.ifindex: (7,) * len(LINK_COUNTERS) for link in links}
    return counted(inventoried(snapshot, links=links), links=counters)


def veth(ifindex: int, name: str) -> Link:
    return Link(ifindex, name, 1, 0x11043, "up", True, 1500, kind="veth")


# ----------------------------------------------------------------------------------------- any host


@pytest.mark.parametrize("base", BASES)
def test_the_series_of_a_host(base: str) -> None:
    snapshot = host(base)
    found = of_host(snapshot)
    assert snapshot.counters is not None
    for ifindex, link in snapshot.links.items():
        values = dict(zip(LINK_COUNTERS, snapshot.counters.links.get(ifindex, ()), strict=False))
        for side in ("rx", "tx"):
            for counter, name in (
                ("bytes", "bytes"),
                ("packets", "packets"),
                ("errors", "errors"),
                ("dropped", "drops"),
            ):
                line = series(
                    f"nictop_link_{name}_total",
                    host=snapshot.host,
                    device=link.name,
                    direction=side,
                )
                assert found.get(line) == values.get(f"{side}_{counter}")
        assert (
            found[series("nictop_link_mtu_bytes", host=snapshot.host, device=link.name)] == link.mtu
        )
    for cpu, times in snapshot.counters.cpus.items():
        for mode, ticks in zip(CPU_TIMES, times, strict=True):
            name = (
                "nictop_cpu_guest_seconds_total"
                if mode.startswith("guest")
                else "nictop_cpu_seconds_total"
            )
            shown = {"guest": "user", "guest_nice": "nice"}.get(mode, mode)
            assert found[series(name, host=snapshot.host, cpu=cpu, mode=shown)] == ticks / 100
    assert found[series("nictop_host_data_age_seconds", host=snapshot.host)] == 0.5
    assert not any(series_with(found, "nictop_host_left_out").values())


def test_settings_of_virtual_functions_and_their_guests() -> None:
    """The guest of a VF is one that runs; what is not known, and VLAN 0, has no label."""
    found = series_with(of_host(hypervisor()), "nictop_vf_info")
    common = {"host": "pve", "device": "ens1f0"}
    settings = {"mac": "52:54:00:00:01:01", "vlan": "7", "trust": "off", "spoofchk": "on"}
    first = {"vf": "0", "pci_address": VF_ADDRESSES[0], **settings, "guest": "web1"}
    second = {"vf": "1", "pci_address": VF_ADDRESSES[1], "mac": "00:00:00:00:00:00"}
    assert found == {
        series("nictop_vf_info", **common, **first): 1,
        series("nictop_vf_info", **common, **second): 1,
    }


def test_the_text_equals_that_of_prometheus_client() -> None:
    """Our text and that of prometheus-client for the same samples are equal after parsing."""
    body = exposition_text(HostCollector("vm").samples(host(), 0.5), openmetrics=True)

    class Same(CollectorRegistry):
        def collect(self):  # type: ignore[no-untyped-def]
            return iter(families(body))

    again = generate_latest(Same())  # type: ignore[no-untyped-call]
    assert families(again) == families(body)


@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from((0.02, 0.2, 0.6)))
@settings(max_examples=60)
def test_mutated_hosts(seed: int, share: float) -> None:
    number = random.Random(seed)
    snapshot = mutated_host(number.choice(BASES), number, share).snapshot
    collector = HostCollector(snapshot.host)
    assert values_of(collector.samples(snapshot, 0.0)) == values_of(
        collector.samples(snapshot, 0.0)
    )


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_arbitrary_hosts(seed: int) -> None:
    one = arbitrary_host(HOSTILE, random.Random(seed))
    samples = [
        *HostCollector(HOSTILE).samples(one.snapshot, 0.0),
        *finding_samples(HOSTILE, diagnose([one])),
    ]
    assert values_of(samples)


@given(value=st.text(max_size=300))
def test_label_values_are_escaped(value: str) -> None:
    quoted = label_value(value)
    assert quoted.isprintable() and len(quoted) <= 2 * MAX_LABEL_CHARS
    bare = quoted.replace("\\\\", "").replace('\\"', "")
    assert '"' not in bare and "\\" not in bare


@pytest.mark.parametrize("value", [2**64 - 1, 0, 1e-9, 1e16, 0.1 + 0.2, -5, -0.5])
def test_numbers_are_exact(value: float) -> None:
    assert list(values_of([sample("nictop_link_mtu_bytes", ("h", "d"), value)]).values()) == [value]


@pytest.mark.parametrize(
    "value", [2**64, -(2**64), 10**400, -(10**400), float("inf"), float("-inf"), float("nan")]
)
def test_invalid_numbers_are_omitted(value: float) -> None:
    assert values_of([sample("nictop_link_mtu_bytes", ("h", "d"), value)]) == {}
    assert values_of([sample("nictop_link_bytes", ("h", "d", "rx"), -1)]) == {}


# ------------------------------------------------------------------------------------------ formats


def test_the_older_format_has_the_same_series() -> None:
    samples = HostCollector("vm").samples(host(), 0.5)
    plain = list(parse_plain(exposition_text(samples, openmetrics=False).decode()))
    old = {
        (one.name, frozenset(one.labels.items())): one.value
        for family in plain
        for one in family.samples
    }
    assert old == values_of(samples)
    assert {family.type for family in plain} == {"counter", "gauge"}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            True,
        ),
        ("application/openmetrics-text; version=1.0.0; escaping=allow-utf-8", True),
        ("text/plain;version=0.0.4", False),
        ("", False),
        ("*/*", False),
        ("application/openmetrics-text; version=x.y", False),
    ],
)
def test_content_negotiation(accept: str, wanted: bool) -> None:
    assert wants_openmetrics(accept) is wanted


def test_gzip_is_used_on_request() -> None:
    assert wants_gzip("deflate, gzip;q=1.0") and not wants_gzip("") and not wants_gzip("br")


# ------------------------------------------------------------------------------------ hostile names


def test_a_hostile_name_breaks_no_line() -> None:
    found = of_host(with_links(host(), replace(veth(9, HOSTILE), bus="pci", alias=HOSTILE)))
    (key,) = series_with(found, "nictop_link_mtu_bytes")
    device = dict(key[1])["device"]
    assert device == label_value(HOSTILE).replace("\\\\", "\\").replace('\\"', '"')
    assert "\\x1b[2J\\u202e\\ud800" in device


def test_names_that_become_equal_when_sanitized_are_no_duplicates() -> None:
    found = of_host(with_links(host(), veth(9, "a\x1b"), veth(10, "a\\x1b")))
    assert len(series_with(found, "nictop_link_mtu_bytes")) == 1
    assert list(series_with(found, "nictop_host_left_out", what="links").values()) == [1]


# ------------------------------------------------------------------------------------------- limits


def test_links_of_containers_do_not_displace_a_nic() -> None:
    snapshot = host()
    nic = next(link for link in snapshot.links.values() if link.bus is not None)
    many = [
        veth(ifindex, f"veth{ifindex}")
        for ifindex in range(1000, 1000 + 2 * layout.MAX_EXPORTED_LINKS)
    ]
    found = of_host(with_links(snapshot, *many, replace(nic, ifindex=5000)))
    assert len(series_with(found, "nictop_link_carrier")) == layout.MAX_EXPORTED_LINKS
    assert series_with(found, "nictop_link_carrier", device=nic.name)
    assert series_with(found, "nictop_link_carrier", device="veth1000")
    (left_out,) = series_with(found, "nictop_host_left_out", what="links").values()
    assert left_out == layout.MAX_EXPORTED_LINKS + 1


def test_every_kind_has_a_limit_and_omitted_series_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("QUEUES", 3), ("INTERRUPTS", 2), ("CPUS", 1), ("VFS", 2), ("FINDINGS", 1)):
        monkeypatch.setattr(limits, f"MAX_EXPORTED_{name}", value)
    snapshot = host()
    vectors = [one.number for one in snapshot.inventory.interrupts] if snapshot.inventory else []
    ifindex = min(snapshot.links)
    numbers = (1, 2, 3, 4, 5, 6)
    snapshot = counted(
        snapshot,
        time=1e9,
        queues={ifindex: tuple(("rx", queue, numbers) for queue in range(5))},
        interrupts={vectors[0]: {0: 1, 1: 2, 2: 3}},
        cpus=dict.fromkeys(range(4), (1,) * len(CPU_TIMES)),
        softirqs={},
        softnet={},
        vfs={ifindex: dict.fromkeys(range(6), (1,) * len(VF_COUNTERS))},
        channels={},
        driver={},
    )
    found = of_host(snapshot)
    counts = {
        dict(key[1])["what"]: value
        for key, value in series_with(found, "nictop_host_left_out").items()
    }
    assert counts == {"links": 0, "queues": 2, "interrupts": 1, "cpus": 3, "vfs": 4}
    assert len(series_with(found, "nictop_queue_packets_total")) == 3
    assert len(series_with(found, "nictop_interrupts_total")) == 2
    assert len(series_with(found, "nictop_cpu_seconds_total", mode="steal")) == 1
    assert len(series_with(found, "nictop_vf_bytes_total", direction="rx")) == 2


# -------------------------------------------------------------------------------- changes over time


def test_a_removed_nic_disappears_at_once() -> None:
    snapshot = host()
    link = next(link for link in snapshot.links.values() if link.bus is not None)
    collector = HostCollector("vm")
    assert any(("device", link.name) in key[1] for key in of_host(snapshot, collector))
    gone = LinkChange(1e9, link.ifindex, True, link.name, "down", None, 0, link.mtu)
    after = of_host(advance(snapshot, Line(link_change=gone)), collector)
    left = {key[0] for key in after if ("device", link.name) in key[1]}
    assert after and left == set()


def test_a_counter_reset_is_passed_on() -> None:
    snapshot, collector = with_links(host(), veth(9, "v")), HostCollector("vm")
    line = series("nictop_link_bytes_total", host="vm", device="v", direction="rx")
    assert of_host(snapshot, collector)[line] == 7
    assert of_host(counted(snapshot, links={9: (0,) * len(LINK_COUNTERS)}), collector)[line] == 0


def test_a_small_decrease_of_idle_is_ignored() -> None:
    """proc(5): idle and iowait can decrease, which Prometheus would interpret as a reset to
    zero."""
    snapshot, collector = host(), HostCollector("vm")
    idle = CPU_TIMES.index("idle")

    def idle_seconds(value: int) -> float:
        times = tuple(value if position == idle else 5 for position in range(len(CPU_TIMES)))
        return of_host(counted(snapshot, cpus={0: times}), collector)[
            series("nictop_cpu_seconds_total", host="vm", cpu=0, mode="idle")
        ]

    assert [idle_seconds(value) for value in (100_000, 99_900, 100_100, 50)] == [
        1000,
        1000,
        1001,
        0.5,
    ]


@pytest.mark.parametrize(("later", "there"), [(0.2, True), (1.0, True), (100.0, False)])
def test_vf_counters_are_repeated_between_readings(later: float, there: bool) -> None:
    snapshot = host()
    ifindex = min(snapshot.links)
    first = counted(snapshot, time=1e9, vfs={ifindex: {3: tuple(range(len(VF_COUNTERS)))}})
    found = of_host(counted(first, time=1e9 + later, vfs={}))
    assert bool(series_with(found, "nictop_vf_drops_total", vf=3, direction="tx")) is there


@pytest.mark.parametrize(("later", "there"), [(0.2, True), (100.0, False)])
def test_ports_with_vfs_have_counters_of_their_own(later: float, there: bool) -> None:
    snapshot = host()
    link = snapshot.links[min(snapshot.links)]
    ports = {link.ifindex: PortCounts("igb", (1, None, 3, 4))}
    first = counted(snapshot, time=1e9, ports=ports)
    found = of_host(counted(first, time=1e9 + later, ports={}))
    labels = {"host": snapshot.host, "device": link.name, "source": "igb"}
    expected = {
        series("nictop_port_bytes_total", **labels, direction="rx"): 3,
        series("nictop_port_bytes_total", **labels, direction="tx"): 4,
        series("nictop_port_packets_total", **labels, direction="rx"): 1,
    }
    shown = {key: value for key, value in found.items() if key[0].startswith("nictop_port_")}
    assert shown == (expected if there else {})


def test_a_port_that_is_not_counted_has_no_series() -> None:
    snapshot = host()
    found = of_host(counted(snapshot, ports={min(snapshot.links): PortCounts("")}))
    assert not [key for key in found if key[0].startswith("nictop_port_")]


def test_driver_counters_replace_missing_qstats() -> None:
    snapshot = host()
    assert snapshot.inventory is not None
    link = next(link for link in snapshot.links.values() if link.bus is not None)
    driver = link.ethtool.driver
    assert driver is not None and driver.driver == "virtio_net"
    names = ("rx0_packets", "rx0_bytes", "rx0_drops")
    counting = replace(link, ethtool=replace(link.ethtool, driver_counter_names=names))
    snapshot = inventoried(snapshot, links=(counting,))
    queues = {link.ifindex: (("rx", 0, (11, 12, None, None, None, None)), ("tx", 0, (None,) * 6))}
    found = of_host(counted(snapshot, queues=queues, driver={link.ifindex: (1, 2, 3)}))
    shown = {
        key[0]: value
        for key, value in found.items()
        if ("queue", "0") in key[1] and "interrupt" not in key[0]
    }
    assert shown == {
        "nictop_queue_packets_total": 11,
        "nictop_queue_bytes_total": 12,
        "nictop_queue_drops_total": 3,
    }
    assert not series_with(found, "nictop_queue_packets_total", direction="tx")


# ----------------------------------------------------------------------------------------- findings


def test_findings_by_rule_severity_and_subject() -> None:
    sick = host_facts(host_of_case("profiles", "profile_is_generated"))
    found = values_of(finding_samples(sick.name, diagnose([sick])))
    assert series_with(
        found, "nictop_finding", rule="profile_is_generated", severity="warning", subject="ens224"
    )
    assert found[series("nictop_host_findings", host=sick.name, severity="critical")] == 0
    for severity in SEVERITIES:
        assert series("nictop_host_findings", host=sick.name, severity=severity) in found


def test_findings_of_one_subject_are_one_series_and_bounded() -> None:
    many = [
        finding(host="vm", subject=f"s{number}")
        for number in range(limits.MAX_EXPORTED_FINDINGS + 5)
    ]
    same = [finding(host="vm", subject="s0", title="another"), finding(host="other")]
    found = values_of(
        finding_samples("vm", Diagnosis((*many, *same), (Skipped("r", "vm", "x", ""),) * 2))
    )
    assert len(series_with(found, "nictop_finding")) == limits.MAX_EXPORTED_FINDINGS
    assert found[series("nictop_host_left_out", host="vm", what="findings")] == 5
    assert found[series("nictop_host_skipped_rules", host="vm")] == 1


# --------------------------------------------------------------------------------------- interrupts


def test_vectors_have_the_label_of_their_queue() -> None:
    snapshot = host()
    assert snapshot.inventory is not None
    vector = next(one for one in snapshot.inventory.interrupts if "input.0" in one.actions[0])
    found = of_host(counted(snapshot, interrupts={vector.number: {0: 5, 3: 7}}))
    (link,) = [one for one in snapshot.links.values() if one.pci_address == vector.pci_address]
    shown = series_with(found, "nictop_interrupts_total", interrupt=vector.number)
    wanted = {"host": snapshot.host, "device": link.name, "vector": vector.actions[0], "queue": 0}
    assert shown == {
        series("nictop_interrupts_total", interrupt=vector.number, cpu=cpu, **wanted): count
        for cpu, count in ((0, 5), (3, 7))
    }


def test_channels_of_hyperv_are_vectors() -> None:
    snapshot = host("hyperv-guest")
    link = next(link for link in snapshot.links.values() if link.channels)
    channel = link.channels[0]
    found = of_host(
        counted(snapshot, channels={link.ifindex: {channel.id: (9, 10, None), 999: (None, 1, 1)}})
    )
    shown = series_with(
        found, "nictop_interrupts_total", interrupt=f"vmbus-{channel.id}", device=link.name
    )
    assert list(shown.values()) == [9]
    assert not series_with(found, "nictop_interrupts_total", interrupt="vmbus-999")
