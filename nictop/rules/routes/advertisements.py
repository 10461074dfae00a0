"""IPv6 router advertisements that the kernel ignores, because this host forwards, or that do not
come any more.

Reads nothing. Kernel Documentation/networking/ip-sysctl.rst accept_ra; net/ipv6/addrconf.c
addrconf_fixup_forwarding, net/ipv6/route.c rt6_purge_dflt_routers: switching forwarding on removes
the default routes at once.
"""

from __future__ import annotations

from nictop.model.text.words import address_text
from nictop.model.time_axis import event_time_text
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import (
    SAFE_NAME,
    UNSAFE_NAME_NOTE,
    ifupdown_stanza,
    is_run_by_networkd,
    stanza_fix,
    sysctl_fixes,
)
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.facts import routes
from nictop.rules.routes.fixes import own_profile
from nictop.rules.subjects import has_default_route, link_finding, names_text

ACCEPTS_UNLESS_FORWARDING, ALWAYS_ACCEPTS = 1, 2
"""Values of accept_ra."""
MAX_NAMED = 4
KERNEL_METHODS = ("ignore",)
"""``ipv6.method`` of profiles with which NetworkManager leaves router advertisements to the
kernel."""


@host_rule(
    "critical",
    needs=("addresses", "routes", "settings.sysctl"),
    uses=("networkd", "networkmanager"),
)
def router_advertisements_are_ignored(host: HostFacts) -> Outcomes:
    """This host forwards IPv6, and therefore ignores router advertisements: its IPv6 default route
    is gone.

    With accept_ra 1, the default, the kernel accepts them only while forwarding is off. Docker,
    Kubernetes, libvirt and VPN programs turn forwarding on; the default route disappears at once,
    the addresses remain until their lifetime ends. IPv4 is not affected.

    nictop reads net.ipv6.conf.LINK.forwarding (1) and accept_ra (1) of a link that has an address
    with a lifetime, and no IPv6 default route. Critical: the host has no IPv6 default route at all.
    Warning: it has another one.

    Not reported: links whose advertisements NetworkManager or systemd-networkd handle themselves
    (they set accept_ra to 0), and routers with static addresses.

    Sources: kernel Documentation/networking/ip-sysctl.rst accept_ra, forwarding; net/ipv6/route.c
    rt6_purge_dflt_routers; docker/for-linux#844; moby/moby#43466.
    """
    if not any(name.endswith(".accept_ra") for name in host.inventory.settings.sysctl):
        return
    others = [link.name for link in host.links if has_default_route(link, "ipv6")]
    for link in host.links:
        renewed = list(filter(_has_lifetime, link.addresses))
        if not renewed or has_default_route(link, "ipv6") or not _is_ignored(host, link):
            continue
        setting = f"sysctl net.ipv6.conf.{_dotted(link)}"
        routes = ", ".join(others) or "none"
        severity: Severity = "critical"
        why = (
            "IPv6 packets to other networks have no way out. Addresses from advertisements go, "
            "too, when their lifetime ends."
        )
        if others:
            severity = "warning"
            why = (
                f"IPv6 packets to other networks leave by {names_text(others, MAX_NAMED)} only. "
                "Addresses from advertisements end with their lifetime."
            )
        yield link_finding(
            severity,
            host,
            link,
            "no IPv6 default route: router advertisements are ignored (forwarding)",
            evidence=(
                Evidence("forwarding", "1", f"{setting}.forwarding"),
                Evidence("accept_ra", "1: only without forwarding", f"{setting}.accept_ra"),
                Evidence("address", address_text(renewed[0]), "ip -6 address"),
                Evidence("IPv6 default routes", routes, "ip -6 route show default"),
            ),
            why=why,
            fixes=_fixes(host, link),
        )


@host_rule(
    "warning",
    yields_to=(
        "router_advertisements_are_ignored",
        "gateway_does_not_answer",
        "untrusted_vf_receives_no_multicast",
    ),
    needs=("addresses", "routing.routes"),
)
def default_route_is_about_to_expire(host: HostFacts) -> Outcomes:
    """The only IPv6 default route of a link ends soon: its router has not announced itself for most
    of its lifetime.

    Routers usually announce themselves three times or more within the lifetime of the route, which
    each advertisement renews. If two in a row are missed, most often the router or its daemon has
    stopped, or multicast does not reach this NIC: snooping without a querier, a VF or port that
    filters multicast. A reboot or a new link seems to cure it, because the answer to the host's own
    request comes at once, and the route is gone half an hour later.

    nictop reads how long ago an advertisement renewed an address of the link (Linux 5.18), and when
    the route ends: in 10 minutes or less, and the last advertisement is at least twice as long ago.

    Not reported: links with several IPv6 routers, routes without an end, and addresses that are not
    from advertisements.

    Sources: RFC 4861 6.2.1 MaxRtrAdvInterval, AdvDefaultLifetime (3 × MaxRtrAdvInterval); kernel
    net/ipv6/addrconf.c addrconf_prefix_rcv_add_addr, net/ipv6/ndisc.c ndisc_router_discovery.
    """
    defaults = [route for route in routes(host) if route.destination == "::/0"]
    for route in defaults:
        link = host.link_at(route.ifindex)
        if link is None or route.expires is None or route.expires > SOON_SECONDS:
            continue
        ages = _ages_of_announcements(link)
        is_only = sum(other.ifindex == route.ifindex for other in defaults) == 1
        if is_only and ages and min(ages) >= MISSED_SHARE * route.expires:
            yield _expiring(host, link, route, route.expires, min(ages))


def _ages_of_announcements(link: Link) -> list[float]:
    """Seconds since each of its addresses was announced."""
    ages = [address.since_announced for address in link.addresses]
    return [age for age in ages if age is not None]


SOON_SECONDS = 600.0
"""A route of the usual lifetime, 1800 s, has 1200 s left when the next advertisement is due at the
latest."""
MISSED_SHARE = 2
"""Two of the three advertisements within a lifetime were missed."""


def _expiring(
    host: HostFacts, link: Link, route: TableRoute, expires: float, age: float
) -> Finding:
    others = {other.name for other in host.links if has_default_route(other, "ipv6")} - {link.name}
    names = ", ".join(sorted(others)) or "none"
    what_ends = "so does IPv6 to other networks"
    if others:
        what_ends += f" by {link.name}"
    now = host.inventory.time
    last = event_time_text(host.inventory, now - age)
    ends = f"default via {route.gateway}, ends {event_time_text(host.inventory, now + expires)}"
    show = "ip -6 route show default"
    return link_finding(
        "warning",
        host,
        link,
        "IPv6 default route ends soon: router advertisements are missing",
        evidence=(
            Evidence("route", ends, show),
            Evidence("last router advertisement", last, "ip -6 -s address"),
            Evidence("other IPv6 default routes", names, show),
        ),
        why=f"Each advertisement renews the route. Without one it ends, and {what_ends}.",
        fixes=_asking(link),
    )


def _asking(link: Link) -> tuple[Fix, ...]:
    """To learn which of the usual causes it is: the router's answer renews the route for one
    lifetime."""
    note = (
        "From the package ndisc6. With an answer the router runs, and its advertisements to all "
        "(ff02::1) do not reach "
        "this NIC: look at multicast snooping of the bridge or switch and at the trust of a VF. "
        "Without one: look at "
        "the router and its daemon (radvd, dnsmasq)."
    )
    return (
        Fix(
            "here",
            "Ask the router for an advertisement",
            (command("rdisc6", "-1", link.name),),
            False,
            note=note,
        ),
    )


NOW_NOTE = (
    "The route returns with the next advertisement, usually within 10 minutes; at once with: "
    "rdisc6 INTERFACE."
)
STORED_NOTE = "Applied when the link appears (systemd-sysctl by udev)."


def _has_lifetime(address: Address) -> bool:
    """From router advertisements or DHCPv6."""
    if address.family != "ipv6" or address.scope != "global":
        return False
    return "permanent" not in address.flags


def _is_ignored(host: HostFacts, link: Link) -> bool:
    sysctl = host.inventory.settings.sysctl
    forwarding = sysctl.get(f"net.ipv6.conf.{link.name}.forwarding")
    accept = sysctl.get(f"net.ipv6.conf.{link.name}.accept_ra")
    if not forwarding or accept != ACCEPTS_UNLESS_FORWARDING or is_run_by_networkd(host, link):
        return False
    profile = own_profile(host, link)
    return profile is None or profile.ipv6.method in KERNEL_METHODS


def _dotted(link: Link) -> str:
    """The name for sysctl(8), where a dot is a slash."""
    return link.name.replace(".", "/")


def _fixes(host: HostFacts, link: Link) -> tuple[Fix, Fix]:
    name = f"net.ipv6.conf.{_dotted(link)}.accept_ra"
    now, stored = sysctl_fixes(host, name, ALWAYS_ACCEPTS, old=ACCEPTS_UNLESS_FORWARDING)
    now = replace(
        now, title="Accept router advertisements although forwarding is on", note=NOW_NOTE
    )
    if SAFE_NAME.fullmatch(link.name) is None:
        return now, Fix("here", stored.title, (), True, note=UNSAFE_NAME_NOTE)
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        return now, stanza_fix(link, stanza, f"up {now.commands[0]} || true")
    return now, replace(stored, note=STORED_NOTE)
