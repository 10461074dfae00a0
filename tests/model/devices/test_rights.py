"""Root could read what was refused, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.rights import is_root, missing_rights_text, needs_root, rights_text
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Unreadable
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
    assert needs_root(host(1000, module=Unreadable("not_offered", "EOPNOTSUPP"))) == ("kernel messages",)


def test_rights_text() -> None:
    assert (rights_text(host(0)), missing_rights_text(host(0))) == ("root", "")
    assert rights_text(host(1000)) == "user 1000"
    assert missing_rights_text(host(1000)) == "not readable without root: kernel messages"
    unknown = Snapshot.empty("vm1")
    assert (is_root(unknown), rights_text(unknown), missing_rights_text(unknown)) == (None, "", "")
    greeted = replace(unknown, hello=replace(HELLO, euid=7))
    assert (rights_text(greeted), missing_rights_text(greeted)) == ("user 7", "")
