"""Compare records with the output of iproute2 and ethtool, field by field.

The reference is ``ip -j -s -d link``, ``ip -j addr`` and the plain output of ethtool. Where a tool
prints nothing for a field, our record must have None, and the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Address, Ethtool, Link

EthtoolOutput = Callable[[str], str]
"""ethtool option ("" for none) → its output, "" when it failed."""

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
PORTS = {
    "Twisted Pair": "tp",
    "Other": "other",
    "FIBRE": "fibre",
    "Direct Attach Copper": "da",
    "None": "none",
}
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
"""Lines of ``ethtool -k`` that summarise several features."""


def assert_link(
    link: Link, output: Mapping[str, Any], names: Mapping[int, str], *, exact_counters: bool
) -> None:
    """One element of ``ip -j -s -d link``; `names` are those of all links by ifindex."""
    flags = {name for name, bit in FLAGS.items() if link.flags & bit}
    assert flags == set(output["flags"]) - {"NO-CARRIER", "M-DOWN"}
    assert ("NO-CARRIER" in output["flags"]) == (link.carrier is False)
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
    assert simple == {key: output.get(key) for key in simple}
    assert LINK_TYPES[output["link_type"]] == link.type
    assert output.get("txqlen", 0) == link.tx_queue_length
    assert tuple(output.get("altnames", ())) == link.altnames
    assert output.get("ifalias") == link.alias
    assert output.get("linkinfo", {}).get("info_kind") == link.kind
    assert output.get("permaddr", link.permanent_address) == link.permanent_address
    assert output.get("parentbus", link.bus) == link.bus
    assert output.get("parentdev", link.device) == link.device
    assert output.get("master") == (names[link.master] if link.master else None)
    assert output.get("link_netnsid") == link.lower_namespace
    if link.lower is not None and link.lower_namespace is None:
        assert output.get("link") == names[link.lower]
    assert_details(link, output.get("linkinfo", {}).get("info_data", {}))
    assert_bridge_port(link, output.get("linkinfo", {}))
    assert_counters(link, output["stats64"], exact=exact_counters)
    assert len(output.get("vfinfo_list", ())) == len(link.virtual_functions)
    for function, entry in zip(link.virtual_functions, output.get("vfinfo_list", ()), strict=True):
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
            **{
                key: entry[key]
                for key in ("vf", "address", "spoofchk", "link_state", "trust", "rate")
            },
            "vlan": vlan.get("vlan", 0),
            "qos": vlan.get("qos", 0),
        }


def assert_details(link: Link, output: Mapping[str, Any]) -> None:
    """The attributes of IFLA_INFO_DATA that `Link.details` has."""
    expected: dict[str, Any] = {}
    if link.kind == "vxlan":
        expected = {"vxlan_id": output["id"], "vxlan_port": output["port"]}
    elif link.kind in ("macvlan", "macvtap"):
        expected = {"macvlan_mode": output["mode"]}
    elif link.kind == "vlan":
        expected = {"vlan_id": output["id"], "vlan_protocol": output["protocol"]}
    elif link.kind == "bond":
        expected = {"bond_mode": output["mode"]}
    elif link.kind == "tun":
        expected = {"tun_type": output["type"], "tun_multi_queue": output["multi_queue"]}
    elif link.kind == "bridge":
        expected = {
            "bridge_stp": bool(output["stp_state"]),
            "bridge_vlan_filtering": bool(output["vlan_filtering"]),
        }
        if "vlan_default_pvid" in output:
            expected["bridge_default_pvid"] = output["vlan_default_pvid"]
            expected["bridge_vlan_protocol"] = output["vlan_protocol"]
    assert {key: link.details.get(key) for key in expected} == expected


def assert_bridge_port(link: Link, output: Mapping[str, Any]) -> None:
    """The attributes of IFLA_INFO_SLAVE_DATA that `BridgePort` has; an older ``ip`` prints
    fewer."""
    assert (link.bridge_port is not None) == (output.get("info_slave_kind") == "bridge")
    if link.bridge_port is not None:
        ours = dict(field_mapping(link.bridge_port), designated_bridge=None)
        theirs = {
            key: value
            for key, value in output["info_slave_data"].items()
            if ours.get(key) is not None
        }
        assert {"state", "learning", "hairpin"} <= theirs.keys()
        assert {key: ours[key] for key in theirs} == theirs


def assert_counters(link: Link, output: Mapping[str, Any], *, exact: bool) -> None:
    """stats64; on a live host the tool reads later, so that its values can be higher (`exact`
    False)."""
    assert link.counters is not None
    ours = dict(
        zip(("rx_packets", "tx_packets", "rx_bytes", "tx_bytes"), link.counters, strict=False)
    )
    theirs = {
        f"{way}_{unit}": output[way][unit] for unit in ("packets", "bytes") for way in ("rx", "tx")
    }
    assert ours == theirs if exact else all(ours[key] <= theirs[key] for key in ours)
    assert link.counters[8] <= output["rx"]["multicast"]
    assert link.counters[4:8] == (
        output["rx"]["errors"],
        output["tx"]["errors"],
        output["rx"]["dropped"],
        output["tx"]["dropped"],
    )


def assert_addresses(addresses: tuple[Address, ...], output: list[Mapping[str, Any]]) -> None:
    """``addr_info`` of ``ip -j addr``."""
    ours = {
        (a.family, a.address, a.prefix_length, a.scope, "permanent" in a.flags) for a in addresses
    }
    theirs = {
        (
            "ipv4" if entry["family"] == "inet" else "ipv6",
            entry["local"],
            entry["prefixlen"],
            entry["scope"],
            not entry.get("dynamic", False),
        )
        for entry in output
    }
    assert ours == theirs
    by_text = {a.address: a.flags for a in addresses}
    for entry in output:
        for flag in (
            "tentative",
            "deprecated",
            "dadfailed",
            "noprefixroute",
            "temporary",
            "secondary",
        ):
            assert entry.get(flag, False) == (flag in by_text[entry["local"]])


def assert_ethtool(record: Ethtool, output: EthtoolOutput) -> None:
    """Everything that plain ethtool prints about one link."""
    assert_features(record, output("-k"))
    assert_amounts(record, output("-l"), "channels", ("RX", "TX", "Other", "Combined"))
    assert_amounts(record, output("-g"), "rings", ("RX", "RX Mini", "RX Jumbo", "TX"))
    assert_coalescing(record, output("-c"))
    pause = output("-a")
    assert (record.pause is None) == (not pause)
    if record.pause is not None:
        flags = {
            "Autonegotiate": record.pause.autonegotiation,
            "RX": record.pause.rx,
            "TX": record.pause.tx,
        }
        for key, value in flags.items():
            assert f"{key}:\t{'on' if value else 'off'}" in re.sub(r"\t+", "\t", pause)
    assert_settings(record, output(""))
    private_flags = dict(
        re.findall(r"^(\S.*\S) *: (on|off)$", output("--show-priv-flags"), re.MULTILINE)
    )
    assert {key: value == "on" for key, value in private_flags.items()} == (
        record.private_flags or {}
    )
    rows = re.findall(r"^ *\d+: +([\d ]+)$", output("-x"), re.MULTILINE)
    if record.rss is not None:
        assert tuple(int(slot) for row in rows for slot in row.split()) == record.rss.indirection
        chosen = re.findall(r"^ +(toeplitz|xor|crc32): on$", output("-x"), re.MULTILINE)
        assert not chosen or chosen == [record.rss.hash_function]
    else:
        assert not rows


def assert_features(record: Ethtool, output: str) -> None:
    """``ethtool -k``: every line except the summaries, and no other features in the record."""
    assert record.features is not None
    ours = {feature.name: feature for feature in record.features}
    lines = re.findall(
        r"^\t?(\S+): (on|off)( \[fixed\])?( \[requested on\]| \[requested off\])?$",
        output,
        re.MULTILINE,
    )
    singles = [line for line in lines if line[0] not in GROUPS]
    assert len(singles) >= 40
    for name, active, fixed, requested in singles:
        feature = ours.pop(ALIASES.get(name, name))
        assert (feature.active, feature.fixed) == (active == "on", bool(fixed)), name
        if not fixed:
            assert (feature.active != feature.wanted) == bool(requested), name
    assert not ours


def assert_amounts(record: Ethtool, output: str, part: str, names: tuple[str, ...]) -> None:
    """``ethtool -l`` and ``-g``: maxima first, then what is set now."""
    ours = getattr(record, part)
    assert (ours is None) == (not output)
    if ours is None:
        return
    for prefix, text in zip(
        ("max_", ""), re.split(r"Current hardware settings:", output), strict=True
    ):
        for name in names:
            match = re.search(rf"^{name}:\s+(\S+)", text, re.MULTILINE)
            assert match is not None
            expected = None if match.group(1) == "n/a" else int(match.group(1))
            assert getattr(ours, prefix + name.lower().replace(" ", "_")) == expected, (
                part,
                prefix,
                name,
            )


def assert_coalescing(record: Ethtool, output: str) -> None:
    """``ethtool -c``."""
    assert (record.coalescing is None) == (not output)
    if record.coalescing is None:
        return
    theirs = {
        name: int(value)
        for name, value in re.findall(r"^([a-z-]+):\s+(\d+)$", output, re.MULTILINE)
    }
    for label, key in (("Adaptive", "adaptive"), ("CQE mode", "cqe-mode")):
        for way, state in re.findall(rf"^{label}.*$", output, re.MULTILINE) and re.findall(
            r"(RX|TX): (on|off)", "".join(re.findall(rf"^{label}.*$", output, re.MULTILINE))
        ):
            theirs[f"{key}-{way.lower()}"] = int(state == "on")
    assert record.coalescing == theirs


def assert_settings(record: Ethtool, output: str) -> None:
    """``ethtool NAME``."""
    detected = re.search(r"Link detected: (yes|no)", output)
    if detected:
        assert record.state is not None
        assert record.state.detected == (detected.group(1) == "yes")
    speed = re.search(r"^\tSpeed: (.*)$", output, re.MULTILINE)
    assert (record.settings is None) == (speed is None)
    if record.settings is None or speed is None:
        return
    known = re.fullmatch(r"(\d+)Mb/s", speed.group(1))
    assert record.settings.speed == (int(known.group(1)) if known else None)

    def value(key: str) -> str:
        match = re.search(rf"^\t{key}: (.*)$", output, re.MULTILINE)
        assert match is not None, key
        return match.group(1)

    assert {"Full": "full", "Half": "half"}.get(
        value("Duplex").split()[0]
    ) == record.settings.duplex
    assert (value("Auto-negotiation") == "on") == record.settings.autonegotiation
    assert PORTS[value("Port")] == record.settings.port
    assert value("Transceiver") == record.settings.transceiver
    for key, ours in (
        ("Supported", record.settings.supported),
        ("Advertised", record.settings.advertised),
    ):
        block = re.search(rf"^\t{key} link modes: +(.*(?:\n\t {{10,}}.*)*)", output, re.MULTILINE)
        assert block is not None
        assert tuple(word for word in block.group(1).split() if "base" in word) == ours


def assert_driver(record: Ethtool, output: str) -> None:
    """``ethtool -i``."""
    assert (record.driver is None) == (not output)
    if record.driver is None:
        return
    theirs = dict(re.findall(r"^(\S+): ?(.*)$", output, re.MULTILINE))
    ours = record.driver
    assert (ours.driver, ours.version, ours.firmware, ours.bus_info) == (
        theirs["driver"],
        theirs["version"],
        theirs["firmware-version"],
        theirs["bus-info"],
    )
