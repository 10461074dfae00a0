"""Life of a VF: resets by its PF, rejected requests, a PF that was down when it was made.

Reads nothing; kernel messages of VF drivers (in a guest) and of PF drivers (on its hypervisor), and
the netdevs that appeared while the host was watched. A VF is identified by its PCI address:
interfaces and their numbers change when it is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.virtual_functions import is_virtual_function
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS
from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType, on_peer
from nictop.rules.fixes.commands import Step, command, joined
from nictop.rules.fixes.hypervisors import has_linux_hypervisor
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import (
    HOUR_SECONDS,
    address_messages,
    functions_with_messages,
    links_with_messages,
    message_evidence,
    used_functions_with_messages,
)
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.subjects import host_finding, is_up, link_finding
from nictop.rules.vf.facts import (
    Pair,
    has_used_functions,
    has_virtual_functions,
    may_have_any_address,
    pairs,
    port_of_function,
    set_vf_fix,
    vf_name,
)

MIN_RESETS_PER_HOUR = 3
"""Single resets are normal: the PF resets a VF when its settings change."""
FAILED_REQUEST = pattern(
    r"\bVF[ -]?(?P<vf>\d{1,4})\b.{0,60}?\bopcode (?P<opcode>\d{1,4})"
    r"(?:.{0,40}?(?:retval:?|error) (?P<error>-?\d{1,5}))?"
)
UNKNOWN_REQUEST = pattern(r"\bopcode (?P<opcode>\d{1,4}) from VF\b")
VF_NUMBER = pattern(r"\bVF(?: ID)?[ :#-]{0,2}([0-9]{1,4})\b")
REQUESTS = {
    1: "agree on a version",
    2: "reset itself",
    3: "get its resources",
    6: "set up its queues",
    7: "map its interrupts",
    8: "enable its queues",
    9: "disable its queues",
    10: "add a MAC address",
    11: "remove a MAC address",
    12: "add a VLAN",
    13: "remove a VLAN",
    14: "receive all frames (promiscuous)",
    15: "read its counters",
    23: "set its RSS key",
    24: "set its RSS table",
    27: "strip VLAN tags",
    28: "keep VLAN tags",
    29: "get another number of queues",
    47: "add a flow rule",
    48: "remove a flow rule",
    52: "add a VLAN",
    53: "remove a VLAN",
}
"""virtchnl operation → what the VF wanted; include/linux/avf/virtchnl.h, enum virtchnl_ops."""
ERRORS = {
    -5: "not allowed, or not in this state",
    -18: "no memory",
    -53: "rejected by the firmware",
    -64: "not supported",
    -1: "not permitted",
    -22: "invalid",
}
"""Result → meaning; enum virtchnl_status_code, and errno of i40e's own driver."""
ADDRESS_REQUESTS = (10, 12, 14, 52)
"""Need trust, or a PF that has not set the address."""


# ------------------------------------------------------------------------------------------- resets


@host_rule("critical", uses=("messages", "pci"), messages_if=has_virtual_functions)
def vf_is_reset_repeatedly(host: HostFacts) -> Outcomes:
    """A VF is reset, or removed and made again, over and over: connections over it stall each time.

    nictop counts messages of VF drivers in the last hour ("Reset indication received from the PF",
    "Hardware reset detected"), and the interfaces that appeared for the same PCI address while the
    host was watched: three or more. The usual cause of resets is on the PF: its own resets, a
    rejected setting that both sides repeat, or drivers that do not fit. An interface is also made
    again by programs of this host that bind its driver. Critical if the VF is up without a
    carrier, else warning.

    Sources: kernel intel/iavf/iavf_main.c (iavf_reset_task), mellanox/mlx5/core/health.c;
    intel/ethernet-linux-ice#57.
    """
    seen: set[str] = set()
    for address, messages in functions_with_messages(host, "vf_reset", within=HOUR_SECONDS):
        count = messages.count(HOUR_SECONDS)
        if count.number < MIN_RESETS_PER_HOUR:
            continue
        seen.add(address)
        title = f"VF reset {count} times in the last hour"
        yield _reset_loop(host, address, title, WHY_RESET, message_evidence(messages))
    for history in host.snapshot.histories.values():
        device = history.device
        if device is None or device in seen or history.new_netdevs < MIN_RESETS_PER_HOUR:
            continue
        if not _is_vf(host, device):
            continue
        value = f"{history.new_netdevs} new interfaces in {history.watched:.0f} s"
        evidence = (
            Evidence("interfaces of this device", value, "RTM_NEWLINK, while nictop watched"),
        )
        title = f"interface of the VF made again {history.new_netdevs} times"
        yield _reset_loop(host, device, title, WHY_MADE_AGAIN, evidence)


WHY_RESET = "Its traffic stops at each reset. Mostly the PF resets it, not a setting of the guest."
WHY_MADE_AGAIN = (
    "Its traffic stops each time. The PF, the hypervisor, or a program here that binds its driver "
    "makes it again."
)


def _is_vf(host: HostFacts, address: str) -> bool:
    function = host.functions.get(address)
    if function is None:
        return False
    if function.physical_function is not None:
        return True
    links = host.links_of_function.get(address, ())
    return any(is_virtual_function(link, host.functions) for link in links)


def _reset_loop(
    host: HostFacts, address: str, title: str, why: str, evidence: tuple[Evidence, ...]
) -> Finding:
    fixes = _loop_fixes(host, address)
    links = host.links_of_function.get(address, ())
    if not links:
        return host_finding(
            "warning", host, address, title, evidence=evidence, why=why, fixes=fixes
        )
    link = links[0]
    is_without_link = is_up(link) and link.carrier is False
    severity: Severity = "critical" if is_without_link else "warning"
    return link_finding(severity, host, link, title, evidence=evidence, why=why, fixes=fixes)


def _loop_fixes(host: HostFacts, address: str) -> tuple[Fix, ...]:
    function = host.functions.get(address)
    driver = None if function is None else function.driver
    title = f"Use another version of {driver or 'the VF driver'}, or of the PF's driver"
    note = "The drivers of VF and PF must fit: compare their versions (ethtool -i on both sides)."
    return _log_fix(host, function), Fix("here", title, (), note=note)


def _log_fix(host: HostFacts, function: PciFunction | None) -> Fix:
    """Look into the log of the PF, here or on the hypervisor."""
    title = "Check the log of the PF's driver"
    note = (
        "Look for the PF's own resets, for rejected requests (opcode), and for a VLAN or MAC "
        "address that is set again."
    )
    if function is not None and function.physical_function is not None:
        grep = command("grep", "-F", function.physical_function)
        return Fix("here", title, (joined("|", command("dmesg", "-T"), grep),), note=note)
    if not has_linux_hypervisor(host.inventory.platform):
        return Fix("hypervisor", title, (), note=note)
    # The VF has another PCI address there.
    grep = command("grep", "-wE", "VF|opcode|reset")
    return Fix("hypervisor", title, (joined("|", command("dmesg", "-T"), grep),), note=note)


# -------------------------------------------------------------------------------- rejected requests


@host_rule(
    "warning",
    yields_to=("vf_may_not_change_its_address", "vf_has_no_room_for_more_addresses"),
    uses=("messages",),
    messages_if=has_used_functions,
)
def vf_request_failed(host: HostFacts) -> Outcomes:
    """The driver of a PF has rejected requests of a VF: what the guest wanted may not be in effect.

    nictop reads "VF … failed opcode …, retval: …", "Invalid message from VF", "Unsupported opcode"
    and similar messages of PF drivers in the last 24 hours. Opcode and result are those of the
    virtchnl protocol.

    Sources: kernel include/linux/avf/virtchnl.h; intel/i40e/i40e_virtchnl_pf.c,
    intel/ice/ice_virtchnl.c.
    """
    for address, messages in functions_with_messages(host, "vf_request_failed"):
        port = port_of_function(host, address)
        if port is None:
            continue
        newest = messages.newest.text
        yield link_finding(
            "warning",
            host,
            port,
            f"rejects requests of {_vf_text(newest)}: {_request_text(newest)}",
            evidence=message_evidence(messages),
            why="Unless a later request succeeded, the guest works without what it asked for: "
            "addresses, VLANs or queues are missing, often silently.",
            fixes=_request_fixes(port, newest),
        )


def _vf_text(text: str) -> str:
    match = VF_NUMBER.search(text)
    return f"VF {match[1]}" if match is not None else "a VF"


def _request_text(text: str) -> str:
    """``add a MAC address (opcode 10): not permitted (-1)``"""
    match = FAILED_REQUEST.search(text)
    known = match or UNKNOWN_REQUEST.search(text)
    if known is None:
        return "see the message"
    opcode = int(known["opcode"])
    wanted = f"opcode {opcode}"
    if opcode in REQUESTS:
        wanted = f"{REQUESTS[opcode]} ({wanted})"
    if match is None or match["error"] is None:
        return wanted
    error = int(match["error"])
    if error not in ERRORS:
        return f"{wanted}: error {error}"
    return f"{wanted}: {ERRORS[error]} ({error})"


def _request_fixes(port: Link, text: str) -> tuple[Fix, ...]:
    show = Fix(
        "here", "Show the settings of the VFs", (command("ip", "link", "show", "dev", port.name),)
    )
    number = _vf_that_lacks_trust(text)
    if number is None:
        note = "Both sides must know the request."
        return show, Fix("here", "Update the drivers of PF and VF", (), note=note)
    if _is_trusted(port, number):
        return (show,)
    note = (
        "Only for guests that you trust: a trusted VF may use other addresses and receive all "
        "traffic of the port."
    )
    trust = _trust_fix("here", port, number, note)
    return trust, show


def _vf_that_lacks_trust(text: str) -> int | None:
    """Number of the VF whose rejected request needs trust; None: it was another request."""
    match, number = FAILED_REQUEST.search(text), VF_NUMBER.search(text)
    if match is None or number is None:
        return None
    if int(match["opcode"]) not in ADDRESS_REQUESTS:
        return None
    return int(number[1])


def _is_trusted(port: Link, number: int) -> bool:
    for function in port.virtual_functions:
        if function.number == number and function.trust is True:
            return True
    return False


def _trust_fix(place: WhereToType, port: Link, number: int, note: str) -> Fix:
    title, undo = f"Trust VF {number}", ("trust", "off")
    return set_vf_fix(place, title, port, number, "trust", "on", undo=undo, note=note)


@host_rule("info", uses=("messages",), messages_if=has_used_functions)
def vf_setting_came_too_early(host: HostFacts) -> Outcomes:
    """A setting of a VF (MAC address, VLAN, rate) was rejected by the PF, because the VF was being
    reset.

    nictop reads "VF … still in reset. Try again." of i40e and ice in the last 24 hours. libvirt and
    scripts set address and VLAN right before a guest starts; if that fails, the guest starts with
    the old ones.

    Source: kernel intel/i40e/i40e_virtchnl_pf.c (i40e_check_vf_init_timeout).
    """
    for address, messages in functions_with_messages(host, "vf_setting_failed"):
        port = port_of_function(host, address)
        if port is None:
            continue
        show = command("ip", "link", "show", "dev", port.name)
        yield link_finding(
            "info",
            host,
            port,
            f"a setting of {_vf_text(messages.newest.text)} was rejected: still in reset",
            evidence=message_evidence(messages),
            why="Unless it was made again since, the setting is not in effect: the guest may have "
            "another MAC address or VLAN than intended.",
            fixes=(
                Fix("here", "Compare the settings of the VFs with what was intended", (show,)),
                SET_AGAIN_FIX,
            ),
        )


SET_AGAIN_FIX = Fix(
    "here",
    "Set them again",
    (),
    note="Some seconds after the VFs were made or their guest has ended.",
)


@pair_rule("warning", uses=("messages",), messages_if=has_virtual_functions)
def port_refuses_a_request(hosts: Sequence[HostFacts]) -> Outcomes:
    """The PF of a VF has rejected a request of this guest: an address, a VLAN, an MTU or a number
    of queues.

    nictop reads the messages of the VF's driver ("Failed to add MAC filter", "PF returned error …
    to our request …") in the last 24 hours. Error names such as IAVF_ERR_NVM are only labels: the
    firmware is not damaged.

    Not reported: the netdev was created after the last message.

    Sources: kernel intel/iavf/iavf_virtchnl.c, intel/ixgbevf/vf.c;
    k8snetworkplumbingwg/sriov-cni#232.
    """
    known = {(pair.guest.name, pair.link.ifindex): pair for pair in pairs(hosts)}
    for host in hosts:
        for link, messages in links_with_messages(host, "pf_refused"):
            pair = known.get((host.name, link.ifindex))
            peer = "" if pair is None else pair.physical.name
            yield link_finding(
                "warning",
                host,
                link,
                "its PF has rejected a request",
                evidence=message_evidence(messages),
                why="Unless it asked again since, what this guest wanted is not in effect. The PF "
                "decides which MAC addresses, VLANs and MTUs a VF may use; usually the host has "
                "set its address, or does not trust it.",
                fixes=on_peer(peer, _allow_fixes(host, link, pair)),
            )


def _allow_fixes(host: HostFacts, link: Link, pair: Pair | None) -> tuple[Fix, ...]:
    note = "Only for guests that you trust."
    if pair is None:
        return (_find_the_port_fix(host, link, note),)
    if pair.function.trust is True:
        show = command("ip", "link", "show", "dev", pair.port.name)
        return (Fix(pair.place, "Compare with the settings of the VF on the PF", (show,)),)
    return (_trust_fix(pair.place, pair.port, pair.function.number, note),)


def _find_the_port_fix(host: HostFacts, link: Link, note: str) -> Fix:
    """On a hypervisor that is not watched."""
    if not has_linux_hypervisor(host.inventory.platform):
        title = "Allow it on the PF, or use the address that the host has set"
        return Fix("hypervisor", title, ())
    grep = command("grep", "-B", "20", "-i", link.address or "<MAC>")
    find = joined("|", command("ip", "link", "show"), grep)
    trust = command("ip", "link", "set", "<PF>", "vf", "<N>", "trust", "on")
    return Fix("hypervisor", "Find the PF, and trust the VF", (find, trust), False, note=note)


# -------------------------------------------------------------------------------------- PF was down


@host_rule(
    "critical",
    uses=("links.address_assignment", "messages", "pci"),
    messages_if=has_virtual_functions,
)
def vf_was_made_while_its_port_was_down(host: HostFacts) -> Outcomes:
    """The driver of a VF found its PF down or in reset: the VF has no link, or a random MAC
    address.

    nictop reads the guest's own log: "PF still in reset state. Is the PF interface up?" and similar
    messages of VF drivers. That proves the state of the PF without access to the host. Critical if
    the VF has no carrier, else warning if its address is random.

    Not reported: the VF has a carrier, or is administratively down, and has an address that the
    host has set; or it was made again since.

    Sources: kernel intel/ixgbevf/ixgbevf_main.c (ixgbevf_sw_init), intel/igbvf/netdev.c;
    canonical/lxd#5041.
    """
    yield from _without_interface(host)
    for link, messages in links_with_messages(host, "port_was_down"):
        is_random = link.address_assignment == "random"
        is_without_link = is_up(link) and link.carrier is not True
        if not is_without_link and not is_random:
            continue
        evidence = [*message_evidence(messages)]
        if is_random:
            address = f"{link.address or 'none'}, random"
            evidence.append(Evidence("MAC address", address, f"ip link show {link.name}"))
        yield link_finding(
            "critical" if is_without_link else "warning",
            host,
            link,
            "its PF was down or in reset when the driver of the VF started",
            evidence=tuple(evidence),
            why="A VF gets its link and its MAC address from the PF. If that does not answer when "
            "the VF's driver starts, it has neither then; a random address is another one after "
            "each start.",
            fixes=_port_up_fixes(host, link),
        )


def _without_interface(host: HostFacts) -> Iterator[Finding]:
    """VFs for which the driver made no interface, because its PF did not answer."""
    for function, messages in used_functions_with_messages(host, "port_was_down"):
        address = function.address
        if host.links_of_function.get(address):
            continue
        yield host_finding(
            "critical",
            host,
            address,
            "no interface: its PF did not answer the driver of the VF",
            evidence=message_evidence(messages),
            why="The driver of a VF gets everything from the PF: queues, MAC address, link. This "
            "PF was down or in reset, or its driver rejected what this one asked for.",
            fixes=NO_INTERFACE_FIXES,
        )


NO_INTERFACE_FIXES = (
    Fix(
        "hypervisor",
        "Bring the PF up, look at the log of its driver",
        (),
        note="Then make the VF again.",
    ),
    Fix("hypervisor", "Use another version of the PF's driver", (), note="Both drivers must fit."),
)


def _port_up_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    note = (
        "Bring the PF up before the VFs are made, also at boot: it needs no address, only to be up."
    )
    port = _port_of_vf(host, link)
    if port is not None:
        up = command("ip", "link", "set", "dev", port.name, "up")
        down_and_up = (
            command("ip", "link", "set", "dev", link.name, "down"),
            command("ip", "link", "set", "dev", link.name, "up"),
        )
        return (Fix("here", "Bring the PF up", (up, *down_and_up), False, note=note),)
    up_there: tuple[Step, ...] = ()
    if has_linux_hypervisor(host.inventory.platform):
        up_there = (command("ip", "link", "set", "<PF>", "up"),)
    driver = link_driver(link) or "<DRIVER>"
    reload = (command("modprobe", "-r", driver), command("modprobe", driver))
    return (
        Fix("hypervisor", "Bring the PF up", up_there, False, note=note),
        Fix(
            "here",
            "Then start the driver of the VF again",
            reload,
            None,
            note="All links of this driver go down: use the console.",
        ),
    )


def _port_of_vf(host: HostFacts, link: Link) -> Link | None:
    """The netdev of the physical function; None: it is not on this host."""
    function = host.function_of(link)
    if function is None:
        return None
    ports = host.links_of_function.get(function.physical_function or "", ())
    return next(iter(ports), None)


# ---------------------------------------------------------------------------------------- addresses


@pair_rule(
    "critical",
    yields_to=("vf_filter_stops_a_bridge",),
    uses=("messages", "pci.driver", "pci.enabled", "pci.sriov", "threads"),
    messages_if=has_virtual_functions,
)
def guest_uses_another_address_than_the_port(hosts: Sequence[HostFacts]) -> Outcomes:
    """The VF of a guest has another MAC address than its PF has set for it: frames for the guest
    are not delivered.

    nictop compares the address of the guest's netdev with that in the PF's table
    (IFLA_VFINFO_LIST). Both sides must be watched. As the address is what usually tells which VF a
    guest has, nictop also uses the PCI address (containers), and the name of the virtual machine,
    if only one VF in use can be the guest's.

    Not reported: the PF's driver has logged it, which rules about the PF report; the VF is trusted,
    is down, or is a port of a bond, bridge or netvsc, which set their own address; no address has
    been set on the PF; mlx5 without spoof check, which delivers to each address that a VF asks for.

    Sources: kernel intel/ixgbe/ixgbe_sriov.c, intel/i40e/i40e_virtchnl_pf.c
    (i40e_check_vf_permission), mellanox/mlx5/core/eswitch.c (esw_add_uc_addr);
    k8snetworkplumbingwg/sriov-cni#88.
    """
    for pair in pairs(hosts):
        wanted = _address_to_use(pair)
        if wanted is None or _may_differ(pair.link) or _is_logged_there(pair):
            continue
        link = pair.link
        if link.address in (wanted, None):
            continue
        there = f"ip link show {pair.port.name}: {pair.port_text}"
        yield link_finding(
            "critical",
            pair.guest,
            link,
            f"MAC address differs from that of {pair.port_text}",
            evidence=(
                Evidence("address in the guest", link.address or "", f"ip link show {link.name}"),
                Evidence("address on the PF", wanted, there),
                Evidence("known as its VF by", pair.by, "nictop"),
            ),
            why=_why_other_address(pair),
            fixes=on_peer(pair.physical.name, _same_address_fixes(pair, wanted)),
        )


def _why_other_address(pair: Pair) -> str:
    why = "The NIC delivers frames for the address that the PF has set, not for the guest's."
    if pair.function.spoof_check is not True:
        return why
    return f"{why} It drops what the guest sends with its own (spoof check is on)."


def _address_to_use(pair: Pair) -> str | None:
    """The address that the PF has set for a VF of another host and insists on."""
    if pair.guest is pair.physical or pair.function.trust is True:
        return None
    if may_have_any_address(pair.port, pair.function):
        return None
    address = pair.function.address
    if address == ZERO_MAC_ADDRESS:
        return None
    return address or None


def _may_differ(link: Link) -> bool:
    """It is not used, or its master sets the address."""
    return not is_up(link) or link.master is not None


def _is_logged_there(pair: Pair) -> bool:
    """The PF's driver has logged it: the rules about its messages report it for the PF."""
    port = pair.port.pci_address
    messages = address_messages(pair.physical, port, "vf_address_refused", "vf_spoofs")
    return messages is not None


def _same_address_fixes(pair: Pair, wanted: str) -> tuple[Fix, ...]:
    link, number = pair.link, pair.function.number
    here = command("ip", "link", "set", "dev", link.name, "address", wanted)
    back = command("ip", "link", "set", "dev", link.name, "address", link.address or "")
    note = "If the driver rejects it, start the driver again: it then takes the address of the PF."
    return (
        Fix("here", "Use the address that the PF has set", (here,), False, (back,), note),
        set_vf_fix(
            pair.place,
            "Or set the guest's address on the PF",
            pair.port,
            number,
            "mac",
            link.address or "<MAC>",
            undo=("mac", wanted),
        ),
    )


@host_rule("critical", needs=("pci.enabled",), uses=("pci.driver", "pci.sriov"))
def virtual_functions_share_an_address(host: HostFacts) -> Outcomes:
    """Two VFs in use of one NIC have the same MAC address in the same VLAN: the NIC cannot tell
    their guests apart.

    nictop compares the addresses that the PF has set (IFLA_VFINFO_LIST) of VFs that are in use.
    Usual cause: a VF that was not reset when its guest ended, and keeps the address that another VF
    has now.

    Sources: k8snetworkplumbingwg/sriov-network-device-plugin#685; ip-link(8) vf mac.
    """
    for port, same in _equal_addresses(host):
        numbers = ", ".join(vf_name(host, port, number) for number in same)
        vf = same[-1]
        change = set_vf_fix(
            "here",
            f"Set another MAC address for VF {vf}",
            port,
            vf,
            "mac",
            "<MAC>",
            note="Replace <MAC> with an unused address, e.g. 02:…; first the VF whose guest no "
            "longer needs it.",
        )
        value = f"{_address(port, vf)}: {numbers}"
        yield link_finding(
            "critical",
            host,
            port,
            f"{numbers} have the same MAC address",
            evidence=(Evidence("MAC address", value, f"ip link show {port.name}"),),
            why="The embedded switch of the NIC delivers by this address: frames for one of them "
            "reach the other, or both.",
            fixes=(change,),
        )


def _equal_addresses(host: HostFacts) -> Iterator[tuple[Link, list[int]]]:
    """(netdev of the PF, numbers of VFs in use with one address)"""
    users: dict[tuple[int, str, int], list[int]] = {}
    for port, function in host.used_virtual_functions:
        if function.address and function.address != ZERO_MAC_ADDRESS:
            key = port.ifindex, function.address, function.vlan or 0
            users.setdefault(key, []).append(function.number)
    for (ifindex, _, _), numbers in users.items():
        if len(numbers) > 1:
            yield host.snapshot.links[ifindex], sorted(numbers)


def _address(port: Link, number: int) -> str:
    for function in port.virtual_functions:
        if function.number == number:
            return function.address or ""
    return ""
