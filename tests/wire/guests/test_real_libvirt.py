"""Guests of a real libvirtd that run in a real QEMU: what the hypervisor says of them, and what is
said when their agent is not there, or when they do not run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.libvirt import Libvirt, libvirt

WEB1, DB1 = "52:54:00:00:00:01", "52:54:00:00:00:02"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libvirt]:
    """web1 has been started, db1 is defined."""
    with libvirt(tmp_path_factory.mktemp("libvirt")) as found:
        found.define("web1", WEB1)
        found.define("db1", DB1)
        found.virsh("start", "web1")
        yield found


def guests_of(host: Libvirt) -> dict[str, Any]:
    document = json.loads(host.nictop("guests", "--format", "json"))
    return {guest["name"]: guest for guest in document["hosts"][0]["guests"]}


def shown_state(host: Libvirt, name: str) -> str:
    """In the table."""
    for line in host.nictop("guests").splitlines():
        if line.startswith(f"{name} "):
            return line.split()[1]
    raise AssertionError(f"no guest {name}")


def test_the_nic_of_a_running_guest_has_tap_bridge_and_queues(host: Libvirt) -> None:
    guest = guests_of(host)["web1"]
    assert guest["state"] == "running"
    (nic,) = guest["nics"]
    assert (nic["mac"], nic["model"]) == (WEB1, "virtio-net-pci")
    text = host.nictop("guests")
    tap = host.virsh("domiflist", "web1").split()[0]
    assert f"port {tap} of br0" in text and "2 queue pairs" in text


def test_a_stopped_guest_is_known_by_its_configuration(host: Libvirt) -> None:
    guest = guests_of(host)["db1"]
    assert guest["state"] == "stopped" and guest["nics"][0]["mac"] == DB1


def test_a_guest_without_an_agent_says_so(host: Libvirt) -> None:
    said = "QEMU guest agent is not connected"
    assert said in " ".join(host.nictop("show", "local/agent:web1").split())
    assert said in " ".join(host.nictop("guests", "--ask-agents").split())


def test_a_paused_guest_is_said_to_be_paused(host: Libvirt) -> None:
    host.virsh("suspend", "web1")
    try:
        assert shown_state(host, "web1") == "paused"
        said = " ".join(host.nictop("show", "local/agent:web1").split())
        assert "the guest does not run: libvirt says paused (user); virsh resume web1" in said
    finally:
        host.virsh("resume", "web1")
    assert shown_state(host, "web1") == "running"


def test_a_saved_guest_is_no_stopped_one(host: Libvirt) -> None:
    host.virsh("managedsave", "web1")
    try:
        assert shown_state(host, "web1") == "saved"
    finally:
        host.virsh("start", "web1")
    assert shown_state(host, "web1") == "running"
