"""Fixes on the hypervisor of a guest: nothing is said of its product where that is not known."""

from __future__ import annotations

import pytest

from nictop.rules import HostFacts, diagnose
from tests.support.rule_cases import host_facts


def one_queue(environment: str | None) -> HostFacts:
    channels = {"combined": 1, "max_combined": 1}
    queues = [{"direction": "rx", "number": 0, "rps_cpus": "0"}]
    link = {"queues": queues, "ethtool": {"channels": channels, "rss": None}}
    known = {"base": "kvm-guest", "links": {"enp1s0": link}}
    if environment is not None:
        known["platform"] = {"environment": environment}
    return host_facts(known)


def titles(host: HostFacts) -> list[tuple[str, str]]:
    diagnosis = diagnose([host])
    (found,) = (one for one in diagnosis.findings if one.rule == "hypervisor_offers_one_queue")
    return [(fix.where, fix.title) for fix in found.fixes]


def test_of_an_unknown_hypervisor_each_product_is_a_condition_behind_what_applies() -> None:
    """A Firecracker guest was told to run qm "on the Proxmox VE host"."""
    *here, proxmox, libvirt, ahv = titles(one_queue(None))
    assert {where for where, _ in here} == {"here"}
    assert [proxmox, libvirt, ahv] == [
        ("proxmox", "If the hypervisor is Proxmox VE: set 4 queues"),
        ("libvirt", "If the hypervisor uses libvirt: set 4 queues"),
        ("ahv", "If the hypervisor is Nutanix AHV: set 4 queues"),
    ]


@pytest.mark.parametrize("environment", ["proxmox", "libvirt", "ahv"])
def test_of_a_known_one_its_own_fix_is_first_and_without_condition(environment: str) -> None:
    first, *others = titles(one_queue(environment))
    assert first == (environment, "Set 4 queues")
    assert {where for where, _ in others} == {"here"}
