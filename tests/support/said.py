"""What the tools of the field say of a link, compared with our records field by field.

``ip -j -s -d link``, ``ip -j addr`` and the plain output of ethtool are the truth here. Where a tool prints nothing for
a fact, our record must say None, and the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nictop.probe.records import Address, Ethtool, Link

Said = Callable[[str], str]
"""ethtool option ("" for none) → what it printed, "" when it failed."""

FLAGS = {
    "LOOPBACK": 0x8,
    "BROADCAST": 0x2,
    "POINTOPOINT": 0x10,
    "MULTICAST": 0x1000,
    "NOARP": 0x80,
    "ALLMULTI": 0x200,
    "PROMISC": 0x100,
    "MASTER": 0x400,
    "SLAVE": 0x800,
    "UP": 0x1,
    "LOWER_UP": 0x10000,
    "DORMANT": 0x20000,
    "ECHO": 0x40000,
}
LINK_TYPES = {"ether": 1, "loopback": 772, "none": 65534, "infiniband": 32}
PORTS = {"Twisted Pair": "tp", "Other": "other", "FIBRE": "fibre", "Direct Attach Copper": "da", "None": "none"}
ALIASES = {
    "rx-checksumming": "rx-checksum",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
    "large-receive-offload": "rx-lro",
    "rx-vlan-offload": "rx-vlan-hw-parse",
    "tx-vlan-offload": "tx-vlan-hw-insert",
    "ntuple-filters": "rx-ntuple-filter",
    "receive-hashing": "rx-hashing",
}
GROUPS = ("tx-checksumming", "scatter-gather", "tcp-segmentation-offload")
"""Lines of ``ethtool -k`` that sum up several features."""


def assert_link(link: Link, said: Mapping[str, Any], names: Mapping[int, str], *, exact_counters: bool) -> None:
    """One element of ``ip -j -s -d link``; `names` are those of all links by ifindex."""
    flags = {name for name, bit in FLAGS.items() if link.flags & bit}
    assert flags == set(said["flags"]) - {"NO-CARRIER", "M-DOWN"}
    assert ("NO-CARRIER" in said["flags"]) == (link.carrier is False)
    simple = {
        "ifindex": link.ifindex,
        "ifname": link.name,
        "mtu": link.mtu,
        "qdisc": link.qdisc,
        "operstate": link.operstate.upper(),
        "promiscuity": link.promiscuity,
        "min_mtu": link.min_mtu,
        "max_mtu": link.max_mtu,
        "num_tx_queues": link.num_tx_queues,
        "num_rx_queues": link.num_rx_queues,
        "address": link.address,
    }
    assert simple == {key: said.get(key) for key in simple}
    assert LINK_TYPES[said["link_type"]] == link.type
    assert said.get("txqlen", 0) == link.tx_queue_length
    assert tuple(said.get("altnames", ())) == link.altnames
    assert said.get("ifalias") == link.alias
    assert said.get("linkinfo", {}).get("info_kind") == link.kind
    assert said.get("permaddr", link.permanent_address) == link.permanent_address
    assert said.get("parentbus", link.bus) == link.bus
    assert said.get("parentdev", link.device) == link.device
    assert said.get("master") == (names[link.master] if link.master else None)
    assert said.get("link_netnsid") == link.lower_namespace
    if link.lower is not None and link.lower_namespace is None:
        assert said.get("link") == names[link.lower]
    assert_details(link, said.get("linkinfo", {}).get("info_data", {}))
    assert_counters(link, said["stats64"], exact=exact_counters)
    assert len(said.get("vfinfo_list", ())) == len(link.virtual_functions)
    for function, entry in zip(link.virtual_functions, said.get("vfinfo_list", ()), strict=True):
        vlan = entry["vlan_list"][0]
        assert {
            "vf": function.number,
            "address": function.address,
            "vlan": function.vlan,
            "qos": function.qos,
            "spoofchk": function.spoof_check,
            "link_state": function.link_state,
            "trust": function.trust,
            "rate": {"max_tx": function.max_tx_rate, "min_tx": function.min_tx_rate},
        } == {
            **{key: entry[key] for key in ("vf", "address", "spoofchk", "link_state", "trust", "rate")},
            "vlan": vlan.get("vlan", 0),
            "qos": vlan.get("qos", 0),
        }


def assert_details(link: Link, said: Mapping[str, Any]) -> None:
    """IFLA_INFO_DATA, as far as we keep it."""
    expected: dict[str, Any] = {}
    if link.kind == "vxlan":
        expected = {"vxlan_id": said["id"], "vxlan_port": said["port"]}
    elif link.kind in ("macvlan", "macvtap"):
        expected = {"macvlan_mode": said["mode"]}
    elif link.kind == "vlan":
        expected = {"vlan_id": said["id"], "vlan_protocol": said["protocol"]}
    elif link.kind == "bond":
        expected = {"bond_mode": said["mode"]}
    elif link.kind == "tun":
        expected = {"tun_type": said["type"], "tun_multi_queue": said["multi_queue"]}
    elif link.kind == "bridge":
        expected = {
            "bridge_stp": bool(said["stp_state"]),
            "bridge_vlan_filtering": bool(said["vlan_filtering"]),
        }
    assert {key: link.details.get(key) for key in expected} == expected


def assert_counters(link: Link, said: Mapping[str, Any], *, exact: bool) -> None:
    """stats64; on a live host the tool looks a moment later, so that its numbers may be higher."""
    assert link.counters is not None
    ours = dict(zip(("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"), link.counters, strict=False))
    theirs = {f"{way}_{unit}": said[way][unit] for unit in ("packets", "bytes") for way in ("rx", "tx")}
    assert ours == theirs if exact else all(ours[key] <= theirs[key] for key in ours)
    assert link.counters[8] <= said["rx"]["multicast"]
    assert link.counters[4:8] == (
        said["rx"]["errors"],
        said["tx"]["errors"],
        said["rx"]["dropped"],
        said["tx"]["dropped"],
    )


def assert_addresses(addresses: tuple[Address, ...], said: list[Mapping[str, Any]]) -> None:
    """``addr_info`` of ``ip -j addr``."""
    ours = {(a.family, a.address, a.prefix_length, a.scope, "permanent" in a.flags) for a in addresses}
    theirs = {
        (
            "ipv4" if entry["family"] == "inet" else "ipv6",
            entry["local"],
            entry["prefixlen"],
            entry["scope"],
            not entry.get("dynamic", False),
        )
        for entry in said
    }
    assert ours == theirs
    by_text = {a.address: a.flags for a in addresses}
    for entry in said:
        for flag in ("tentative", "deprecated", "dadfailed", "noprefixroute", "temporary", "secondary"):
            assert entry.get(flag, False) == (flag in by_text[entry["local"]])


def assert_ethtool(record: Ethtool, said: Said) -> None:
    """All that plain ethtool prints of one link."""
    assert_features(record, said("-k"))
    assert_amounts(record, said("-l"), "channels", ("RX", "TX", "Other", "Combined"))
    assert_amounts(record, said("-g"), "rings", ("RX", "RX Mini", "RX Jumbo", "TX"))
    assert_coalescing(record, said("-c"))
    pause = said("-a")
    assert (record.pause is None) == (not pause)
    if record.pause is not None:
        flags = {"Autonegotiate": record.pause.autonegotiation, "RX": record.pause.rx, "TX": record.pause.tx}
        for key, value in flags.items():
            assert f"{key}:\t{'on' if value else 'off'}" in re.sub(r"\t+", "\t", pause)
    assert_settings(record, said(""))
    flags_said = dict(re.findall(r"^(\S.*\S) *: (on|off)$", said("--show-priv-flags"), re.MULTILINE))
    assert {key: value == "on" for key, value in flags_said.items()} == (record.private_flags or {})
    rows = re.findall(r"^ *\d+: +([\d ]+)$", said("-x"), re.MULTILINE)
    if record.rss is not None:
        assert tuple(int(slot) for row in rows for slot in row.split()) == record.rss.indirection
        chosen = re.findall(r"^ +(toeplitz|xor|crc32): on$", said("-x"), re.MULTILINE)
        assert not chosen or chosen == [record.rss.hash_function]
    else:
        assert not rows


def assert_features(record: Ethtool, said: str) -> None:
    """``ethtool -k``: every line but the sums, and no feature of ours that it does not know."""
    assert record.features is not None
    ours = {feature.name: feature for feature in record.features}
    lines = re.findall(r"^\t?(\S+): (on|off)( \[fixed\])?( \[requested on\]| \[requested off\])?$", said, re.MULTILINE)
    singles = [line for line in lines if line[0] not in GROUPS]
    assert len(singles) >= 40
    for name, active, fixed, requested in singles:
        feature = ours.pop(ALIASES.get(name, name))
        assert (feature.active, feature.fixed) == (active == "on", bool(fixed)), name
        if not fixed:
            assert (feature.active != feature.wanted) == bool(requested), name
    assert not ours


def assert_amounts(record: Ethtool, said: str, part: str, names: tuple[str, ...]) -> None:
    """``ethtool -l`` and ``-g``: maxima first, then what is set now."""
    ours = getattr(record, part)
    assert (ours is None) == (not said)
    if ours is None:
        return
    for prefix, text in zip(("max_", ""), re.split(r"Current hardware settings:", said), strict=True):
        for name in names:
            match = re.search(rf"^{name}:\s+(\S+)", text, re.MULTILINE)
            assert match is not None
            expected = None if match.group(1) == "n/a" else int(match.group(1))
            assert getattr(ours, prefix + name.lower().replace(" ", "_")) == expected, (part, prefix, name)


def assert_coalescing(record: Ethtool, said: str) -> None:
    """``ethtool -c``."""
    assert (record.coalescing is None) == (not said)
    if record.coalescing is None:
        return
    theirs = {name: int(value) for name, value in re.findall(r"^([a-z-]+):\s+(\d+)$", said, re.MULTILINE)}
    for label, key in (("Adaptive", "adaptive"), ("CQE mode", "cqe-mode")):
        for way, state in re.findall(rf"^{label}.*$", said, re.MULTILINE) and re.findall(
            r"(RX|TX): (on|off)", "".join(re.findall(rf"^{label}.*$", said, re.MULTILINE))
        ):
            theirs[f"{key}-{way.lower()}"] = int(state == "on")
    assert record.coalescing == theirs


def assert_settings(record: Ethtool, said: str) -> None:
    """``ethtool NAME``."""
    detected = re.search(r"Link detected: (yes|no)", said)
    if detected:
        assert record.state is not None
        assert record.state.detected == (detected.group(1) == "yes")
    speed = re.search(r"^\tSpeed: (.*)$", said, re.MULTILINE)
    assert (record.settings is None) == (speed is None)
    if record.settings is None or speed is None:
        return
    known = re.fullmatch(r"(\d+)Mb/s", speed.group(1))
    assert record.settings.speed == (int(known.group(1)) if known else None)

    def value(key: str) -> str:
        match = re.search(rf"^\t{key}: (.*)$", said, re.MULTILINE)
        assert match is not None, key
        return match.group(1)

    assert {"Full": "full", "Half": "half"}.get(value("Duplex").split()[0]) == record.settings.duplex
    assert (value("Auto-negotiation") == "on") == record.settings.autonegotiation
    assert PORTS[value("Port")] == record.settings.port
    assert value("Transceiver") == record.settings.transceiver
    for key, ours in (("Supported", record.settings.supported), ("Advertised", record.settings.advertised)):
        block = re.search(rf"^\t{key} link modes: +(.*(?:\n\t {{10,}}.*)*)", said, re.MULTILINE)
        assert block is not None
        assert tuple(word for word in block.group(1).split() if "base" in word) == ours


def assert_driver(record: Ethtool, said: str) -> None:
    """``ethtool -i``."""
    assert (record.driver is None) == (not said)
    if record.driver is None:
        return
    theirs = dict(re.findall(r"^(\S+): ?(.*)$", said, re.MULTILINE))
    ours = record.driver
    assert (ours.driver, ours.version, ours.firmware, ours.bus_info) == (
        theirs["driver"],
        theirs["version"],
        theirs["firmware-version"],
        theirs["bus-info"],
    )
