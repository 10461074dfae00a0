"""Kernel messages of PF drivers about requests of guests that were rejected.

Reads nothing; rules about kernel messages of igb, ixgbe, i40e and ice, and `VirtualFunction`. A
message describes the state at its time: it counts only for VFs whose present state still matches
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nictop.model.kernel_log import Logged, since
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, VirtualFunction
from nictop.rules.finding import Evidence, Finding, Fix, WhereToType
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import (
    Messages,
    address_messages,
    functions_with_messages,
    message_evidence,
    message_source,
)
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import link_finding
from nictop.rules.vf.facts import (
    Pair,
    function_of,
    has_used_functions,
    is_used,
    own_links,
    pairs,
    port_of_function,
    set_vf_fix,
    vf_name,
)
from nictop.rules.vf.pairs import is_filtered

if TYPE_CHECKING:
    from nictop.probe.inventory.machine.message_table import Meaning

MAX_FIXES = 4
VF_NUMBER = pattern(r"\bVF[- ]?([0-9]{1,4})\b")
"""``VF 3 attempted …`` (igb, ixgbe), ``VF-3 is not trusted`` (ice); i40e names none."""
TOO_MANY_MESSAGES = "generating asynchronous messages"
"""intel/ice/ice_virtchnl.c"""
ADDRESS_SET = pattern(r"\bsetting MAC [0-9a-f:]{17} on VF ([0-9]{1,4})\b", re.IGNORECASE)
"""igb, ixgbe, i40e and ice, after ``ip link set PF vf N mac …``."""


@dataclass(frozen=True, eq=False)
class DriverWarning:
    """Messages of the driver of one PF, and the VFs that they can be about."""

    host: HostFacts
    port: Link
    messages: Messages

    @property
    def affected(self) -> list[VirtualFunction]:
        """VFs in use that are named, or all in use when the driver names none; only those that have
        existed, and whose netdev on this host has, since the newest message."""
        functions = self.port.virtual_functions
        return [vf for vf in functions if self._newest(vf.number) is not None]

    @property
    def untrusted(self) -> list[VirtualFunction]:
        """Those of the affected ones that are not trusted."""
        return [function for function in self.affected if function.trust is not True]

    def _newest(self, number: int) -> Logged | None:
        """The last message that can be about the present VF of that number."""
        if not is_used(self.host, self.port, number):
            return None
        function = function_of(self.host, self.port, number)
        created = None if function is None else function.created
        messages = since(self.messages.entries, created)
        for link in own_links(self.host, self.port, number):
            messages = since(messages, link.created)
        for message in reversed(messages):
            named = {int(match[1]) for match in VF_NUMBER.finditer(message.text)}
            if not named or number in named:
                return message
        return None

    def has_new_address(self, number: int) -> bool:
        """The administrator has set the MAC address of that VF after the last message about it."""
        newest = self._newest(number)
        settings = address_messages(self.host, self.port.pci_address, "vf_address_set")
        if newest is None or settings is None:
            return False
        for entry in settings.entries:
            match = ADDRESS_SET.search(entry.text)
            if entry.time > newest.time and match is not None and int(match[1]) == number:
                return True
        return False

    def users(self, hosts: Sequence[HostFacts], number: int) -> list[Pair]:
        """Netdevs of that VF on watched hosts."""
        found = []
        for pair in pairs(hosts):
            is_of_port = pair.physical is self.host and pair.port is self.port
            if is_of_port and pair.function.number == number:
                found.append(pair)
        return found

    def is_settled(self, hosts: Sequence[HostFacts], number: int) -> bool:
        """Its netdev is watched, has the address of the VF, and carries no link that may need other
        addresses."""
        users = self.users(hosts, number)
        return bool(users) and all(map(_sends_as_itself, users))


def _sends_as_itself(pair: Pair) -> bool:
    link = pair.link
    if link.address is None or link.address != pair.function.address or link.master is not None:
        return False
    for other in pair.guest.links:
        if other.lower == link.ifindex and other.lower_namespace is None:
            return False
    return True


def _warnings(hosts: Sequence[HostFacts], meaning: Meaning) -> Iterator[DriverWarning]:
    """All but those of a PF whose guest is watched and filtered: `vf_filter_stops_a_bridge` is more
    specific."""
    known = filter(is_filtered, pairs(hosts))
    filtered = {(pair.physical.name, pair.port.ifindex) for pair in known}
    for host in hosts:
        for address, messages in functions_with_messages(host, meaning):
            port = port_of_function(host, address)
            if port is not None and (host.name, port.ifindex) not in filtered:
                yield DriverWarning(host, port, messages)


@pair_rule(
    "warning",
    needs=("pci.enabled",),
    uses=("messages", "pci.driver", "pci.sriov"),
    messages_if=has_used_functions,
)
def vf_may_not_change_its_address(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest tries to change the MAC address of its VF, and the PF rejects it.

    nictop reads "VF … override administratively set MAC address" in the kernel messages of igb,
    ixgbe, i40e and ice. Frames of the guest with the new address are dropped. Cause: a bond, a
    bridge, a container or a cloned MAC address in the configuration of the guest.

    Not reported: the VF is trusted now, is no longer used, was created or got its driver after the
    message, or has in a watched guest the address that its PF has set. If the guest is not watched:
    also if an address was set after the message ("setting MAC … on VF").

    Sources: k8snetworkplumbingwg/sriov-cni#232, Broadcom KB 328552,
    drivers/net/ethernet/intel/igb/igb_main.c (igb_set_vf_mac_addr).
    """
    for warning in _warnings(hosts, "vf_address_refused"):
        refused = [vf for vf in warning.untrusted if not _is_solved(hosts, warning, vf)]
        if refused:
            yield _refused(
                warning,
                refused,
                "VF not trusted: MAC address change rejected",
                "If the host has set the MAC address of a VF, its guest may change it only if the "
                "VF is trusted.",
            )


def _is_solved(
    hosts: Sequence[HostFacts], warning: DriverWarning, function: VirtualFunction
) -> bool:
    """The rejected address is no longer needed, as far as is known."""
    if warning.users(hosts, function.number):
        return warning.is_settled(hosts, function.number)
    return warning.has_new_address(function.number)


@pair_rule("warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=has_used_functions)
def vf_has_no_room_for_more_addresses(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest needs more MAC addresses or VLANs on its VF than an untrusted VF may have.

    nictop reads "VF is not trusted, switch the VF to trusted to add more functionality" in the
    messages of i40e and ice. Bridges, macvlan, containers and many IPv6 multicast groups need
    filters; without a filter they receive nothing.

    Not reported: the VF is trusted now, is no longer used, or was created or got its driver after
    the message.

    Sources: kernel drivers/net/ethernet/intel/i40e/i40e_virtchnl_pf.c (i40e_check_vf_permission)
    and ice/virt.
    """
    for warning in _warnings(hosts, "vf_limit_reached"):
        if warning.untrusted:
            yield _refused(
                warning,
                warning.untrusted,
                "VF not trusted: limit of MAC/VLAN filters reached",
                "An untrusted VF may use only a few MAC addresses; users of further addresses in "
                "the guest (containers, a bridge, IPv6) receive nothing.",
            )


@host_rule("warning", uses=("messages",), messages_if=has_used_functions)
def vf_was_stopped_as_malicious(host: HostFacts) -> Outcomes:
    """The NIC has caught malformed descriptors or too many messages of a VF; it may have stopped
    the VF or one of its queues.

    nictop reads the messages about malicious drivers (Malicious Driver Detection) of PF drivers in
    the last 24 hours. What follows depends on the driver of the PF: some stop the VF until it is
    reset, some reset it, some only drop the packet. Usually that is a fault of the guest's driver,
    not an attack: an old driver, DPDK, or offloads that it uses wrongly.

    Sources: kernel intel/i40e/i40e_main.c (i40e_handle_mdd_event), intel/ice/ice_main.c
    (ice_handle_mdd_event), intel/ixgbe/ixgbe_main.c, qlogic/qed/qed_sriov.c.
    """
    for address, messages in functions_with_messages(host, "vf_malicious"):
        port = next(iter(host.links_of_function.get(address, ())), None)
        if port is None:
            continue
        match = VF_NUMBER.search(messages.newest.text)
        sender = "a VF or queue" if match is None else vf_name(host, port, int(match[1]))
        are_many = TOO_MANY_MESSAGES in messages.newest.text
        what = "too many messages" if are_many else "malformed requests (MDD)"
        show = command("ip", "-s", "link", "show", "dev", port.name)
        guest: WhereToType = "hypervisor" if host.is_guest else "here"
        note = "Or turn off its offloads there."
        yield link_finding(
            "warning",
            host,
            port,
            f"{what} from {sender}",
            evidence=message_evidence(messages),
            why="Some drivers of PFs stop the VF or the queue until it is reset, others reset it "
            "or only drop the packet. The usual cause is the driver in the guest.",
            fixes=(
                Fix("here", "Find the VF and its guest", (show,)),
                Fix(guest, "Update the driver in the guest", (), note=note),
            ),
        )


def _refused(
    warning: DriverWarning, functions: list[VirtualFunction], title: str, why: str
) -> Finding:
    host, port = warning.host, warning.port
    fixes = []
    for number in [function.number for function in functions[:MAX_FIXES]]:
        undo = ("trust", "off")
        fixes.append(
            set_vf_fix("here", f"Trust VF {number}", port, number, "trust", "on", undo=undo)
        )
    note = (
        "A trusted VF can also receive all traffic of the port: trust only guests that may do so."
    )
    return link_finding(
        "warning",
        host,
        port,
        title,
        evidence=(
            _log_evidence(warning),
            Evidence("untrusted VFs", _names(host, port, functions), f"ip link show {port.name}"),
        ),
        why=f"{why} {note}",
        fixes=tuple(fixes),
    )


def _log_evidence(warning: DriverWarning) -> Evidence:
    messages = warning.messages
    return Evidence("kernel message", messages.newest.text, message_source(messages))


def _names(host: HostFacts, port: Link, functions: Sequence[VirtualFunction]) -> str:
    return ", ".join(vf_name(host, port, function.number) for function in functions)


@pair_rule("warning", uses=("messages", "pci.driver", "pci.sriov"), messages_if=has_used_functions)
def vf_sends_foreign_addresses(hosts: Sequence[HostFacts]) -> Outcomes:
    """A guest sends frames with source MAC addresses that are not its own, and the NIC drops them
    (spoof check).

    nictop reads "Spoof event(s) detected on VF" (igb) or "Spoofed packets detected" (ixgbe) in the
    kernel messages of the last 24 hours; the drivers check every two seconds. The usual cause is a
    bridge, a bond or containers on the VF in the guest. It can also be an attack.

    Not reported: spoof check is off now for all VFs in use, VFs that were created or got their
    driver after the message, and VFs whose netdev is watched, has the address of the VF, and
    carries no other link.

    Sources: kernel drivers/net/ethernet/intel/igb/igb_main.c (igb_check_wvbr),
    openshift/dpu-operator#564, lxc/incus#2021.
    """
    for warning in _warnings(hosts, "vf_spoofs"):
        checked = []
        for function in warning.affected:
            if function.spoof_check is True and not warning.is_settled(hosts, function.number):
                checked.append(function)
        if not checked:
            continue
        port = warning.port
        names = _names(warning.host, port, checked)
        yield link_finding(
            "warning",
            warning.host,
            port,
            "spoof check drops frames with other source addresses",
            evidence=(
                _log_evidence(warning),
                Evidence("spoof check on", names, f"ip link show {port.name}"),
            ),
            why="Frames of a bridge, a bond or containers in the guest do not leave the NIC, but "
            "the guest counts them as sent.",
            fixes=tuple(_spoof_check_off(port, function) for function in checked[:MAX_FIXES]),
        )


def _spoof_check_off(port: Link, function: VirtualFunction) -> Fix:
    number = function.number
    return set_vf_fix(
        "here",
        f"Turn spoof check off for VF {number}",
        port,
        number,
        "spoofchk",
        "off",
        undo=("spoofchk", "on"),
        note="Only for guests that you trust.",
    )
