"""Settings of ethtool that configuration files and scripts store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.configuration.collect import read_link_configuration
from nictop.probe.inventory.configuration.ethtool_settings import (
    parse_ethtool_line,
    parse_link_value,
    parse_script,
    parse_stanza_line,
)
from nictop.probe.inventory.configuration.ifupdown import parse_ifcfg, parse_interfaces
from nictop.probe.inventory.configuration.networkd import parse_link
from nictop.probe.inventory.configuration.udev import parse_udev_rules

TSO_AND_GSO_OFF = {"feature-tso": 0, "feature-gso": 0}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ethtool -K eth0 tso off gso off", {"eth0": TSO_AND_GSO_OFF}),
        ("  /sbin/ethtool --offload $IFACE tso off gso off || true", {"": TSO_AND_GSO_OFF}),
        ("ExecStart=/usr/sbin/ethtool -K %i tso off", {"": {"feature-tso": 0}}),
        ("ExecStart=sh -c 'ethtool -K eth0 tso off'", {"eth0": {"feature-tso": 0}}),
        (
            "ethtool -K eth0 tcp-segmentation-offload off tx-gre-segmentation on",
            {"eth0": {"feature-tso": 0, "feature-tx-gre-segmentation": 1}},
        ),
        ("ethtool -G eth0 rx 4096 tx 512", {"eth0": {"ring-rx": 4096, "ring-tx": 512}}),
        ("ethtool -L eth0 combined 4", {"eth0": {"channels-combined": 4}}),
        (
            "ethtool -C eth0 adaptive-rx off rx-usecs 0",
            {"eth0": {"coalesce-adaptive-rx": 0, "coalesce-rx-usecs": 0}},
        ),
        ("ethtool --set-eee eth0 eee off", {"eth0": {"eee-enabled": 0}}),
        (
            "ethtool -K eth0 tso off; ethtool -A eth0 rx off",
            {"eth0": {"feature-tso": 0, "pause-rx": 0}},
        ),
        (
            "ethtool -K eth0 gro off; ethtool -K eth1 tso off",
            {"eth0": {"feature-gro": 0}, "eth1": {"feature-tso": 0}},
        ),
        ("ethtool -i eth0 && ethtool -K eth1 lro off", {"eth1": {"feature-lro": 0}}),
        ("ethtool -K eth0 tso $STATE gso off", {}),
        ("ethtool -K eth0", {}),
        ("ethtool -K", {}),
        ("ethtool ", {}),
        ("ethtool -k eth0", {}),
        ("# ethtool -K eth0 tso off", {}),
        ("/usr/bin/x # ethtool -K eth0 tso off", {}),
        ("myethtool -K eth0 tso off", {}),
        ("ethtool -s eth0 speed 100 duplex full", {}),
    ],
)
def test_lines_that_run_ethtool(line: str, expected: dict[str, dict[str, int]]) -> None:
    assert parse_ethtool_line(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("offload-tso off", {"": {"feature-tso": 0}}),  # Debian's ethtool package
        ("gro-offload on", {"": {"feature-gro": 1}}),  # ifupdown2
        ("post-up ethtool -K $IFACE tso off gso off", {"": TSO_AND_GSO_OFF}),
        ("address 192.0.2.1/24", {}),
    ],
)
def test_lines_of_a_stanza(line: str, expected: dict[str, dict[str, int]]) -> None:
    assert parse_stanza_line(line) == expected


def test_a_stanza_may_set_up_another_interface() -> None:
    bond, port = parse_interfaces(
        "iface bond0 inet static\n  post-up ethtool -K eno1 tso off\n", "f"
    )[0]
    assert (bond.names, bond.ethtool) == (("bond0",), {})
    assert (port.owner, port.names, port.line, port.ethtool) == (
        "other",
        ("eno1",),
        2,
        {"feature-tso": 0},
    )


def test_a_udev_rule_with_other_conditions_may_be_for_any_interface() -> None:
    text = 'SUBSYSTEM=="net", KERNEL!="lo", RUN+="/sbin/ethtool -K $name tso off"\n'
    assert [one.names for one in parse_udev_rules(text, "f")] == [("*",)]
    other = 'KERNEL=="bond0", RUN+="/sbin/ethtool -K eno1 tso off"\n'
    assert [(one.names, one.ethtool) for one in parse_udev_rules(other, "f")] == [
        (("eno1",), {"feature-tso": 0})
    ]
    both = 'KERNEL=="bond0", ENV{NM_UNMANAGED}="1", RUN+="/sbin/ethtool -K eno1 tso off"\n'
    own, port = parse_udev_rules(both, "f")
    assert (own.names, own.ignores, own.ethtool) == (("bond0",), True, {})
    assert (port.names, port.ignores, port.ethtool) == (("eno1",), False, {"feature-tso": 0})


def test_a_line_is_continued() -> None:
    (found,) = parse_script("ethtool -K eth0 \\\n  tso off\n", "f")
    assert (found.line, found.names, found.ethtool) == (1, ("eth0",), {"feature-tso": 0})


def test_a_script_that_only_root_can_read_is_no_missing_configuration(tmp_path: Path) -> None:
    hook = tmp_path / "etc/network/if-up.d/secret"
    hook.mkdir(parents=True)
    (hook / "x").symlink_to("x")
    (tmp_path / "etc/network/if-up.d/loop").symlink_to("loop")  # ELOOP for root, too
    roots = {name: str(tmp_path / name) for name in ("etc", "run", "usr", "var")}
    assert read_link_configuration(**roots) == ((), None)


def test_a_stanza_has_the_settings_of_all_its_lines() -> None:
    text = "iface a inet dhcp\n  offload-tso off\n  up ethtool -K a gso off\niface b inet dhcp\n"
    first, second = parse_interfaces(text, "f")[0]
    assert (first.ethtool, second.ethtool) == (TSO_AND_GSO_OFF, {})


def test_ifcfg_has_several_calls_in_one_value() -> None:
    found = parse_ifcfg('DEVICE=a\nETHTOOL_OPTS="-K a tso off; -G a rx 512"\n', "f")
    assert found is not None
    assert found.ethtool == {"feature-tso": 0, "ring-rx": 512}
    plain = parse_ifcfg('DEVICE=a\nETHTOOL_OPTS="autoneg off speed 100 duplex full"\n', "f")
    assert plain is not None
    assert plain.ethtool == {}


def test_link_files_and_udev_rules() -> None:
    assert parse_link_value("GenericReceiveOffload", "no") == {"feature-gro": 0}
    assert parse_link_value("RxBufferSize", "max") == {}
    link = parse_link(
        ["[Match]\nDriver=igb\n[Link]\nTCPSegmentationOffload=no\nRxBufferSize=512\n"], "f"
    )
    assert link is not None
    assert link.ethtool == {"feature-tso": 0, "ring-rx": 512}
    (rule,) = parse_udev_rules(
        'DRIVERS=="e1000e", RUN+="/sbin/ethtool -K $name tso off gso off"\n', "f"
    )
    assert (rule.drivers, rule.ethtool) == (("e1000e",), TSO_AND_GSO_OFF)
    assert parse_udev_rules('DRIVERS=="e1000e", RUN+="/sbin/ethtool -i $name"\n', "f") == []


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("rc.local", ("eth0",)),
        ("systemd/system/offloads.service", ("eth0",)),
        ("network/if-up.d/offloads", ("eth0",)),
        ("NetworkManager/dispatcher.d/20-offloads", ("eth0",)),
        ("networkd-dispatcher/routable.d/offloads", ("eth0",)),
    ],
)
def test_scripts_that_are_read(tmp_path: Path, path: str, names: tuple[str, ...]) -> None:
    file = tmp_path / "etc" / path
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\nethtool -K eth0 tso off gso off\nethtool -i eth0\n")
    (found,), trouble = read_link_configuration(
        etc=str(tmp_path / "etc"),
        run=str(tmp_path / "run"),
        usr=str(tmp_path / "usr"),
        var=str(tmp_path / "var"),
    )
    assert trouble is None
    assert (found.owner, found.file, found.line, found.names) == ("other", str(file), 2, names)
    assert found.ethtool == TSO_AND_GSO_OFF


def test_a_variable_in_a_script_may_be_any_interface() -> None:
    first, second = parse_script(
        'for i in a b; do ethtool -K "$i" tso off; done\nethtool -K ${i} gso off\n', "f"
    )
    assert (first.line, first.names, first.ethtool) == (1, ("*",), {"feature-tso": 0})
    assert (second.line, second.names, second.ethtool) == (2, ("*",), {"feature-gso": 0})


@given(
    st.text(max_size=300)
    | st.from_regex(r"ethtool (-K|-G|--set-eee) [\w$%]{1,9}( [\w-]{1,9}){0,6}", fullmatch=True)
)
def test_any_line(line: str) -> None:
    for found in (
        *parse_stanza_line(line).values(),
        *(one.ethtool for one in parse_script(line, "f")),
    ):
        assert all(name and isinstance(value, int) for name, value in found.items())
