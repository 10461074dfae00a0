"""Configuration files that name links: literal files of each kind, their priority, and arbitrary
text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.configuration import collect as link_configuration
from nictop.probe.inventory.configuration import files as configuration_files
from nictop.probe.inventory.configuration.collect import read_link_configuration
from nictop.probe.inventory.configuration.firewalld import parse_zone
from nictop.probe.inventory.configuration.ifupdown import (
    SourceDirective,
    parse_assignments,
    parse_ifcfg,
    parse_interfaces,
)
from nictop.probe.inventory.configuration.netplan import parse_cloud_init, parse_netplan
from nictop.probe.inventory.configuration.networkd import parse_link, parse_network, parse_unit
from nictop.probe.inventory.configuration.sriov import (
    VfRequest,
    parse_modprobe,
    parse_numvfs,
    parse_numvfs_line,
)
from nictop.probe.inventory.configuration.udev import parse_udev_rules
from nictop.probe.inventory.configuration.yaml_subset import Node, parse_yaml
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import ConfigurationEntry, Unreadable

ANY = st.text(st.characters(codec="utf-8"), max_size=300)


def entry(owner: str, line: int, **fields: object) -> ConfigurationEntry:
    return ConfigurationEntry(owner=owner, file="f", line=line, **fields)  # type: ignore[arg-type]


def plain(node: Node) -> object:
    """The structure without lines."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value


# ------------------------------------------------------------------------------ netplan, cloud-init

NETPLAN = """# from the installer
network:
  version: 2
  renderer: NetworkManager
  ethernets:
    ens3: {dhcp4: true, match: {macaddress: "AA:bb:cc:dd:ee:ff"}, set-name: lan0}
    "ens[x]":   # a comment
      addresses:
      - 192.0.2.1/24
      - "2001:db8::1/64":
          label: x
      dhcp6: yes
      virtual-function-count: 4
    any:
      match:
        name: "en*"
        driver: [igb, "ix*"]
      dhcp4: on
  vlans:
    v10:
      id: 10
      link: ens3
      addresses: [
        10.0.0.1/24,   # first
        10.0.0.2/24 ]
"""


def test_netplan() -> None:
    assert parse_netplan(NETPLAN, "f") == [
        entry("netplan", 6, addresses=("aa:bb:cc:dd:ee:ff",), methods=("dhcp4",), new_name="lan0"),
        entry("netplan", 7, names=("ens[x]",), methods=("dhcp6", "static"), virtual_functions=4),
        entry("netplan", 14, names=("en*",), drivers=("igb", "ix*"), methods=("dhcp4",)),
        entry("netplan", 20, names=("v10",), methods=("static",), members=("lan0",)),
    ]


VERSION_1 = """network:
  version: 1
  config:
  - type: physical
    name: eth0
    mac_address: '52:54:00:12:34:AA'
    subnets:
      - type: dhcp
      - {type: static, address: 192.0.2.1/24}
  - type: bond
    name: bond0
    subnets: [{type: ipv6_dhcpv6-stateful}]
  - type: nameserver
    address: [192.0.2.53]
"""


def test_cloud_init() -> None:
    assert parse_cloud_init(VERSION_1, "f") == [
        entry(
            "cloud-init",
            4,
            addresses=("52:54:00:12:34:aa",),
            methods=("dhcp4", "static"),
            new_name="eth0",
        ),
        entry("cloud-init", 10, names=("bond0",), methods=("dhcp6",)),
    ]
    as_json = (
        '{"version": 1,\n "config": [{"type": "physical",\n "name": "e0", "subnets": '
        '[{"type": "static"}]}]}'
    )
    assert parse_cloud_init(as_json, "f") == [
        entry("cloud-init", 1, names=("e0",), methods=("static",))
    ]
    off = "#cloud-config\nnetwork: {config: disabled}\n"
    assert parse_cloud_init(off, "f") == [entry("cloud-init", 2, names=("*",), ignores=True)]
    version_2 = "version: 2\nethernets:\n    eth0:\n        dhcp4: true\n"
    assert parse_cloud_init(version_2, "f") == [
        entry("cloud-init", 3, names=("eth0",), methods=("dhcp4",))
    ]
    assert parse_cloud_init("users:\n- default\nruncmd: [a, b]\n", "f") == []


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("a: b # c\nd: 'x # y'\n", {"a": "b", "d": "x # y"}),
        ("---\na:\n- b\n- c: d\n  e: f\n-\n  g: h\n---\nnext: 2", {"a": ["b", {"c": "d", "e": "f"},
            {"g": "h"}]}),
        ("a: |\n  text: [no\n\n   more\nb: >-\n  x\nc: &anchor !tag d\n", {"a": "", "b": "",
            "c": "d"}),
        ("a: {b: [c, {d: e}], 'f g': h}\n", {"a": {"b": ["c", {"d": "e"}], "f g": "h"}}),
        ("- - a\n  - b\n- c\n", [["a", "b"], "c"]),
        ("a:\n   b: 1\n  c: 2\nd: 3\n", {"a": {"b": "1"}, "d": "3"}),
        ("mac: 00:50:56:aa:bb:cc\nurl: http://x:1/#y\n", {"mac": "00:50:56:aa:bb:cc", "url": "http://x:1/#y"}),
        ("a: {b", {"a": {}}),
        ("a: {b: c", {"a": {"b": "c"}}),
        ("", ""),
    ],
)  # fmt: skip
def test_structures(text: str, structure: object) -> None:
    assert plain(parse_yaml(text)) == structure


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(" " * depth + "a:" for depth in range(1500)),
        "[" * 100_000,
        "- " * 50_000 + "a",
        "{a: " * 50_000,
    ],
    ids=["blocks", "lists", "items", "maps"],
)
def test_deeply_nested_files(text: str) -> None:
    """Deeper than the recursion limit of Python."""
    parse_yaml(text)


# ---------------------------------------------------------------------------------- ifupdown, ifcfg

INTERFACES = """# interfaces(5)
source /etc/network/interfaces.d/*
source-directory more
auto lo ens3
iface lo inet loopback
iface ens3 inet dhcp
  # comment
    pre-up echo 4 > /sys/class/net/$IFACE/device/sriov_numvfs
iface ens3 inet6 auto
allow-hotplug ens4
iface ens4 inet \\
    static
    address 192.0.2.1/24
iface vmbr0
    address 192.0.2.2/24
    bridge_ports ens5 eno1.100 none
iface bond0
    bond-slaves ens6 ens7
iface ppp0 inet ppp
"""


def test_ifupdown() -> None:
    entries, sources = parse_interfaces(INTERFACES, "/etc/network/interfaces")
    assert [replace(found, file="f") for found in entries] == [
        entry("ifupdown", 5, names=("lo",), methods=("loopback",)),
        entry("ifupdown", 6, names=("ens3",), methods=("dhcp4",), virtual_functions=4),
        entry("ifupdown", 9, names=("ens3",), methods=("auto",)),
        entry("ifupdown", 11, names=("ens4",), methods=("static",)),
        entry("ifupdown", 14, names=("vmbr0",), members=("ens5", "eno1.100")),
        entry("ifupdown", 17, names=("bond0",), members=("ens6", "ens7")),
        entry("ifupdown", 19, names=("ppp0",), methods=("ppp",)),
    ]
    assert sources == [
        SourceDirective("/etc/network/interfaces.d/*", False),
        SourceDirective("/etc/network/more", True),
    ]


def test_names_that_a_stanza_of_netplan_uses() -> None:
    text = (
        "network:\n  bridges:\n    br0: {interfaces: [ens3, ens4]}\n  vlans:\n    v5: {id: 5, "
        "link: ens3}\n"
    )
    assert {one.names: one.members for one in parse_netplan(text, "f")} == {
        ("br0",): ("ens3", "ens4"),
        ("v5",): ("ens3",),
    }
    text += "  ethernets:\n    ens3: {match: {macaddress: '00:50:56:00:00:01'}, set-name: lan0}\n"
    text += "    ens4: {match: {driver: igb}}\n"
    assert [one.members for one in parse_netplan(text, "f") if one.names == ("br0",)] == [("lan0",)]


def test_names_that_an_ifcfg_file_uses() -> None:
    text = "STARTMODE=auto\nBONDING_SLAVE0='eth0'\nBONDING_SLAVE_1=eth1\n"
    bond, bridge = (
        parse_ifcfg(text, "/x/ifcfg-bond0"),
        parse_ifcfg("BRIDGE_PORTS='eth0 eth2'\n", "/x/ifcfg-br0"),
    )
    assert bond is not None and bridge is not None
    assert (bond.members, bridge.members) == (("eth0", "eth1"), ("eth0", "eth2"))


ZONE = """<?xml version="1.0"?>
<zone>
  <!-- <interface name="old0"/> -->
  <interface name="ens3"/> <interface name='ens4'/>
  <service name="ssh"/>
</zone>
"""


def test_zones_of_firewalld() -> None:
    assert parse_zone(ZONE, "f") == [entry("firewalld", 4, names=("ens3", "ens4"))]
    assert parse_zone("<zone><service name='ssh'/></zone>", "f") == []


def test_ifcfg() -> None:
    text = (
        'TYPE=Ethernet\nDEVICE="ens3"\nBOOTPROTO=none\nIPADDR0=192.0.2.1\nHWADDR=00:50:56:AA:BB'
        ":CC\n"
    )
    expected = entry(
        "ifcfg", 1, names=("ens3",), addresses=("00:50:56:aa:bb:cc",), methods=("static",)
    )
    assert parse_ifcfg(text, "f") == expected
    left = parse_ifcfg("BOOTPROTO='dhcp'\nNM_CONTROLLED=no\n", "/x/ifcfg-eth1")
    assert left is not None
    assert (left.names, left.methods, left.ignores) == (("eth1",), ("dhcp4",), True)
    by_address = parse_ifcfg(
        "HWADDR=00:50:56:AA:BB:CC\nDHCPV6C=yes\n", "/x/ifcfg-Wired_connection_1"
    )
    assert by_address is not None
    assert (by_address.names, by_address.addresses) == ((), ("00:50:56:aa:bb:cc",))
    assert by_address.methods == ("dhcp6",) and not by_address.ignores
    assert parse_ifcfg("# nothing\n", "/x/ifcfg-eth0") is None
    assert parse_assignments("A='x' # y\nexport B=\"z\nC=$(id)") == {
        "A": "x",
        "B": "z",
        "C": "$(id)",
    }


# ------------------------------------------------------------------------------------ systemd


def test_network_files() -> None:
    text = (
        "[Match]\nName=ens3 "
        "en*\nMACAddress=00-50-56-AA-BB-CC\n\n[Network]\nDHCP=ipv4\nAddress=192.0.2.1/24\n"
    )
    expected = entry(
        "networkd",
        1,
        names=("ens3", "en*"),
        addresses=("00:50:56:aa:bb:cc",),
        methods=("dhcp4", "static"),
    )
    assert parse_network([text], "f") == expected
    assert parse_network(
        [text, "[Network]\nDHCP=no\nAddress=\n[Link]\nUnmanaged=yes\n"], "f"
    ) == replace(expected, methods=(), ignores=True)
    both = parse_network(
        [
            "# a\n[Match]\nDriver=igb \\\n# between\n  "
            "ixgbe\nPath=pci-0000:02:*\n[Network]\nDHCP=yes"
        ],
        "f",
    )
    assert both == entry(
        "networkd",
        2,
        drivers=("igb", "ixgbe"),
        paths=("pci-0000:02:*",),
        methods=("dhcp4", "dhcp6"),
    )
    assert parse_network(["[Network]\nDHCP=yes\n"], "f") is None
    assert [found.line for found in parse_unit("x=1\n[A]\nb=c\n")] == [2, 3]


def test_link_files() -> None:
    text = (
        "[Match]\nOriginalName=*\nPermanentMACAddress=00:50:56:aa:bb:c"
        "c\n[Link]\nName=lan0\nSR-IOVVirtualFunctions=4\n"
    )
    expected = entry(
        "link",
        1,
        names=("*",),
        addresses=("00:50:56:aa:bb:cc",),
        new_name="lan0",
        virtual_functions=4,
    )
    assert parse_link([text], "f") == expected
    assert parse_link(["[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep kernel\n"], "f") is None


# ------------------------------------------------------------------------------------ udev

RULES = """# a comment, \\
SUBSYSTEM=="net", ACTION=="add", ATTR{address}=="00:50:56:AA:bb:cc", NAME="lan0"
SUBSYSTEM=="net", KERNEL=="eth0|eth1", ENV{NM_UNMANAGED}="1"
ACTION=="add", SUBSYSTEM=="net", ENV{ID_NET_DRIVER}=="igb", \\
    ATTR{device/sriov_numvfs}="4"
ACTION=="add", KERNELS=="0000:02:00.0", RUN+="/bin/sh -c 'echo 2 > /sys$devpath/sriov_numvfs'"
SUBSYSTEM=="net", ENV{NM_UNMANAGED}="1"
ENV{DEVTYPE}=="gadget", ENV{NM_UNMANAGED}="1"
SUBSYSTEM=="net", NAME=="", ENV{ID_NET_NAME}!="", NAME="$env{ID_NET_NAME}"
KERNEL=="device-mapper", NAME="mapper/control"
KERNEL=="eth2", ENV{NM_UNMANAGED}="0"
KERNEL=="eth3", ENV{NM_UNMANAGED}=="1", TAG+="x"
"""


def test_udev_rules() -> None:
    assert parse_udev_rules(RULES, "f") == [
        entry("udev", 2, addresses=("00:50:56:aa:bb:cc",), new_name="lan0"),
        entry("udev", 3, names=("eth0", "eth1"), ignores=True),
        entry("udev", 4, drivers=("igb",), virtual_functions=4),
        entry("udev", 6, paths=("0000:02:00.0",), virtual_functions=2),
        entry("udev", 7, names=("*",), ignores=True),
        entry("udev", 8, ignores=True),
    ]


# -------------------------------------------------------------------------------- virtual functions


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo 4 > /sys/class/net/ens1f0/device/sriov_numvfs", VfRequest("ens1f0", "", 4)),
        ("ExecStart=sh -c 'echo 8 > /sys/bus/pci/devices/0000:3B:00.1/sriov_numvfs'", VfRequest("",
            "0000:3b:00.1", 8)),
        ("  echo 2 | sudo tee /sys/class/net/ens1f0/device/sriov_numvfs", VfRequest("ens1f0", "",
            2)),
        ("/sys/class/net/ens1f0/device/sriov_numvfs=16", VfRequest("ens1f0", "", 16)),
        ("class/net/ens1f0/device/sriov_numvfs = 16", VfRequest("ens1f0", "", 16)),
        ("w /sys/class/net/ens1f0/device/sriov_numvfs - - - - 6", VfRequest("ens1f0", "", 6)),
        ('echo "$n" > "/sys/class/net/$i/device/sriov_numvfs"', VfRequest("", "", None)),
        ("cat /sys/class/net/ens1f0/device/sriov_numvfs", None),
        ("# echo 4 > /sys/class/net/ens1f0/device/sriov_numvfs", None),
        ("echo 4 > /sys/class/net/ens1f0/mtu", None),
    ],
)  # fmt: skip
def test_lines_that_write_sriov_numvfs(line: str, expected: VfRequest | None) -> None:
    assert parse_numvfs_line(line) == expected


def test_virtual_functions_at_boot() -> None:
    text = (
        "#!/bin/sh\necho 0 > /sys/class/net/e/device/sriov_numvfs\necho 4 > "
        "/sys/class/net/e/device/sriov_numvfs\n"
    )
    assert parse_numvfs(text, "f") == [entry("sriov", 3, names=("e",), virtual_functions=4)]
    text = (
        "options igb max_vfs=4,4 debug=1\noptions mlx4-core num_vfs=2\noptions kvm "
        "nested=1\n#options igb max_vfs=1\n"
    )
    assert parse_modprobe(text, "f") == [
        entry("sriov", 1, drivers=("igb",), virtual_functions=4),
        entry("sriov", 2, drivers=("mlx4_core",), virtual_functions=2),
    ]


# ------------------------------------------------------------------------------------ any text

Parse = Callable[[str], object]
PARSERS: dict[str, tuple[Parse, str]] = {
    "netplan": (lambda text: parse_netplan(text, "f"), NETPLAN),
    "cloud-init": (lambda text: parse_cloud_init(text, "f"), VERSION_1),
    "ifupdown": (lambda text: parse_interfaces(text, "f")[0], INTERFACES),
    "ifcfg": (lambda text: [parse_ifcfg(text, "f") or entry("ifcfg", 1)],
        "DEVICE='ens3\nBOOTPROTO=dhcp\n"),
    "network": (lambda text: [parse_network([text], "f") or entry("networkd", 1)],
        "[Match]\nName=a\n[Link]\nA=\n"),
    "link": (lambda text: [parse_link([text], "f") or entry("link", 1)], "[Match]\nOriginalName="
                                                                         "a\n[Link]\nName=b\n"),
    "udev": (lambda text: parse_udev_rules(text, "f"), RULES),
    "firewalld": (lambda text: parse_zone(text, "f"), ZONE),
    "modprobe": (lambda text: parse_modprobe(text, "f"), "options igb max_vfs=4\n"),
    "writers": (lambda text: parse_numvfs(text, "f"), "echo 4 > "
                                                      "/sys/class/net/e/device/sriov_numvfs\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARSERS)
@given(data=st.data())
def test_any_text_can_be_parsed(kind: str, data: st.DataObject) -> None:
    """Arbitrary text, and real files with an error in the middle."""
    parse, real = PARSERS[kind]
    position = data.draw(st.integers(0, len(real)))
    text = data.draw(ANY)
    for candidate in (
        text,
        real[:position] + text + real[position + data.draw(st.integers(0, 20)) :],
    ):
        entries = json.dumps(parse(candidate), default=field_mapping)
        msgspec.json.decode(entries.encode(), type=list[ConfigurationEntry])


# ------------------------------------------------------------------------------------ the files


def write_files(root: Path, files: dict[str, str]) -> dict[str, str]:
    """Write files below a root; the keyword arguments for reading there."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return {part: str(root / part) for part in ("etc", "run", "usr", "var")}


def test_a_host_with_files_of_each_kind(tmp_path: Path) -> None:
    roots = write_files(
        tmp_path,
        {
            "etc/netplan/50-cloud-init.yaml": "network: {ethernets: {ens3: {dhcp4: true}}}\n",
            "etc/netplan/notes.txt": "network: {ethernets: {ens9: {dhcp4: true}}}\n",
            "etc/network/interfaces": "source interfaces.d/*\niface ens4 inet manual\n",
            "etc/network/interfaces.d/own": "source /etc/network/interfaces\niface ens5 inet "
                                            "dhcp\n",
            "etc/systemd/network/10-a.network": "[Match]\nName=ens6\n",
            "etc/systemd/network/10-a.network.d/x.conf": "[Link]\nUnmanaged=yes\n",
            "usr/lib/systemd/network/10-a.network": "[Match]\nName=hidden\n",
            "usr/lib/systemd/network/20-b.network": "[Match]\nName=shipped\n",
            "etc/systemd/network/20-b.network": "",
            "run/systemd/network/10-c.link": "[Match]\nMACAddress=00:00:00:00:00:0"
                                             "1\n[Link]\nName=lan1\n",
            "etc/udev/rules.d/70-persistent-net.rules": 'KERNEL=="eth*", NAME="lan0"\n',
            "usr/lib/udev/rules.d/70-persistent-net.rules": 'KERNEL=="hidden", NAME="lan9"\n',
            "etc/sysconfig/network-scripts/ifcfg-ens7": "DEVICE=ens7\nONBOOT=yes\n",
            "etc/sysconfig/network-scripts/ifcfg-ens7.bak": "DEVICE=ens8\n",
            "etc/cloud/cloud.cfg.d/99-off.cfg": "network: {config: disabled}\n",
            "var/lib/cloud/seed/nocloud/network-config": "version: 2\nethernets: {eth9: {}}\n",
            "etc/firewalld/zones/internal.xml": "<zone><interface name='ens9'/></zone>\n",
            "etc/firewalld/zones/internal.xml.old": "<zone><interface name='hidden'/></zone>\n",
            "etc/modprobe.d/igb.conf": "options igb max_vfs=2\n",
            "etc/rc.d/rc.local": "echo 4 > /sys/class/net/ens1f0/device/sriov_numvfs\n",
            "etc/tuned/mine/tuned.conf": "[sysfs]\n/sys/class/net/ens2/device/sriov_numvfs=3\n",
            "etc/systemd/system/vf.service": "ExecStart=sh -c 'echo 5 "
                                             ">/sys/class/net/e/device/sriov_numvfs'\n",
        },
    )  # fmt: skip
    os.symlink("rc.d/rc.local", tmp_path / "etc/rc.local")
    found, trouble = read_link_configuration(**roots)
    assert trouble is None
    assert list(found) == sorted(found, key=lambda one: (one.file, one.line))
    by_path = {os.path.relpath(one.file, tmp_path): one for one in found}
    assert {
        path: (one.owner, one.names or one.addresses or one.drivers)
        for path, one in by_path.items()
    } == {
        "etc/cloud/cloud.cfg.d/99-off.cfg": ("cloud-init", ("*",)),
        "etc/firewalld/zones/internal.xml": ("firewalld", ("ens9",)),
        "etc/modprobe.d/igb.conf": ("sriov", ("igb",)),
        "etc/netplan/50-cloud-init.yaml": ("netplan", ("ens3",)),
        "etc/network/interfaces": ("ifupdown", ("ens4",)),
        "etc/network/interfaces.d/own": ("ifupdown", ("ens5",)),
        "etc/rc.local": ("sriov", ("ens1f0",)),
        "etc/sysconfig/network-scripts/ifcfg-ens7": ("ifcfg", ("ens7",)),
        "etc/systemd/network/10-a.network": ("networkd", ("ens6",)),
        "etc/systemd/system/vf.service": ("sriov", ("e",)),
        "etc/tuned/mine/tuned.conf": ("sriov", ("ens2",)),
        "etc/udev/rules.d/70-persistent-net.rules": ("udev", ("eth*",)),
        "run/systemd/network/10-c.link": ("link", ("00:00:00:00:00:01",)),
        "var/lib/cloud/seed/nocloud/network-config": ("cloud-init", ("eth9",)),
    }
    assert by_path["etc/systemd/network/10-a.network"].ignores, "set in its drop-in"
    assert len(found) == len(by_path)


def test_only_entries_of_a_file_are_returned(tmp_path: Path) -> None:
    secret = (
        "network:\n  wifis:\n    wlan0:\n      access-points: {home: {password: hunter2}}\n  "
        "    dhcp4: true\n"
    )
    found, _ = read_link_configuration(**write_files(tmp_path, {"etc/netplan/w.yaml": secret}))
    assert found[0].names == ("wlan0",) and "hunter2" not in json.dumps(
        found, default=field_mapping
    )


def test_times_of_netplan_and_of_what_it_generates(tmp_path: Path) -> None:
    roots = write_files(
        tmp_path,
        {
            "etc/netplan/a.yaml": "network: {ethernets: {ens3: {dhcp4: true}}}\n",
            "run/systemd/network/10-netplan-ens3.network": "[Match]\nName=ens3\n",
            "etc/systemd/network/20-b.network": "[Match]\nName=ens4\n",
        },
    )
    for path in ("etc/netplan/a.yaml", "run/systemd/network/10-netplan-ens3.network"):
        os.utime(tmp_path / path, (1_700_000_000, 1_700_000_000.5))
    found, _ = read_link_configuration(**roots)
    assert {os.path.basename(one.file): one.modified for one in found} == {
        "a.yaml": 1_700_000_000.5,
        "10-netplan-ens3.network": 1_700_000_000.5,
        "20-b.network": None,
    }


def test_an_empty_host(tmp_path: Path) -> None:
    assert read_link_configuration(**write_files(tmp_path, {})) == ((), None)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    """Not a FIFO without writer, a directory, a broken symbolic link or a loop of them."""
    roots = write_files(tmp_path, {"etc/netplan/50.yaml": "network: {ethernets: {ens3: {}}}\n"})
    os.mkfifo(tmp_path / "etc/netplan/10.yaml")
    (tmp_path / "etc/netplan/20.yaml").mkdir()
    os.symlink("nowhere", tmp_path / "etc/netplan/30.yaml")
    os.symlink("/dev/zero", tmp_path / "etc/netplan/40.yaml")
    os.symlink("60.yaml", tmp_path / "etc/netplan/60.yaml")
    found, trouble = read_link_configuration(**roots)
    assert [one.names for one in found] == [("ens3",)]
    assert trouble is not None and trouble.detail.endswith("60.yaml: ELOOP")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    roots = write_files(tmp_path, {"etc/netplan/50.yaml": "network: {}\n"})
    (tmp_path / "etc/netplan/50.yaml").chmod(0)
    assert read_link_configuration(**roots)[1] == Unreadable(
        "needs_root", f"{tmp_path}/etc/netplan/50.yaml: EACCES"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="takes rights away, which only root has")
def test_unreadable_files_are_reported_to_a_plain_user(tmp_path: Path) -> None:
    """In a fork, because dropped privileges cannot be regained."""
    roots = write_files(
        tmp_path, {"etc/netplan/50.yaml": "network: {}\n", "etc/netplan/60.yaml": "network: {}\n"}
    )
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o600 if path.is_file() else 0o755)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(tmp_path)  # the user may have no access to the parent directories
        os.setresuid(65534, 65534, 65534)
        relative = {part: part for part in roots}
        os.write(writer, repr(read_link_configuration(**relative)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        result = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert result == repr(((), Unreadable("needs_root", "etc/netplan/50.yaml: EACCES and 1 more")))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "\n".join(f"iface e{number} inet dhcp" for number in range(50))
    roots = write_files(tmp_path, {f"etc/network/interfaces.d/{n:03}": many for n in range(20)})
    (tmp_path / "etc/network/interfaces").write_text("source interfaces.d/*\n")
    assert len(read_link_configuration(**roots)[0]) == 1000
    monkeypatch.setattr(link_configuration, "MAX_CONFIGURATION_ENTRIES", 30)
    assert len(read_link_configuration(**roots)[0]) == 30
    monkeypatch.setattr(link_configuration, "MAX_CONFIGURATION_ENTRIES", 2000)
    monkeypatch.setattr(configuration_files, "MAX_CONFIGURATION_FILES", 5)
    found, trouble = read_link_configuration(**roots)
    assert len(found) == 4 * 50 and trouble is not None and "more than 5 files" in trouble.detail
    monkeypatch.setattr(configuration_files, "MAX_CONFIGURATION_FILE_BYTES", 200)
    assert len(read_link_configuration(**roots)[0]) < 4 * 12
