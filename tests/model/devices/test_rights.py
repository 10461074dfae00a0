"""Root could read what was refused, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.devices.rights import (
    is_root,
    missing_rights_text,
    needs_root,
    restriction_text,
    rights_text,
)
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Restriction, Unreadable
from tests.model.hosts import HELLO, live_host

DENIED = Unreadable("needs_root", "EPERM")


def host(euid: int, **unreadable: Unreadable) -> Snapshot:
    snapshot = live_host()
    assert snapshot.inventory is not None
    ifindex = min(snapshot.links)
    link = snapshot.links[ifindex]
    ethtool = replace(link.ethtool, unreadable=unreadable)
    return replace(
        snapshot,
        hello=replace(HELLO, euid=euid),
        inventory=replace(snapshot.inventory, unreadable={"kernel_messages": DENIED}),
        links={ifindex: replace(link, ethtool=ethtool, unreadable={})},
        pci=(),
    )


def test_refused_values_are_listed_once() -> None:
    assert needs_root(host(1000, module=DENIED, ring_sizes=DENIED)) == (
        "kernel messages",
        "ring sizes",
        "transceiver data",
    )


def test_values_that_root_cannot_read_either_are_left_out() -> None:
    assert needs_root(host(1000, module=Unreadable("not_offered", "EOPNOTSUPP"))) == (
        "kernel messages",
    )


def test_rights_text() -> None:
    assert (rights_text(host(0)), missing_rights_text(host(0))) == ("root", "")
    assert rights_text(host(1000)) == "user 1000"
    assert missing_rights_text(host(1000)) == "not readable without root: kernel messages"
    unknown = Snapshot.empty("vm1")
    assert (is_root(unknown), rights_text(unknown), missing_rights_text(unknown)) == (None, "", "")
    greeted = replace(unknown, hello=replace(HELLO, euid=7))
    assert (rights_text(greeted), missing_rights_text(greeted)) == ("user 7", "")


HELD = Restriction(7, "", ("net_admin", "syslog"), "", "", False, "")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (HELD, "held by the kernel: Landlock ABI 7, seccomp; capabilities net_admin, syslog"),
        (
            replace(HELD, why_no_seccomp=None),
            "held by the kernel: Landlock ABI 7; capabilities net_admin, syslog",
        ),
        (
            replace(HELD, landlock=4, why_no_seccomp="Invalid argument"),
            "held by the kernel but for signals, which need Linux 6.12, and for attributes of "
            "files, because Invalid "
            "argument: Landlock ABI 4; capabilities net_admin, syslog",
        ),
        (
            replace(HELD, landlock=4, capabilities=()),
            "held by the kernel but for signals, which need Linux 6.12: Landlock ABI 4, seccomp; "
            "capabilities none",
        ),
        (
            replace(HELD, landlock=None, why_no_landlock="the kernel has no Landlock (Linux 5.13)"),
            "not held by the kernel but for programs and attributes of files (seccomp), because "
            "the kernel has no "
            "Landlock (Linux 5.13); capabilities net_admin, syslog",
        ),
        (
            replace(
                HELD,
                landlock=None,
                why_no_landlock="no ctypes",
                capabilities=None,
                why_all_capabilities="no ctypes",
                why_no_seccomp="no ctypes",
            ),
            "not held by the kernel, because no ctypes; all capabilities, because no ctypes",
        ),
        (
            replace(HELD, why_tests_are_root="CAP_SETUID is missing", allow_changes=True),
            "held by the kernel: Landlock ABI 7, seccomp; capabilities net_admin, syslog; "
            "tests run as root, because CAP_SETUID is missing; changes are made by another process",
        ),
        (None, ""),
    ],
)
def test_what_the_kernel_holds_of_a_root_probe(found: Restriction | None, text: str) -> None:
    snapshot = host(0)
    assert snapshot.inventory is not None
    assert (
        restriction_text(
            replace(snapshot, inventory=replace(snapshot.inventory, restriction=found))
        )
        == text
    )


def test_nothing_is_held_of_the_probe_of_a_user() -> None:
    assert (
        restriction_text(host(1000))
        == "not held by the kernel: the probe has the rights of user 1000"
    )
    assert restriction_text(Snapshot.empty("vm1")) == ""
