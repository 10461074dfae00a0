"""Carrier of links, and addresses that another host also uses.

Kernel: Documentation/networking/statistics.rst, Documentation/networking/ethtool-netlink.rst,
if_link.h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from nictop.model.devices.link_history import (
    DISABLED,
    DOWN,
    FOR_A_MOMENT,
    IPV6_LOSSES,
    IPV6_MIN_MTU,
    SMALL_MTU,
    LinkHistory,
    history_key,
    ipv6_loss,
    losses_after_the_first_carrier,
)
from nictop.model.devices.links import has_global_address
from nictop.model.facts.routing import route_text
from nictop.model.kernel_log import CLOCK_TOLERANCE_SECONDS
from nictop.model.text.words import IFF_LOOPBACK, address_text
from nictop.model.time_axis import event_time_text
from nictop.model.virtual_chain import is_own_veth
from nictop.probe.inventory.machine.message_table import TABLE
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link
from nictop.rules.bonds.port_links import ports_of_unknown_speed
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, joined, with_undo
from nictop.rules.fixes.ipv6_addresses import (
    add_again,
    add_routes,
    lost_addresses,
    lost_static_routes,
    route_name,
)
from nictop.rules.fixes.persistence import active_profile
from nictop.rules.fixes.power_saving import aspm_evidence, aspm_fixes, eee_evidence, eee_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.kernel_messages import (
    HOUR_SECONDS,
    LOG,
    RECENT_SECONDS,
    link_messages,
    message_evidence,
    newest_evidence,
)
from nictop.rules.link.carrier_causes import CAUSES, NIC_FAULTS, flap_fixes, nic_kind, plug_in_fixes
from nictop.rules.profiles.nics import address_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.fixes import unset_note
from nictop.rules.subjects import (
    host_finding,
    is_up,
    link_finding,
    names_text,
    own_veths,
    set_address,
    used_links,
)

MIN_LOSSES_PER_HOUR = 3
"""Of the carrier, in the last hour: reconfiguration (ethtool -L, another MTU) takes one or two."""
MIN_LOSSES_PER_DAY = 10
"""Logged in 24 hours, or as a mean since the netdev was created."""
MIN_LOSSES_IN_ALL = MIN_LOSSES_PER_HOUR + 2
"""Since the netdev was created: fewer have no mean."""
MIN_MEAN_HOURS = 1.0
"""Losses soon after the boot are no mean of a day."""
PCI_CLASS_NETWORK_OTHER = 0x0280
"""Wi-Fi NICs have it."""
WIRELESS_PREFIXES = ("wl", "ww")
"""Names of Wi-Fi and mobile NICs, systemd.net-naming-scheme(7)."""
MAX_SHOWN_ADDRESSES = 4
EEE_SPEEDS = (2500,)
"""Mb/s at which igc loses its link with Energy Efficient Ethernet; vyos/vyos-build#366."""


DRIVERS_THAT_LOG_LOSSES = frozenset(
    message.driver for message in TABLE if message.meaning == "link_lost"
) - {"any"}
"""All but those whose texts are of a library."""
SINCE_CREATED = "since it was created"
CREATION_SECONDS = 60.0
"""Until a netdev is renamed, which the kernel logs, after it was made."""


@dataclass(frozen=True)
class Losses:
    """How often a link lost its carrier, and what that is read from."""

    number: int
    or_more: bool
    period: str
    """``in the last hour``; the same at each reading."""
    source: str
    begin: str = ""
    """``since 2026-11-21 08:01:40 UTC``; "": the period says it."""

    @property
    def number_text(self) -> str:
        return f"{self.number} or more" if self.or_more else str(self.number)


@host_rule(
    "warning",
    yields_to=(
        "driver_has_detached_the_nic",
        "transceiver_is_refused",
        "vf_is_reset_repeatedly",
        "transmit_queue_timed_out",
        "nic_is_reset_repeatedly",
        "nic_firmware_failed",
    ),
    uses=("messages",),
)
def carrier_flaps(host: HostFacts) -> Outcomes:
    """The link went down and up repeatedly (link flapping): a NIC, or the veth that is the NIC of a
    container or network namespace.

    nictop counts losses of the carrier in the last hour (messages of the driver such as "NIC Link
    is Down", and carrier_changes while the host is watched): three or more; in the last 24 hours:
    ten or more in the log; and as a mean since the netdev was created: ten a day or more.
    carrier_changes counts each loss and each return, and with some drivers the first one: before a
    carrier has come there is nothing to lose.

    If Energy Efficient Ethernet is in use, turning it off is the first fix: igc loses its link with
    it at 2.5 Gb/s, and for other NICs it is the quickest test.

    Not reported: losses after which the link was set up ("adding VLAN 0 to HW filter", logged if
    8021q is loaded), and those while nictop saw it set down, as who sets a link down takes its
    carrier; losses in carrier_changes that a
    driver that logs each one has not logged, for the same reason, or because another MTU or other
    rings have reset the NIC, by nictop or by others; a port that a bond
    keeps down for another reason. Of a port the mean is at most what the bond has counted: adding a
    port to a bond sets it down and up.

    Sources: kernel Documentation/ABI/testing/sysfs-class-net; rezolus, network_carrier_changes;
    Intel's advice on I225 and I226 in vyos/vyos-build#366.
    """
    kept_down = {port.ifindex for ports in ports_of_unknown_speed(host).values() for port in ports}
    for link in (*used_links(host), *own_veths(host)):
        losses = _losses(host, link)
        if losses is None or link.ifindex in kept_down or _is_wireless(host, link):
            continue
        saving = _saving_cause(link)
        yield link_finding(
            "warning",
            host,
            link,
            f"lost its carrier {losses.number_text} times {losses.period}",
            evidence=tuple(_flap_evidence(host, link, losses, saving)),
            why=f"{CAUSES[nic_kind(host, link)].flaps} {saving or ''}".rstrip(),
            fixes=_flap_fixes(host, link, saving=saving is not None),
        )


def _flap_evidence(
    host: HostFacts, link: Link, losses: Losses, saving: str | None
) -> Iterator[Evidence]:
    value = f"{losses.number_text} {losses.begin or losses.period}"
    yield Evidence("carrier losses", value, losses.source)
    logged = link_messages(host, link, "link_lost")
    if logged is not None:
        yield from message_evidence(logged)
    state = link.ethtool.state
    if state is not None and state.down_events:
        yield Evidence("link down events", str(state.down_events), f"ethtool -I {link.name}")
    if saving is not None:
        yield from eee_evidence(link)
        yield from aspm_evidence(host.function_of(link))


KNOWN_CAUSE = (
    "Likely cause: Energy Efficient Ethernet, with which this NIC loses its link at 2.5 "
    "Gb/s; not the cable."
)
POSSIBLE_CAUSE = (
    "Possible causes: Energy Efficient Ethernet, which is in use and does not work "
    "with every switch; cable or port."
)


def _is_wireless(host: HostFacts, link: Link) -> bool:
    """Wi-Fi and mobile NICs lose their carrier whenever they change the access point."""
    if link.name.startswith(WIRELESS_PREFIXES):
        return True
    function = host.function_of(link)
    return function is not None and function.class_code >> 8 == PCI_CLASS_NETWORK_OTHER


def _losses(host: HostFacts, link: Link) -> Losses | None:
    """The first that is frequent of: the last hour, the last 24 hours, the time of watching, the
    mean since the netdev was created."""
    return _logged_losses(host, link) or _watched_losses(host, link) or _mean_losses(host, link)


def _logged_losses(host: HostFacts, link: Link) -> Losses | None:
    logged = link_messages(host, link, "link_lost")
    if logged is None:
        return None
    for seconds, enough, period in (
        (HOUR_SECONDS, MIN_LOSSES_PER_HOUR, "in the last hour"),
        (RECENT_SECONDS, MIN_LOSSES_PER_DAY, "in 24 h"),
    ):
        count = logged.count(seconds)
        number = count.number - _set_up_again(host, link, logged.first_time, seconds)
        if number < enough:
            continue
        if link.created is None or link.created < host.inventory.time - seconds:
            return Losses(number, count.or_more, period, LOG)
        # Those about an earlier netdev of the device are not counted.
        begin = _since_text(host, link.created)
        return Losses(number, count.or_more, SINCE_CREATED, LOG, begin)
    return None


def _set_up_again(host: HostFacts, link: Link, since: float, within: float) -> int:
    """How often the link was set up after a loss: who sets it down takes its carrier."""
    opened = link_messages(host, link, "link_opened", within=within)
    if opened is None:
        return 0
    return sum(entry.time > since for entry in opened.entries)


def _watched_losses(host: HostFacts, link: Link) -> Losses | None:
    history = host.history_of(link)
    if history is None or history.new_losses < MIN_LOSSES_PER_HOUR:
        return None
    begin = history.points[0].time
    losses = _at_most_logged(host, link, history.new_losses, begin)
    if losses < MIN_LOSSES_PER_HOUR:
        return None
    since = _since_text(host, begin)
    return Losses(losses, False, "while it was watched", "carrier_changes", since)


def _mean_losses(host: HostFacts, link: Link) -> Losses | None:
    if link.device is None and link.created is None:
        return None  # not known since when they are counted
    has_carrier = link.carrier is True
    changes = link.carrier_changes or 0
    counted = losses_after_the_first_carrier(changes, has_carrier=has_carrier)
    if counted < MIN_LOSSES_IN_ALL:
        return None
    created = link.created or 0.0
    history = host.history_of(link)
    downs = 0 if history is None else history.all_downs
    losses = counted - max(_set_up_again(host, link, 0.0, math.inf), downs)
    losses = _at_most_logged(host, link, losses, created)
    if link.bond_port is not None and link.bond_port.link_failures is not None:
        # the bond sets its ports down and up when it takes them
        losses = min(losses, link.bond_port.link_failures)
    hours = max((host.inventory.time - created) / HOUR_SECONDS, MIN_MEAN_HOURS)
    if losses * 24 < MIN_LOSSES_PER_DAY * hours or losses < MIN_LOSSES_IN_ALL:
        return None
    period = SINCE_CREATED if link.created is not None else "since boot"
    return Losses(losses, False, period, "carrier_changes", _since_text(host, created))


def _since_text(host: HostFacts, time: float) -> str:
    return f"since {event_time_text(host.inventory, time)}"


def _at_most_logged(host: HostFacts, link: Link, losses: int, begin: float) -> int:
    """Without those that a driver that logs each loss of a link that is up has not logged since
    `begin`: somebody has set the link down and up, or another MTU or other rings have reset the NIC
    (igb_change_mtu, igb_reinit_locked)."""
    log = host.snapshot.kernel_log
    if link_driver(link) not in DRIVERS_THAT_LOG_LOSSES or not log.entries:
        return losses
    reaches_back = log.entries[0].time <= begin + CREATION_SECONDS
    if not reaches_back:
        return losses
    logged = link_messages(host, link, "link_lost", within=math.inf)
    if logged is None:
        return 0
    count = logged.count(host.inventory.time - begin + CLOCK_TOLERANCE_SECONDS)
    return losses if count.or_more else min(losses, count.number)


def _saving_cause(link: Link) -> str | None:
    """What to say about Energy Efficient Ethernet; None: it is off, or not known."""
    eee = link.ethtool.eee
    if eee is None or not (eee.active or eee.enabled):
        return None
    if link_driver(link) == "igc" and _may_have_speed(link, EEE_SPEEDS):
        return KNOWN_CAUSE
    return POSSIBLE_CAUSE if eee.active else None


def _may_have_speed(link: Link, speeds: tuple[int, ...]) -> bool:
    """It has one of the speeds, or its speed is not known."""
    settings = link.ethtool.settings
    if settings is None or settings.speed is None:
        return True
    return settings.speed in speeds


def _flap_fixes(host: HostFacts, link: Link, *, saving: bool) -> tuple[Fix, ...]:
    log = _log_fixes(host, link)
    if not saving:
        return *log, *flap_fixes(host, link)
    fixes = [*eee_fixes(host, link)]
    if link_driver(link) == "igc":
        fixes += aspm_fixes(link, host.function_of(link))
    return *fixes, *log, Fix("switch", "Then check cable and switch port", ())


def _log_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Where there is something to see: virtio_net, veth and others log no losses."""
    logged = link_messages(host, link, "link_lost", within=math.inf, since_created=False)
    may_be_logged = host.inventory.messages is None and link_driver(link) in DRIVERS_THAT_LOG_LOSSES
    if logged is None and not may_be_logged:
        return ()
    show = joined(
        "|", command("dmesg", "-T"), command("grep", "-F", link.name), command("grep", "-i", "link")
    )
    return (Fix("here", "Show link messages of the kernel", (show,)),)


@host_rule("critical", yields_to=("ip_address_is_on_two_hosts",), uses=("addresses",))
def address_is_a_duplicate(host: HostFacts) -> Outcomes:
    """An IPv6 address of this host is also used by another host; the kernel does not use it.

    nictop reads the address flag dadfailed: duplicate address detection received an answer (RFC
    4862). Critical for a configured address, warning for a link-local address. A network loop, or a
    clone with the same MAC address, has the same effect.

    Source: kernel net/ipv6/addrconf.c addrconf_dad_failure.
    """
    for link in host.links:
        failed = [address for address in link.addresses if "dadfailed" in address.flags]
        if not failed or not is_up(link):
            continue
        is_configured = any(address.scope == "global" for address in failed)
        messages = link_messages(host, link, "duplicate_address")
        yield link_finding(
            "critical" if is_configured else "warning",
            host,
            link,
            f"duplicate IPv6 address: {failed[0].address}",
            evidence=(
                *(_failed_address_evidence(address) for address in failed),
                *newest_evidence(messages),  # who answered, since Linux 4.20
            ),
            why="The kernel does not use the address until it is removed and added again.",
            fixes=(_add_again_fix(link, failed[0]),),
        )


def _failed_address_evidence(address: Address) -> Evidence:
    flags = " ".join(address.flags)
    return Evidence("address", f"{address_text(address)} {flags}", "RTM_GETADDR: IFA_F_DADFAILED")


def _add_again_fix(link: Link, address: Address) -> Fix:
    text = address_text(address)
    title = "Add the address again after solving the conflict"
    drop = command("ip", "address", "del", text, "dev", link.name)
    if "permanent" not in address.flags:  # added by hand, it would have no lifetime
        note = "The next router advertisement, or a new lease, sets it again."
        return Fix("here", title, (drop,), persistent=False, note=note)
    return Fix("here", title, (drop, set_address(link, address)), persistent=False)


@host_rule(
    "warning",
    yields_to=(
        "vf_has_no_carrier",
        "vf_link_is_disabled",
        "port_of_virtual_functions_is_down",
        "hypervisor_has_disconnected_the_nic",
        "networkd_failed",
        "link_down_profile_waits",
        "link_with_a_profile_is_down",
        *NIC_FAULTS,
    ),
    needs=("networkmanager",),
    uses=("configuration", "addresses", "routes"),
)
def configured_link_is_down(host: HostFacts) -> Outcomes:
    """A link that has addresses in the configuration of this host is administratively down, or has
    no carrier.

    Checked: NICs that systemd-networkd, netplan or ifupdown configure with addresses, and NICs that
    have an address or a default route, unless a NetworkManager profile is active on them (other
    rules check those); also the veth of a container. An IPv4 address stays when a link is set down,
    and can be set before it is up; IPv6 addresses go: those that nictop read before count as well.
    Not checked: ports of bridges and bonds, and links without configuration.

    Sources: systemd.network(5), netplan(5), interfaces(5).
    """
    sources = _configured_names(host)
    for link in host.links:
        if link.master is not None or link.carrier or not _is_nic(host, link):
            continue
        source, lost = sources.get(link.name), lost_addresses(host, link)
        if not (lost or _is_wanted(link, source)) or _networkmanager_decides(host, link):
            continue
        is_off = not is_up(link)
        state = "administratively down" if is_off else "no carrier"
        evidence = [Evidence("state", state + _extended_state(link, is_off=is_off), "RTM_GETLINK")]
        if source is not None:
            evidence.append(Evidence("configured in", source, source.rpartition(":")[0]))
        if has_global_address(link):
            evidence.append(address_evidence(link))
        evidence += _lost_evidence(lost)
        yield link_finding(
            "warning",
            host,
            link,
            f"{_why_it_is_wanted(link, source)}, but {state}",
            evidence=tuple(evidence),
            why="Its addresses are not reachable." if is_off else CAUSES[nic_kind(host, link)].down,
            fixes=_bring_up(host, link, off=is_off),
        )


def _why_it_is_wanted(link: Link, source: str | None) -> str:
    if source is not None:
        return "configured"
    if has_global_address(link) or link.default_routes:
        return "has an address"
    return "had an address"


@host_rule("critical")
def no_link_is_left(host: HostFacts) -> Outcomes:
    """A link that was there is gone, and no link but lo is up: the host reaches nobody.

    nictop compares with what it has read while the host was watched, within the last hour. A
    network namespace whose veth was deleted, with the addresses and routes on it, looks like one
    that is meant to have none.

    Not reported: hosts that have another link that is up, and hosts that had none when nictop
    first read them.

    Source: net/core/dev.c unregister_netdevice_many.
    """
    if any(is_up(link) and not link.flags & IFF_LOOPBACK for link in host.links):
        return
    present = {history_key(link) for link in host.links}
    histories = host.snapshot.histories
    gone = _newest_by_name(
        history for key, history in histories.items() if key not in present and history.name
    )
    if not gone:
        return
    last = max(gone, key=lambda history: history.points[-1].time)
    named = names_text(list(dict.fromkeys(history.name for history in gone)), MAX_SHOWN_ADDRESSES)
    state, fix = _state_without_links(host, last, named)
    yield host_finding(
        "critical",
        host,
        "",
        state,
        evidence=(
            Evidence("links", names_text([link.name for link in host.links], 4), "RTM_GETLINK"),
            Evidence("there before", named, "read before"),
            *_gone_evidence(gone),
        ),
        why="Addresses and routes go with a link. Without another one the host reaches nobody.",
        fixes=(fix,),
    )


def _newest_by_name(histories: Iterable[LinkHistory]) -> list[LinkHistory]:
    """Of several links that had one name, the last one."""
    by_age = sorted(histories, key=lambda history: history.points[-1].time)
    return list({history.name: history for history in by_age}.values())


def _gone_evidence(gone: Sequence[LinkHistory]) -> Iterator[Evidence]:
    """Addresses of both families, of the links that have gone last."""
    newest = sorted(gone, key=lambda history: -history.points[-1].time)
    for history in newest[:MAX_SHOWN_ADDRESSES]:
        addresses = [one for one in history.addresses if one.scope == "global"]
        what = "the link" if len(gone) == 1 else history.name
        yield from _lost_evidence(addresses, what)


def _state_without_links(host: HostFacts, last: LinkHistory, named: str) -> tuple[str, Fix]:
    """Title and fix. `last`: the link that has gone last; `named`: all that have."""
    known = last.points[-1].time if last.gone is None else last.gone
    time = event_time_text(host.inventory, known)
    since = f"last read {time}" if last.gone is None else f"noticed {time}"
    down = [link for link in host.links if not link.flags & IFF_LOOPBACK]
    again = next((link for link in down if link.name == last.name), None)
    if again is not None:
        up, undo = with_undo(("ip", "link", "set", "dev", again.name), "up", "down")
        fix = Fix("here", f"Bring up {again.name}", (up,), False, (undo,), note=ADDRESSES_NOTE)
        return f"no link but lo is up: {again.name} was made anew after {time}, and is down", fix
    fix = Fix("here", "Make the link again", (), note=MADE_BY_NOTE)
    if not down:
        return f"no link is left but lo: {named} gone, {since}", fix
    names = names_text([link.name for link in down], MAX_SHOWN_ADDRESSES)
    return f"no link but lo is up: {named} gone, {since}; down: {names}", fix


ADDRESSES_NOTE = "Then its addresses and routes are to be set again."
MADE_BY_NOTE = (
    "By what has made it: the container engine, the hypervisor, the driver of its device, or ip "
    "link add; then its addresses and routes."
)


def _lost_evidence(lost: Sequence[Address], what: str = "the link") -> list[Evidence]:
    if not lost:
        return []
    texts = names_text([address_text(one) for one in lost], MAX_SHOWN_ADDRESSES)
    return [Evidence(f"gone with {what}", texts, "read before")]


@host_rule(
    "warning",
    yields_to=(
        "address_of_the_profile_is_missing",
        "configured_address_is_missing",
        "ip_address_is_on_two_hosts",
    ),
    needs=("addresses",),
)
def ipv6_address_went_with_the_link(host: HostFacts) -> Outcomes:
    """An IPv6 address that was set by hand is gone since its link was set down, got an MTU below
    1280, or had IPv6 turned off.

    The kernel then removes the IPv6 addresses of a link, and not its IPv4 addresses; nothing adds
    them again. nictop compares what it has read before, while the host was watched: permanent
    addresses of global scope. The finding stays until the address is back. Info: IPv6 is turned off
    now (disable_ipv6), which somebody may want.

    Not reported: links that are down now (another check says what went with them), addresses of
    router advertisements and DHCPv6, links with keep_addr_on_down, which keep them, and a link that
    has been given another address in the same subnet. nictop does not know of addresses that were
    gone before it first read the host. That the link was without IPv6 between two readings is known
    by its link-local address, which the kernel has added again since; without one, the addresses
    are taken for removed by hand.

    Sources: kernel net/ipv6/addrconf.c addrconf_ifdown, addrconf_notify, dev_disable_change;
    ip-sysctl.rst keep_addr_on_down, disable_ipv6.
    """
    for link in host.links:
        history = host.history_of(link)
        if history is None or not history.lost_ipv6_addresses or not is_up(link):
            continue
        lost = history.lost_ipv6_addresses
        first = address_text(lost[0])
        more = "" if len(lost) == 1 else f" and {len(lost) - 1} more"
        now = ipv6_loss(link)
        evidence = [*_lost_evidence(lost), address_evidence(link)]
        if now == SMALL_MTU:
            evidence.append(Evidence("MTU", str(link.mtu), "RTM_GETLINK"))
        if now == DISABLED:
            evidence.append(Evidence("disable_ipv6", "1", "RTM_GETLINK: IFLA_INET6_CONF"))
        yield link_finding(
            "info" if now == DISABLED else "warning",
            host,
            link,
            f"IPv6 address gone: {first}{more}, there before {IPV6_LOSSES[history.lost_by]}",
            evidence=tuple(evidence),
            why=f"The kernel removes IPv6 addresses when {LOSS_WHY[history.lost_by]}, and does not "
            f"add those again that were set by hand.",
            fixes=(_set_address_again(link, lost, now),),
            item=lost[0].address,
        )


LOSS_WHY = {
    DOWN: "a link is set down",
    SMALL_MTU: f"the MTU of a link is set below {IPV6_MIN_MTU}, the least that IPv6 allows",
    DISABLED: "IPv6 is turned off on a link (disable_ipv6)",
    FOR_A_MOMENT: "a link is set down, gets an MTU below 1280, or has IPv6 turned off",
}
"""Key of `IPV6_LOSSES` → when the kernel removes the addresses."""


def _set_address_again(link: Link, lost: tuple[Address, ...], now: str) -> Fix:
    """`now`: why the link has no IPv6, which is to be ended first."""
    added = add_again(link, lost)
    if now == SMALL_MTU:
        lines = names_text([str(line) for line in added], MAX_SHOWN_ADDRESSES)
        return Fix(
            "here",
            f"Set an MTU of {IPV6_MIN_MTU} or more, then add it again",
            (),
            note=f"With the other interfaces of its network. Then: {lines}",
        )
    removed = [command("ip", "address", "del", address_text(one), "dev", link.name) for one in lost]
    if now == DISABLED:
        name = f"net/ipv6/conf/{link.name}/disable_ipv6"  # a link name may have dots
        on, off = (command("sysctl", "-w", f"{name}={value}") for value in (0, 1))
        title = "Turn IPv6 on and add it again, if it is wanted"
        return Fix("here", title, (on, *added), persistent=False, undo=(off,))
    return Fix("here", "Add it again", added, persistent=False, undo=tuple(removed[::-1]))


@host_rule(
    "warning",
    yields_to=(
        "default_route_is_missing",
        "configured_address_is_missing",
        "no_link_is_left",
    ),
    needs=("addresses", "routing.routes"),
    uses=("networkmanager",),
)
def static_route_went_with_the_link(host: HostFacts) -> Outcomes:
    """A static route is gone since its link was set down, or lost its IPv6.

    The kernel removes the routes by a link when it is set down, and its IPv6 routes when it has an
    MTU below 1280 or IPv6 is turned off on it; up does not add those again that were added by hand.
    nictop compares what it has read before, while the host was watched. The finding stays until
    there is a route to the same destination in the same table. One that was removed by hand at the
    same time, after the last reading before, looks as if it had gone with the link.

    Not reported: links that are down now (the fix of another check says what went with them), links
    with an active NetworkManager profile, which sets its routes itself, routes of the kernel, DHCP,
    router advertisements and routing daemons, IPv6 routes while the link has no IPv6, and routes
    that were gone before nictop first read the host.

    Sources: kernel net/ipv4/fib_semantics.c fib_sync_down_dev; net/ipv6/route.c rt6_disable_ip.
    """
    for link in host.links:
        if not is_up(link):
            continue
        lost = lost_static_routes(host, link)
        if ipv6_loss(link):
            lost = tuple(route for route in lost if route.family == "ipv4")
        if not lost:
            continue
        shown = names_text([route_name(route) for route in lost], MAX_SHOWN_ADDRESSES)
        added, deleted = add_routes(link, lost), add_routes(link, lost, "del")
        noun = "static route" if len(lost) == 1 else "static routes"
        texts = names_text([route_text(route) for route in lost], MAX_SHOWN_ADDRESSES)
        yield link_finding(
            "warning",
            host,
            link,
            f"{noun} gone: {shown}, there before the link was down or without IPv6",
            evidence=(Evidence("gone with the link", texts, "read before"),),
            why="The kernel removes the routes by a link when it is set down, or loses its IPv6, "
            "and does not add those again that were added by hand.",
            fixes=(
                Fix(
                    *("here", "Add it again" if len(lost) == 1 else "Add them again", added),
                    persistent=False,
                    undo=deleted[::-1],
                    note=unset_note(host, lost),
                ),
            ),
        )


def _is_nic(host: HostFacts, link: Link) -> bool:
    """With a device, or the veth of a container."""
    return link.bus is not None or is_own_veth(link, host.snapshot)


def _is_wanted(link: Link, source: str | None) -> bool:
    """Configured in a file; or with an address or a default route."""
    return source is not None or has_global_address(link) or bool(link.default_routes)


def _extended_state(link: Link, *, is_off: bool) -> str:
    """``, no cable``: why there is no carrier, as the driver says."""
    state = link.ethtool.state
    if is_off or state is None or not state.extended_state:
        return ""
    return f", {state.extended_state}"


def _networkmanager_decides(host: HostFacts, link: Link) -> bool:
    """A profile of NetworkManager is active on the link, or it manages the link and has none."""
    if active_profile(host, link) is not None:
        return True
    device = host.profiles.device(link)
    if device is None or not device.managed:
        return False
    return not _configured_outside_networkmanager(host, link)


def _configured_outside_networkmanager(host: HostFacts, link: Link) -> bool:
    """NetworkManager only describes the link: its addresses are not from a NetworkManager
    profile."""
    active = host.profiles.active(link)
    if active is None:
        return has_global_address(link)
    return active.external


def _configured_names(host: HostFacts) -> dict[str, str]:
    """Name of a link → file and line that gives it addresses."""
    found: dict[str, str] = {}
    for stanza in host.configuration.stanzas:
        if stanza.owner not in FILE_OWNERS or stanza.ignores:
            continue
        if ADDRESS_METHODS.isdisjoint(stanza.methods):
            continue
        for name in stanza.names:
            found.setdefault(name, f"{stanza.file}:{stanza.line}")
    return found


FILE_OWNERS = ("netplan", "ifupdown", "networkd", "ifcfg")
ADDRESS_METHODS = frozenset(("dhcp4", "dhcp6", "static", "auto"))


def _bring_up(host: HostFacts, link: Link, *, off: bool) -> tuple[Fix, ...]:
    if off:
        up = command("ip", "link", "set", "dev", link.name, "up")
        down = command("ip", "link", "set", "dev", link.name, "down")
        return (Fix("here", "Bring the link up", (up,), persistent=False, undo=(down,)),)
    return plug_in_fixes(host, link)
