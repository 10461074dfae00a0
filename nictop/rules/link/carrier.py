"""Carrier of links, and addresses that another host also uses.

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
"""Carrier changes; each loss and each return counts as one."""


@host_rule("link and path", "warning")
def carrier_flaps(host: HostFacts) -> Outcomes:
    """The link went down and up repeatedly (link flapping).

    nictop reads carrier_changes, which counts each loss and each return of the carrier since the netdev was created,
    and the uptime of the host. Reported: ten changes or more, and at least four per hour. Reconfiguration (ethtool -L,
    another MTU) makes two changes, a boot two to four.

    Sources: kernel Documentation/ABI/testing/sysfs-class-net; rezolus, network_carrier_changes.
    """
    hours = host.inventory.time / 3600
    if hours <= 0:
        return
    for link in used_links(host):
        changes = link.carrier_changes
        if changes is None or changes < MIN_CARRIER_CHANGES or changes / max(hours, 0.25) < MIN_CHANGES_PER_HOUR:
            continue
        evidence = [
            Evidence(
                "carrier changes", f"{changes} in {units.duration(host.inventory.time)} of uptime", "carrier_changes"
            ),
        ]
        state = link.ethtool.state
        if state is not None and state.down_events:
            evidence.append(Evidence("link down events", str(state.down_events), f"ethtool -I {link.name}"))
        show = joined("|", command("dmesg", "-T"), command("grep", "-F", link.name), command("grep", "-i", "link"))
        yield link_finding(
            "warning",
            host,
            link,
            f"link flapped {changes // 2} times",
            evidence=tuple(evidence),
            why="Packets in flight are lost each time, and the switch may block the port for 30 s (spanning tree).",
            fixes=(
                Fix("here", "Show link messages of the kernel", (show,)),
                Fix(
                    "switch",
                    "Replace cable and transceiver, check the switch port",
                    (),
                    note="If it continues, use another switch port.",
                ),
            ),
        )


@host_rule("link and path", "critical", yields_to=("ip_address_is_on_two_hosts",), uses=("addresses",))
def address_is_a_duplicate(host: HostFacts) -> Outcomes:
    """An IPv6 address of this host is also used by another host; the kernel does not use it.

    nictop reads the address flag dadfailed: duplicate address detection received an answer (RFC 4862). Critical for a
    configured address, warning for a link-local address. A network loop, or a clone with the same MAC address, has the
    same effect.

    Source: kernel net/ipv6/addrconf.c addrconf_dad_failure.
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
            f"duplicate IPv6 address: {first.address}",
            evidence=tuple(
                Evidence(
                    "address",
                    f"{one.address}/{one.prefix_length} {' '.join(one.flags)}",
                    "RTM_GETADDR: IFA_F_DADFAILED",
                )
                for one in failed
            ),
            why="The kernel does not use the address until it is removed and added again.",
            fixes=(
                Fix(
                    "here",
                    "Add the address again after solving the conflict",
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
    """A link that has addresses in the configuration of this host is administratively down, or has no carrier.

    Checked: NICs that systemd-networkd, netplan or ifupdown configure with addresses, and NICs that have an address or
    a default route, unless a NetworkManager profile is active on them (other rules check those). Not checked: ports of
    bridges and bonds, and links without configuration.

    Sources: systemd.network(5), netplan(5), interfaces(5).
    """
    wanted = _configured_names(host)
    for link in host.links:
        if link.bus is None or link.master is not None or link.carrier or active_profile(host, link) is not None:
            continue
        manager = host.inventory.networkmanager
        device = manager.devices.get(link.ifindex) if manager is not None else None
        if device is not None and device.managed and not _configured_outside_networkmanager(host, link):
            continue
        source = wanted.get(link.name)
        if source is None and not (link.flags & IFF_UP and (has_address(link) or link.default_routes)):
            continue
        off = not link.flags & IFF_UP
        state = link.ethtool.state
        why = f", {state.extended_state}" if state is not None and state.extended_state else ""
        evidence = [Evidence("state", "administratively down" if off else f"no carrier{why}", "RTM_GETLINK")]
        if source is not None:
            evidence.append(Evidence("configured in", source, source.rpartition(":")[0]))
        if has_address(link):
            evidence.append(address_evidence(link))
        yield link_finding(
            "warning",
            host,
            link,
            "configured, but administratively down" if off else "configured, but no carrier",
            evidence=tuple(evidence),
            why="Its addresses are not reachable."
            if off
            else "No cable is connected, the remote port is down, or the virtual NIC is disconnected.",
            fixes=_bring_up(host, link, off=off),
        )


def _configured_outside_networkmanager(host: HostFacts, link: Link) -> bool:
    """NetworkManager only describes the link: its addresses are not from a NetworkManager profile."""
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
        return (Fix("here", "Bring the link up", (up,), persistent=False, undo=(down,)),)
    return plug_in_fixes(host, link)


def plug_in_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """How to connect a link without carrier: the cable, or the virtual NIC on the hypervisor."""
    plug: tuple[Fix, ...] = (
        (
            Fix(
                "libvirt",
                "Connect the virtual NIC",
                (command("virsh", "domif-setlink", "<DOMAIN>", mac_or_placeholder(link), "up"),),
            ),
            Fix("proxmox", "Check that link_down is not set", (command("qm", "config", "<ID>"),)),
            Fix("esxi", "Set the adapter to Connected", ()),
        )
        if host.is_guest
        else (Fix("switch", "Check cable and switch port", ()),)
    )
    places = hypervisor_places(host.inventory.platform)
    return tuple(fix for fix in plug if not host.is_guest or fix.where in places)
