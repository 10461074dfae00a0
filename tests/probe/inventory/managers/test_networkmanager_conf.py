"""NetworkManager.conf and conf.d: effective values, priority of files, and arbitrary text."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.managers.networkmanager_conf import (
    Setting,
    parse_networkmanager_configuration,
    parse_settings,
    read_networkmanager_configuration,
    specs,
)
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import NetworkManagerConfiguration

OWN = """# NetworkManager.conf(5)
[main]
plugins = keyfile
no-auto-default=00:50:56:AA:BB:CC,interface-name:ens3
[keyfile]
unmanaged-devices+=mac:00:50:56:00:00:01;interface-name:docker*
"""
SERVER = "[main]\nno-auto-default=*\nignore-carrier=*\n"


def test_settings() -> None:
    assert parse_settings("x=1\n[a]\n# c\n; d\nk+=v = w\nl -= u\nnothing\n[b-1]\n") == [
        Setting("a", "k", "+", "v = w"),
        Setting("a", "l", "-", "u"),
    ]
    assert specs("a, b;;c\\,d ;") == ["a", "b", "c,d"]


def test_the_last_value_counts_and_plus_appends() -> None:
    texts = [
        ("1", SERVER),
        ("2", OWN),
        (
            "3",
            "[keyfile]\nunmanaged-devices+=driver:veth\n[main]\nno-auto-default-=interface-name:ens3\n",
        ),
        ("4", "[.config]\nenable=false\n[keyfile]\nunmanaged-devices=*\n"),
        (
            "5",
            "[device-a]\nmatch-device=driver:igb\nmanaged=0\n[device]\nwifi.scan-rand-mac-address="
            "no\n",
        ),
        ("7", "[main]\ndhcp=internal\n"),
        ("8", "[main]\ndhcp=dhclient\n"),
        (
            "6",
            "[device-b]\nmanaged=no\n[device-c]\nmatch-device="
            "x\nmanaged=1\n[device-a]\nmatch-device=driver:ixgbe\n",
        ),
    ]
    found = parse_networkmanager_configuration(
        texts, "00:50:56:AA:BB:CC\n\ninterface-name:=Ens37\n"
    )
    assert found == NetworkManagerConfiguration(
        no_auto_default=("00:50:56:AA:BB:CC",),
        no_auto_default_state=("00:50:56:aa:bb:cc", "interface-name:=Ens37"),
        unmanaged_devices=("mac:00:50:56:00:00:01", "interface-name:docker*", "driver:veth"),
        device_unmanaged=("driver:ixgbe", "*"),
        origins={
            "no_auto_default": "3",
            "unmanaged_devices": "3",
            "device_unmanaged": "6",
            "dhcp": "8",
        },
        dhcp="dhclient",
    )


def write_files(root: Path, files: dict[str, str]) -> NetworkManagerConfiguration:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return read_networkmanager_configuration(
        **{part: str(root / part) for part in ("etc", "run", "usr", "var")}
    )


def test_priority_of_files(tmp_path: Path) -> None:
    assert write_files(tmp_path, {}) == NetworkManagerConfiguration()
    shipped, run, etc = (f"{place}/NetworkManager/conf.d" for place in ("usr/lib", "run", "etc"))
    found = write_files(tmp_path, {f"{shipped}/00-server.conf": SERVER})
    assert found.no_auto_default == ("*",)
    assert found.origins == {"no_auto_default": f"{tmp_path}/{shipped}/00-server.conf"}
    assert write_files(tmp_path, {f"{run}/00-server.conf": ""}).no_auto_default == (), (
        "hidden by a file of its name"
    )
    assert write_files(
        tmp_path, {f"{run}/50.conf": "[main]\nno-auto-default=r\n"}
    ).no_auto_default == ("r",)
    assert (
        write_files(tmp_path, {"etc/NetworkManager/NetworkManager.conf": OWN}).no_auto_default[1]
        == "interface-name:ens3"
    )
    last = {
        f"{etc}/10.conf": "[main]\nno-auto-default=e\n",
        f"{etc}/20.conf.bak": SERVER,
        f"{etc}/50.conf": "",
    }
    found = write_files(
        tmp_path, last | {"var/lib/NetworkManager/no-auto-default.state": "00:00:00:00:00:AA\n"}
    )
    assert (found.no_auto_default, found.no_auto_default_state) == (("e",), ("00:00:00:00:00:aa",))
    assert found.unreadable == {}


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/NetworkManager").symlink_to("NetworkManager")
    found = write_files(tmp_path, {})
    assert set(found.unreadable) == {
        f"{tmp_path}/etc/NetworkManager/conf.d",
        f"{tmp_path}/etc/NetworkManager/NetworkManager.conf",
    }
    assert {why.detail.rsplit(": ", 1)[1] for why in found.unreadable.values()} == {"ELOOP"}


@pytest.mark.parametrize("around", ["", OWN])
@given(text=st.text(max_size=200), state=st.text(max_size=60))
def test_any_text_can_be_parsed(around: str, text: str, state: str) -> None:
    found = parse_networkmanager_configuration([("a", around + text), ("b", text)], state)
    encoded = json.dumps(found, default=field_mapping, ensure_ascii=False).encode(
        "utf-8", "replace"
    )
    assert isinstance(
        msgspec.json.decode(encoded, type=NetworkManagerConfiguration), NetworkManagerConfiguration
    )
