"""Persistent fixes work as printed: their shell lines are run on files of the test."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nictop.probe.records import Link
from nictop.rules import Fix, HostFacts
from nictop.rules.fixes.commands import Step
from nictop.rules.fixes.persistence import ethtool_fixes, mtu_fixes, sysctl_fixes
from tests.support.findings import step_texts
from tests.support.rule_cases import host_facts

FOUR = ("-L", "combined", "4")


def host_with(name: str, **more: Any) -> tuple[HostFacts, Link]:
    host = host_facts({"base": "kvm-guest", **more})
    link = host.links[0]
    return host, dataclasses.replace(link, name=name)


def persistent(fixes: tuple[Fix, ...]) -> Fix:
    assert [fix.persistent for fix in fixes] == [False, True]
    return fixes[1]


def run(lines: Iterable[Step | str]) -> None:
    for line in lines:
        subprocess.run(["sh", "-ec", str(line)], check=True, timeout=60)


def test_the_undo_restores_the_old_value() -> None:
    host, link = host_with("enp1s0")
    now, _ = ethtool_fixes(host, link, ["-G", "rx", "128", "tx", "64"])
    assert step_texts(now.commands) == ["ethtool -G enp1s0 rx 128 tx 64"]
    assert step_texts(now.undo) == ["ethtool -G enp1s0 rx 256 tx 256"]
    assert step_texts(ethtool_fixes(host, link, ["-X", "equal", "2"])[0].undo) == [
        "ethtool -X enp1s0 equal 4"
    ]
    assert step_texts(ethtool_fixes(host, link, ["-K", "tso", "off", "gro", "off"])[0].undo) == [
        "ethtool -K enp1s0 tso on gro on"
    ]
    assert (
        ethtool_fixes(host, link, ["-C", "rx-usecs", "8"])[0].undo == ()
    )  # the old value is unknown


@pytest.mark.parametrize("version", ["1.46.0", "1.52.1"])
def test_networkmanager_stores_the_setting_in_the_profile(version: str) -> None:
    host, link = host_with("enp1s0", networkmanager={"version": version})
    fix = persistent(ethtool_fixes(host, link, FOUR))
    uuid = "11111111-1111-4111-8111-111111111111"
    assert step_texts(fix.commands) == [f"nmcli con mod uuid {uuid} ethtool.channels-combined 4"]
    assert step_texts(fix.undo) == [f"nmcli con mod uuid {uuid} ethtool.channels-combined ''"]


def test_without_the_property_in_networkmanager_udev_is_used() -> None:
    host, link = host_with("enp1s0", networkmanager={"version": "1.42.4"})
    (line,) = step_texts(persistent(ethtool_fixes(host, link, FOUR)).commands)
    assert line.endswith("> /etc/udev/rules.d/90-enp1s0-channels.rules")
    assert 'RUN+="/usr/sbin/ethtool -L $name combined 4"' in line
    ring = persistent(ethtool_fixes(host, link, ["-G", "rx", "256"]))
    assert str(ring.commands[0]).endswith(" ethtool.ring-rx 256")


def test_the_line_of_a_stanza_is_added_and_removed(tmp_path: Path) -> None:
    interfaces = tmp_path / "interfaces of today"
    before = (
        "auto lo\niface lo inet loopback\n\n# iface enp1s0 inet dhcp\niface enp1s0x inet dhcp\n"
        "iface enp1s0 inet dhcp\n    metric 5\niface enp1s0 inet6 auto\n"
    )
    interfaces.write_text(before)
    entry = {"owner": "ifupdown", "file": str(interfaces), "line": 6, "names": ["enp1s0"]}
    host, link = host_with("enp1s0", networkmanager=None, configuration=[entry])
    fix = persistent(ethtool_fixes(host, link, FOUR))
    run(fix.commands)
    expected = (
        "iface enp1s0 inet dhcp\n    up ethtool -L enp1s0 combined 4 || true\n    metric "
        "5\niface enp1s0 inet6"
    )
    assert expected in interfaces.read_text()
    assert interfaces.read_text().count("ethtool") == 1
    run(fix.undo)
    assert interfaces.read_text() == before


def test_networkd_reads_a_drop_in(tmp_path: Path) -> None:
    host, link = host_with(
        "enp1s0", networkmanager=None, networkd={"enp1s0": {"setup_state": "configured"}}
    )
    fix = persistent(ethtool_fixes(host, link, FOUR))
    moved = [
        line.replace("/etc/systemd/network", str(tmp_path)) for line in step_texts(fix.commands)
    ]
    run(moved)
    run(moved)  # running it again changes nothing
    unit = (tmp_path / "50-enp1s0.link").read_text()
    assert unit.startswith(
        "[Match]\nMACAddress=52:54:00:00:00:01\nDriver=virtio_net\n[Link]\nNamePolicy=keep "
    )
    assert (
        tmp_path / "50-enp1s0.link.d" / "channels.conf"
    ).read_text() == "[Link]\nCombinedChannels=4\n"


def test_an_existing_link_file_is_extended() -> None:
    entry = {
        "owner": "link",
        "file": "/run/systemd/network/10-netplan-enp1s0.link",
        "line": 1,
        "names": ["enp1s0"],
    }
    networkd = {"enp1s0": {"setup_state": "configured"}}
    host, link = host_with("enp1s0", networkmanager=None, networkd=networkd, configuration=[entry])
    folder = "/etc/systemd/network/10-netplan-enp1s0.link.d"
    assert step_texts(persistent(ethtool_fixes(host, link, FOUR)).commands) == [
        f"mkdir -p {folder}",
        f"printf '%s\\n' '[Link]' CombinedChannels=4 > {folder}/channels.conf",
    ]


def test_a_hostile_name_is_one_argument_and_not_in_file_names() -> None:
    host, link = host_with("a';reboot;$(b)", networkmanager=None)
    now, later = ethtool_fixes(host, link, FOUR)
    words = subprocess.run(
        ["sh", "-c", str(now.commands[0]).replace("ethtool", "printf '%s|'", 1)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert words.stdout == "-L|a';reboot;$(b)|combined|4|"
    assert later.commands == () and later.note


def test_the_mtu_is_stored_where_the_address_is_configured() -> None:
    host, link = host_with("enp1s0")
    assert str(persistent(mtu_fixes(host, link, 9000)).commands[0]).endswith(
        " 802-3-ethernet.mtu 9000"
    )
    netplan = [{"owner": "netplan", "file": "/etc/netplan/a.yaml", "line": 3, "names": ["enp1s0"]}]
    networkd = {"enp1s0": {"setup_state": "configured"}}
    host, link = host_with("enp1s0", networkmanager=None, networkd=networkd, configuration=netplan)
    assert step_texts(persistent(mtu_fixes(host, link, 9000)).commands) == [
        "netplan set ethernets.enp1s0.mtu=9000"
    ]
    host, link = host_with("enp1s0", networkmanager=None)
    assert 'ATTR{mtu}="9000"' in str(persistent(mtu_fixes(host, link, 9000)).commands[0])


def test_the_undo_of_a_sysctl_has_its_old_value() -> None:
    host = host_facts(
        {"base": "kvm-guest", "settings": {"sysctl": {"net.core.netdev_max_backlog": 1000}}}
    )
    now, later = sysctl_fixes(host, "net.core.netdev_max_backlog", 4000)
    assert step_texts(now.undo) == ["sysctl -w net.core.netdev_max_backlog=1000"]
    assert step_texts(later.commands) == [
        "echo 'net.core.netdev_max_backlog = 4000' > /etc/sysctl.d/90-netdev-max-backlog.conf"
    ]


OFF_IN_UDEV = {
    "owner": "udev",
    "file": "/etc/udev/rules.d/50-mine.rules",
    "line": 3,
    "drivers": ["virtio_net"],
}


def notes(configuration: list[dict[str, Any]], *arguments: str) -> str:
    host, link = host_with("enp1s0", networkmanager=None, configuration=configuration)
    return persistent(ethtool_fixes(host, link, arguments)).note


def test_another_value_in_a_file_is_named() -> None:
    entry = {**OFF_IN_UDEV, "ethtool": {"feature-tso": 0, "channels-combined": 4}}
    wanted = "First remove the other value from /etc/udev/rules.d/50-mine.rules:3."
    assert notes([entry], "-K", "tso", "on", "gro", "on").startswith(wanted)
    assert notes([entry], "-L", "combined", "2").startswith(wanted)
    assert "First" not in notes([entry], "-L", "combined", "4")
    assert "First" not in notes([entry], "-K", "tso", "off")
    assert "First" not in notes([{**entry, "drivers": ["igb"]}], "-L", "combined", "2")


def test_a_file_that_the_fix_replaces_is_not_named() -> None:
    entry = {
        **OFF_IN_UDEV,
        "file": "/etc/udev/rules.d/90-enp1s0-channels.rules",
        "ethtool": {"channels-combined": 2},
    }
    assert "First" not in notes([entry], *FOUR)


def test_a_script_for_any_interface_may_be_for_another() -> None:
    entry = {
        "owner": "other",
        "file": "/etc/rc.local",
        "line": 2,
        "names": ["*"],
        "ethtool": {"feature-tso": 0},
    }
    assert "First" not in notes([entry], "-K", "tso", "on")
    assert "First" in notes([{**entry, "names": ["enp1s0"]}], "-K", "tso", "on")
