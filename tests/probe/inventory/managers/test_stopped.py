"""Managers that are installed but not running: unit files and profiles in a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from nictop.probe.inventory.managers.stopped import (
    parse_ifcfg_on_boot,
    parse_keyfile,
    read_stopped_managers,
)
from nictop.probe.records import ConfigurationEntry, StoppedManager

KEYFILE = """# written by nmcli
[connection]
id=storage
uuid=33333333-3333-4333-8333-333333333333
type=ethernet
interface-name=ens224

[ethernet]
mac-address=52:54:00:AA:BB:01

[802-1x]
password=secret

[ipv4]
method=manual
address1=192.0.2.1/24
"""


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, str]:
    for folder in (
        "run/systemd/system",
        "usr/lib/systemd/system",
        "etc/systemd/system/multi-user.target.wants",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/lib/systemd/system/NetworkManager.service").write_text("[Unit]\n")
    return {name: str(tmp_path / name) for name in ("etc", "run", "usr")}


def read(names: set[str], roots: dict[str, str]) -> tuple[StoppedManager, ...]:
    found, trouble = read_stopped_managers(names, **roots)
    assert trouble is None
    return found


def test_running_and_missing_managers_are_not_stopped(
    roots: dict[str, str], tmp_path: Path
) -> None:
    assert read({"NetworkManager"}, roots) == ()
    assert read(set(), roots) == (StoppedManager("NetworkManager", "disabled"),)
    (tmp_path / "run/systemd/system").rmdir()
    assert read(set(), roots) == ()


def test_units(roots: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "etc/systemd/system"
    unit = tmp_path / "usr/lib/systemd/system/NetworkManager.service"
    (own / "multi-user.target.wants/NetworkManager.service").symlink_to(unit)
    (own / "systemd-networkd.service").symlink_to("/dev/null")
    assert [(one.name, one.unit) for one in read(set(), roots)] == [
        ("NetworkManager", "enabled"),
        ("systemd-networkd", "masked"),
    ]


def test_profiles_on_disk(roots: dict[str, str], tmp_path: Path) -> None:
    keyfiles, scripts = (
        tmp_path / "etc" / name
        for name in ("NetworkManager/system-connections", "sysconfig/network-scripts")
    )
    for folder in (keyfiles, scripts):
        folder.mkdir(parents=True)
    (keyfiles / "storage.nmconnection").write_text(KEYFILE)
    (keyfiles / "notes.txt").write_text(KEYFILE)
    (scripts / "ifcfg-ens192").write_text("BOOTPROTO=dhcp\n")
    (scripts / "ifcfg-ens256").write_text("BOOTPROTO=dhcp\nONBOOT=no\n")
    (scripts / "ifcfg-ens192.bak").write_text("BOOTPROTO=dhcp\n")
    ((manager,)) = read(set(), roots)
    keyfile = str(keyfiles / "storage.nmconnection")
    assert manager.profiles == (
        ConfigurationEntry(
            "other", keyfile, 1, ("ens224",), ("52:54:00:aa:bb:01",), methods=("static",)
        ),
        ConfigurationEntry(
            "ifcfg", str(scripts / "ifcfg-ens192"), 1, ("ens192",), methods=("dhcp4",)
        ),
    )
    assert "secret" not in repr(manager)


def test_an_unreadable_profile_is_reported(roots: dict[str, str], tmp_path: Path) -> None:
    loop = tmp_path / "etc/NetworkManager/system-connections/loop.nmconnection"
    loop.parent.mkdir(parents=True)
    loop.symlink_to(loop)
    _, trouble = read_stopped_managers(set(), **roots)
    assert trouble is not None and "loop.nmconnection" in trouble.detail


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[connection]\ntype=ethernet\n", ("*",)),
        ("[connection]\ntype=ethernet\nautoconnect=false\n", None),
        ("[connection]\ntype=wifi\n", None),
        ("type=ethernet", None),
        ("", None),
    ],
)
def test_keyfiles(text: str, names: tuple[str, ...] | None) -> None:
    found = parse_keyfile(text, "f")
    assert (None if found is None else found.names) == names


def test_ignored_ifcfg_files() -> None:
    assert parse_ifcfg_on_boot("DEVICE=a\nBOOTPROTO=dhcp\nNM_CONTROLLED=no\n", "ifcfg-a") is None
    assert parse_ifcfg_on_boot("", "ifcfg-a") is None
