"""Whether a link has a carrier and keeps it, and whether its addresses are its own.

Kernel: Documentation/networking/statistics.rst, Documentation/networking/ethtool-netlink.rst, if_link.h.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.hypervisors import hypervisor_places
from nictop.rules.fixes.persistence import active_profile
from nictop.rules.fixes.profiles import has_address
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import address_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding, mac_or_placeholder, used_links

MIN_CARRIER_CHANGES = 10
MIN_CHANGES_PER_HOUR = 4.0
"""Changes of carrier; each loss and each return is one."""


@host_rule("link and path", "warning")
def carrier_flaps(host: HostFacts) -> Outcomes:
    """The link was lost and came back many times.

    nictop reads carrier_changes, counted since the netdev exists, and how long the host has been running: ten changes
    or more, and at least four per hour, are reported. A driver that is set up again (ethtool -L, another MTU) makes two
    changes, a boot two to four. From the kernel's sysfs-class-net and rezolus' network_carrier_changes.
    """
    hours = host.inventory.time / 3600
    if hours <= 0:
        return
    for link in used_links(host):
        changes = link.carrier_changes
        if changes is None or changes < MIN_CARRIER_CHANGES or changes / max(hours, 0.25) < MIN_CHANGES_PER_HOUR:
            continue
        evidence = [
            Evidence("carrier changes", f"{changes} in {units.duration(host.inventory.time)}", "carrier_changes"),
        ]
        state = link.ethtool.state
        if state is not None and state.down_events:
            evidence.append(Evidence("link down events", str(state.down_events), f"ethtool -I {link.name}"))
        seen = joined("|", command("dmesg", "-T"), command("grep", "-F", link.name), command("grep", "-i", "link"))
        yield link_finding(
            "warning",
            host,
            link,
            f"has lost and found its link {changes // 2} times",
            evidence=tuple(evidence),
            why="Each time everything in flight is lost, and the switch may block the port for half a minute.",
            fixes=(
                Fix("here", "see when", (seen,)),
                Fix("switch", "change cable and transceiver, look at the port", (), note="Then another port."),
            ),
        )


@host_rule("link and path", "critical", yields_to=("ip_address_is_on_two_hosts",), uses=("addresses",))
def address_is_a_duplicate(host: HostFacts) -> Outcomes:
    """An IPv6 address of this host is also used by another one, so that the kernel does not use it.

    nictop finds the flag dadfailed on an address: duplicate address detection got an answer (RFC 4862). It is critical
    for a configured address, a warning for a link-local one. A loop, or a clone with the same MAC address, does that
    too. From the kernel's net/ipv6/addrconf.c, addrconf_dad_failure.
    """
    for link in host.links:
        failed = [one for one in link.addresses if "dadfailed" in one.flags]
        if not failed or not link.flags & IFF_UP:
            continue
        first = failed[0]
        configured = any(one.scope == "global" for one in failed)
        address = f"{first.address}/{first.prefix_length}"
        yield link_finding(
            "critical" if configured else "warning",
            host,
            link,
            f"cannot use {first.address}: another host has it",
            evidence=tuple(
                Evidence(
                    "address",
                    f"{one.address}/{one.prefix_length} {' '.join(one.flags)}",
                    "RTM_GETADDR: IFA_F_DADFAILED",
                )
                for one in failed
            ),
            why="The kernel keeps the address without using it. It stays so until it is set anew.",
            fixes=(
                Fix(
                    "here",
                    "when the other one is gone, set it anew",
                    (
                        command("ip", "addr", "del", address, "dev", link.name),
                        command("ip", "addr", "add", address, "dev", link.name),
                    ),
                    persistent=False,
                ),
            ),
        )


@host_rule(
    "link and path",
    "warning",
    yields_to=(
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
        "networkd_failed",
        "link_down_profile_waits",
    ),
    needs=("networkmanager",),
    uses=("configuration", "addresses", "routes"),
)
def configured_link_is_down(host: HostFacts) -> Outcomes:
    """A link that the configuration of this host wants is switched off, or has no carrier.

    nictop looks at NICs that systemd-networkd, netplan or ifupdown configure with addresses, or that have an address or
    a default route, and that NetworkManager does not run (of those it speaks with their profile; NICs that were set up
    by hand are looked at here). Ports of bridges and bonds, and links that nothing names, are left alone.

    Sources: systemd.network(5), netplan(5), interfaces(5).
    """
    wanted = _configured_names(host)
    for link in host.links:
        if link.bus is None or link.master is not None or link.carrier or active_profile(host, link) is not None:
            continue
        manager = host.inventory.networkmanager
        device = manager.devices.get(link.ifindex) if manager is not None else None
        if device is not None and device.managed and not _set_up_by_hand(host, link):
            continue
        source = wanted.get(link.name)
        if source is None and not (link.flags & IFF_UP and (has_address(link) or link.default_routes)):
            continue
        off = not link.flags & IFF_UP
        state = link.ethtool.state
        why = f", {state.extended_state}" if state is not None and state.extended_state else ""
        evidence = [Evidence("state", "switched off" if off else f"no carrier{why}", "RTM_GETLINK")]
        if source is not None:
            evidence.append(Evidence("configured in", source, source.rpartition(":")[0]))
        if has_address(link):
            evidence.append(address_evidence(link))
        yield link_finding(
            "warning",
            host,
            link,
            "is configured, but switched off" if off else "is configured, but has no carrier",
            evidence=tuple(evidence),
            why="Its addresses cannot be reached."
            if off
            else "Nothing is connected to it, the other end is switched off, or the virtual cable is unplugged.",
            fixes=_bring_up(host, link, off=off),
        )


def _set_up_by_hand(host: HostFacts, link: Link) -> bool:
    """NetworkManager looks on: the addresses are not from a profile of its own."""
    active = host.profiles.active(link)
    return active.external if active is not None else has_address(link)


def _configured_names(host: HostFacts) -> dict[str, str]:
    """Name of a link → file and line that gives it addresses."""
    found: dict[str, str] = {}
    for one in host.configuration.stanzas:
        if one.owner in ("netplan", "ifupdown", "networkd", "ifcfg") and not one.ignores:
            if not set(one.methods) & {"dhcp4", "dhcp6", "static", "auto"}:
                continue
            for name in one.names:
                found.setdefault(name, f"{one.file}:{one.line}")
    return found


def _bring_up(host: HostFacts, link: Link, *, off: bool) -> tuple[Fix, ...]:
    if off:
        up = command("ip", "link", "set", "dev", link.name, "up")
        down = command("ip", "link", "set", "dev", link.name, "down")
        return (Fix("here", "switch it on", (up,), persistent=False, undo=(down,)),)
    return plug_in_fixes(host, link)


def plug_in_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """How a link without a carrier gets one: the cable, or what stands for it below a guest."""
    plug: tuple[Fix, ...] = (
        (
            Fix(
                "libvirt",
                "plug the virtual cable in",
                (command("virsh", "domif-setlink", "<DOMAIN>", mac_or_placeholder(link), "up"),),
            ),
            Fix("proxmox", "see that link_down is not set", (command("qm", "config", "<ID>"),)),
            Fix("esxi", "tick Connected on the adapter", ()),
        )
        if host.is_guest
        else (Fix("switch", "look at cable and port", ()),)
    )
    places = hypervisor_places(host.inventory.platform)
    return tuple(fix for fix in plug if not host.is_guest or fix.where in places)
