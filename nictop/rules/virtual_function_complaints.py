"""What physical functions complain messages_if: guests that want more of their virtual functions than they may have.

Reads nothing; rules about kernel messages of igb, ixgbe, i40e and ice, and what `VirtualFunction` says now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nictop.probe.records import KernelMessage, Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding
from nictop.rules.registry import Said, pair_rule
from nictop.rules.virtual_function_facts import (
    function_messages,
    is_used,
    message_source,
    pairs,
    set_vf_fix,
)
from nictop.rules.virtual_function_pairs import is_filtered
from nictop.rules.watched import Watched, link_driver

FAMILY: Final = "VF attributes and path"
NUMBER = re.compile(r"\bVF[- ]?([0-9]{1,4})\b")
"""``VF 3 attempted …`` (igb, ixgbe), ``VF-3 is not trusted`` (ice); i40e names none."""
SPEAKERS = ("igb", "ixgbe", "i40e", "ice")
"""Drivers of physical functions that complain."""
OVERRIDE = "override administratively set MAC"
NO_MORE = ("Cannot add more MAC addresses", "Can't add more MAC addresses", "is not trusted, switch the VF")
SPOOFED = ("Spoof event(s) detected on VF", "Spoofed packets detected")


@dataclass(frozen=True, eq=False)
class Complaint:
    """What the driver of one physical function said, and which of its virtual functions it may mean."""

    host: Watched
    port: Link
    messages: list[KernelMessage]

    @property
    def meant(self) -> list[VirtualFunction]:
        """VFs in use that are named, or all in use when the driver names none."""
        named = {int(match[1]) for one in self.messages for match in NUMBER.finditer(one.text)}
        return [
            one
            for one in self.port.virtual_functions
            if (not named or one.number in named) and is_used(self.host, self.port, one.number)
        ]


def _has_used_functions(host: Watched) -> bool:
    """Of drivers that complain about what guests try."""
    return any(link_driver(port) in SPEAKERS for port, _ in host.used_virtual_functions)


def _complaints(hosts: Sequence[Watched], *signs: str) -> Iterator[Complaint]:
    """All but those of a port whose guest is watched and filtered (`vf_filter_stops_a_bridge` tells that better)."""
    filtered = {(one.physical.name, one.port.ifindex) for one in pairs(hosts) if is_filtered(one)}
    for host in hosts:
        for address, messages in function_messages(host, *signs).items():
            port = next((one for one in host.links_of_function.get(address, ()) if one.virtual_functions), None)
            if port is not None and (host.name, port.ifindex) not in filtered:
                yield Complaint(host, port, messages)


@pair_rule(
    FAMILY,
    "warning",
    needs=("pci.enabled",),
    uses=("messages", "pci.driver", "pci.sriov"),
    messages_if=_has_used_functions,
)
def vf_may_not_change_its_address(hosts: Sequence[Watched]) -> Said:
    """A guest tries to give its virtual function another MAC address, and the physical function refuses.

    nictop reads "VF … override administratively set MAC address" among the kernel's messages of igb, ixgbe, i40e and
    ice. The guest's frames with the new address are lost: a bond, a bridge, a container or a cloned MAC address in the
    guest's configuration wants it.

    Silent when the virtual function is trusted now, or is used by nobody any more.

    Known from k8snetworkplumbingwg/sriov-cni#232, Broadcom KB 328552, drivers/net/ethernet/intel/igb/igb_main.c
    (igb_set_vf_mac_addr).
    """
    for complaint in _complaints(hosts, OVERRIDE):
        untrusted = [one for one in complaint.meant if one.trust is not True]
        if not untrusted:
            continue
        yield _refused(
            "vf_may_not_change_its_address",
            complaint,
            untrusted,
            "refuses the MAC address that a guest wants for its VF",
            "A virtual function whose address was set by the host must be trusted before its guest may change it.",
        )


@pair_rule(FAMILY, "warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=_has_used_functions)
def vf_has_no_room_for_more_addresses(hosts: Sequence[Watched]) -> Said:
    """A guest needs more MAC addresses or VLANs on its virtual function than an untrusted one may have.

    nictop reads "VF is not trusted, switch the VF to trusted to add more functionality" among the messages of i40e and
    ice. Bridges, macvlan, containers and many IPv6 multicast groups need filters; those that were refused get nothing.

    Silent when the virtual function is trusted now, or is used by nobody any more.

    Known from drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c (i40e_check_vf_permission) and ice/virt.
    """
    for complaint in _complaints(hosts, *NO_MORE):
        untrusted = [one for one in complaint.meant if one.trust is not True]
        if not untrusted:
            continue
        yield _refused(
            "vf_has_no_room_for_more_addresses",
            complaint,
            untrusted,
            "has no more address filters for an untrusted VF",
            "An untrusted virtual function may have a handful of MAC addresses; whatever stands behind further ones in "
            "the guest (containers, a bridge, IPv6) receives nothing.",
        )


def _refused(rule: str, complaint: Complaint, functions: list[VirtualFunction], title: str, why: str) -> Finding:
    host, port, messages = complaint.host, complaint.port, complaint.messages
    fixes = [
        set_vf_fix("here", f"trust VF {one.number}", port, one.number, "trust", "on", undo=("trust", "off"))
        for one in functions[:4]
    ]
    note = "A trusted VF may also listen to all traffic of the port: only for a guest that may."
    return Finding(
        rule,
        "warning",
        host.name,
        port.name,
        title,
        (
            Evidence("message", messages[-1].text, message_source(host, messages[-1])),
            Evidence("not trusted", ", ".join(f"VF {one.number}" for one in functions), f"ip link show {port.name}"),
        ),
        f"{why} {note}",
        tuple(fixes),
        port.ifindex,
    )


@pair_rule(FAMILY, "warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=_has_used_functions)
def vf_sends_foreign_addresses(hosts: Sequence[Watched]) -> Said:
    """A guest sends frames with MAC addresses that are not its own, and the NIC throws them away (spoof check).

    nictop reads "Spoof event(s) detected on VF" (igb) or "Spoofed packets detected" (ixgbe) among kernel messages.
    Usually the guest has a bridge, a bond or containers on its virtual function; it may be an attack as well.

    Silent when spoof checking is off now for all virtual functions in use.

    Known from drivers/net/ethernet/intel/igb/igb_main.c (igb_check_wvbr), openshift/dpu-operator#564, lxc/incus#2021.
    """
    for complaint in _complaints(hosts, *SPOOFED):
        host, port, message = complaint.host, complaint.port, complaint.messages[-1]
        checked = [one for one in complaint.meant if one.spoof_check is True]
        if not checked:
            continue
        yield Finding(
            "vf_sends_foreign_addresses",
            "warning",
            host.name,
            port.name,
            "drops frames of a guest whose MAC address is not that of its VF",
            (
                Evidence("message", message.text, message_source(host, message)),
                Evidence(
                    "spoof check on", ", ".join(f"VF {one.number}" for one in checked), f"ip link show {port.name}"
                ),
            ),
            "What a bridge, a bond or containers in the guest send never leaves the NIC, while the guest counts it as "
            "sent.",
            tuple(
                set_vf_fix(
                    "here",
                    f"let VF {one.number} send other addresses",
                    port,
                    one.number,
                    "spoofchk",
                    "off",
                    undo=("spoofchk", "on"),
                    note="Only for a guest that you trust.",
                )
                for one in checked[:4]
            ),
            port.ifindex,
        )
