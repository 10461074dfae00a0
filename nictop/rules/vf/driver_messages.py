"""What physical functions complain about: guests that want more of their virtual functions than they may have.

Reads nothing; rules about kernel messages of igb, ixgbe, i40e and ice, and what `VirtualFunction` says now. A message
tells of the moment at which it was written: it counts only for virtual functions whose present state still fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nictop.probe.records import KernelMessage, Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import (
    RECENT_SECONDS,
    Pair,
    function_messages,
    function_of,
    is_used,
    message_source,
    own_links,
    pairs,
    set_vf_fix,
    since,
)
from nictop.rules.vf.pairs import is_filtered

FAMILY: Final = "VF attributes and path"
VF_NUMBER = re.compile(r"\bVF[- ]?([0-9]{1,4})\b")
"""``VF 3 attempted …`` (igb, ixgbe), ``VF-3 is not trusted`` (ice); i40e names none."""
REPORTING_DRIVERS = ("igb", "ixgbe", "i40e", "ice")
"""Drivers of physical functions that complain."""
ADDRESS_REFUSED = "override administratively set MAC"
ADDRESS_LIMIT_REACHED = (
    "Cannot add more MAC addresses",
    "Can't add more MAC addresses",
    "is not trusted, switch the VF",
)
SPOOF_DETECTED = ("Spoof event(s) detected on VF", "Spoofed packets detected")
ADDRESS_SET = re.compile(r"\bsetting MAC [0-9a-f:]{17} on VF ([0-9]{1,4})\b", re.IGNORECASE)
"""igb, ixgbe, i40e and ice: ``ip link set PF vf N mac …`` was typed."""


@dataclass(frozen=True, eq=False)
class DriverWarning:
    """What the driver of one physical function said, and which of its virtual functions it may mean."""

    host: HostFacts
    port: Link
    messages: list[KernelMessage]

    @property
    def meant(self) -> list[VirtualFunction]:
        """VFs in use that are named, or all in use when the driver names none; only those that have existed, and whose
        netdev on this host has, since the newest message."""
        return [one for one in self.port.virtual_functions if self._newest(one.number) is not None]

    def _newest(self, number: int) -> KernelMessage | None:
        """The last message that can be about the present VF of that number."""
        if not is_used(self.host, self.port, number):
            return None
        function = function_of(self.host, self.port, number)
        messages = since(self.messages, function.created if function is not None else None)
        for link in own_links(self.host, self.port, number):
            messages = since(messages, link.created)
        named = [(one, {int(match[1]) for match in VF_NUMBER.finditer(one.text)}) for one in messages]
        return next((one for one, numbers in reversed(named) if not numbers or number in numbers), None)

    def was_given_another(self, number: int) -> bool:
        """The administrator has set the MAC address of that VF after the last message about it."""
        newest = self._newest(number)
        return newest is not None and any(
            message.time > newest.time and int(match[1]) == number
            for message in function_messages(self.host, "etting MAC ").get(self.port.pci_address or "", ())
            for match in ADDRESS_SET.finditer(message.text)
        )

    def users(self, hosts: Sequence[HostFacts], number: int) -> list[Pair]:
        """Netdevs of that VF on watched hosts."""
        return [
            one
            for one in pairs(hosts)
            if one.physical is self.host and one.port is self.port and one.function.number == number
        ]

    def is_settled(self, hosts: Sequence[HostFacts], number: int) -> bool:
        """Its netdev is watched, bears the address that the VF has, and has no link above it that may need others."""
        users = self.users(hosts, number)
        return bool(users) and all(_sends_as_itself(one) for one in users)


def _sends_as_itself(pair: Pair) -> bool:
    link = pair.link
    if link.address is None or link.address != pair.function.address or link.master is not None:
        return False
    return not any(one.lower == link.ifindex and one.lower_namespace is None for one in pair.guest.links)


def _has_used_functions(host: HostFacts) -> bool:
    """Of drivers that complain about what guests try."""
    return any(link_driver(port) in REPORTING_DRIVERS for port, _ in host.used_virtual_functions)


def _warnings(hosts: Sequence[HostFacts], *signs: str) -> Iterator[DriverWarning]:
    """All but those of a port whose guest is watched and filtered (`vf_filter_stops_a_bridge` tells that better)."""
    filtered = {(one.physical.name, one.port.ifindex) for one in pairs(hosts) if is_filtered(one)}
    for host in hosts:
        for address, messages in function_messages(host, *signs).items():
            port = next((one for one in host.links_of_function.get(address, ()) if one.virtual_functions), None)
            if port is not None and (host.name, port.ifindex) not in filtered:
                yield DriverWarning(host, port, messages)


@pair_rule(
    FAMILY,
    "warning",
    needs=("pci.enabled",),
    uses=("messages", "pci.driver", "pci.sriov"),
    messages_if=_has_used_functions,
)
def vf_may_not_change_its_address(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest tries to give its virtual function another MAC address, and the physical function refuses.

    nictop reads "VF … override administratively set MAC address" among the kernel's messages of igb, ixgbe, i40e and
    ice. The guest's frames with the new address are lost: a bond, a bridge, a container or a cloned MAC address in the
    guest's configuration wants it.

    Silent when the virtual function is trusted now, is used by nobody any more, was made or got its driver after the
    message, or has in a watched guest the address that its port has set for it. Where the guest is not watched, an
    address that was set after the message ("setting MAC … on VF") settles it, too.

    Known from k8snetworkplumbingwg/sriov-cni#232, Broadcom KB 328552, drivers/net/ethernet/intel/igb/igb_main.c
    (igb_set_vf_mac_addr).
    """
    for warning in _warnings(hosts, ADDRESS_REFUSED):
        untrusted = [
            one for one in warning.meant if one.trust is not True and not _has_its_address(hosts, warning, one)
        ]
        if not untrusted:
            continue
        yield _refused(
            warning,
            untrusted,
            "refuses the MAC address that a guest wants for its VF",
            "A virtual function whose address was set by the host must be trusted before its guest may change it.",
        )


def _has_its_address(hosts: Sequence[HostFacts], warning: DriverWarning, function: VirtualFunction) -> bool:
    """What was refused is no longer wanted, as far as can be seen."""
    if warning.users(hosts, function.number):
        return warning.is_settled(hosts, function.number)
    return warning.was_given_another(function.number)


@pair_rule(FAMILY, "warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=_has_used_functions)
def vf_has_no_room_for_more_addresses(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest needs more MAC addresses or VLANs on its virtual function than an untrusted one may have.

    nictop reads "VF is not trusted, switch the VF to trusted to add more functionality" among the messages of i40e and
    ice. Bridges, macvlan, containers and many IPv6 multicast groups need filters; those that were refused get nothing.

    Silent when the virtual function is trusted now, is used by nobody any more, or was made or got its driver after the
    message.

    Known from drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c (i40e_check_vf_permission) and ice/virt.
    """
    for warning in _warnings(hosts, *ADDRESS_LIMIT_REACHED):
        untrusted = [one for one in warning.meant if one.trust is not True]
        if not untrusted:
            continue
        yield _refused(
            warning,
            untrusted,
            "has no more address filters for an untrusted VF",
            "An untrusted virtual function may have a handful of MAC addresses; whatever stands behind further ones in "
            "the guest (containers, a bridge, IPv6) receives nothing.",
        )


def _refused(warning: DriverWarning, functions: list[VirtualFunction], title: str, why: str) -> Finding:
    host, port, messages = warning.host, warning.port, warning.messages
    fixes = [
        set_vf_fix("here", f"trust VF {one.number}", port, one.number, "trust", "on", undo=("trust", "off"))
        for one in functions[:4]
    ]
    note = "A trusted VF may also listen to all traffic of the port: only for a guest that may."
    return link_finding(
        "warning",
        host,
        port,
        title,
        evidence=(
            Evidence("message", messages[-1].text, message_source(host, messages[-1])),
            Evidence("not trusted", ", ".join(f"VF {one.number}" for one in functions), f"ip link show {port.name}"),
        ),
        why=f"{why} {note}",
        fixes=tuple(fixes),
    )


@pair_rule(FAMILY, "warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=_has_used_functions)
def vf_sends_foreign_addresses(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest sends frames with MAC addresses that are not its own, and the NIC throws them away (spoof check).

    nictop reads "Spoof event(s) detected on VF" (igb) or "Spoofed packets detected" (ixgbe) among kernel messages.
    Usually the guest has a bridge, a bond or containers on its virtual function; it may be an attack as well.

    Of the last day: the NIC is asked every two seconds. Silent when spoof checking is off now for all virtual functions
    in use, when they were made or got their driver after the message, and about those whose netdev is watched, bears
    the address of the virtual function, and carries no other link.

    Known from drivers/net/ethernet/intel/igb/igb_main.c (igb_check_wvbr), openshift/dpu-operator#564, lxc/incus#2021.
    """
    for warning in _warnings(hosts, *SPOOF_DETECTED):
        host, port, message = warning.host, warning.port, warning.messages[-1]
        checked = [
            one for one in warning.meant if one.spoof_check is True and not warning.is_settled(hosts, one.number)
        ]
        if not checked or message.time < host.inventory.time - RECENT_SECONDS:
            continue
        yield link_finding(
            "warning",
            host,
            port,
            "drops frames of a guest whose MAC address is not that of its VF",
            evidence=(
                Evidence("message", message.text, message_source(host, message)),
                Evidence(
                    "spoof check on", ", ".join(f"VF {one.number}" for one in checked), f"ip link show {port.name}"
                ),
            ),
            why="What a bridge, a bond or containers in the guest send never leaves the NIC, while the guest counts it "
            "as sent.",
            fixes=tuple(
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
        )
