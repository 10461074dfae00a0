"""IPv6 router advertisements that the kernel ignores, because this host forwards.

Reads nothing. Kernel Documentation/networking/ip-sysctl.rst accept_ra; net/ipv6/addrconf.c addrconf_fixup_forwarding,
net/ipv6/route.c rt6_purge_dflt_routers: switching forwarding on removes the default routes at once.
"""

from __future__ import annotations

from nictop.probe.records import Address, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command, echo
from nictop.rules.fixes.persistence import SAFE_NAME, UNSAFE_NAME_NOTE, ifupdown_stanza, is_run_by_networkd, stanza_fix
from nictop.rules.host import HostFacts
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.routing.fixes import own_profile
from nictop.rules.subjects import link_finding

FAMILY: Family = "addresses and routes"
ACCEPTS_UNLESS_FORWARDING, ALWAYS_ACCEPTS = 1, 2
"""Values of accept_ra."""
KERNEL_METHODS = ("ignore",)
"""``ipv6.method`` of profiles with which NetworkManager leaves router advertisements to the kernel."""


@host_rule(FAMILY, "critical", needs=("addresses", "routes", "settings.sysctl"), uses=("networkd", "networkmanager"))
def router_advertisements_are_ignored(host: HostFacts) -> Outcomes:
    """This host forwards IPv6, and therefore ignores router advertisements: its IPv6 default route is gone.

    With accept_ra 1, the default, the kernel accepts them only while forwarding is off. Docker, Kubernetes, libvirt and
    VPN programs turn forwarding on; the default route disappears at once, the addresses remain until their lifetime
    ends. IPv4 is not affected.

    nictop reads net.ipv6.conf.LINK.forwarding (1) and accept_ra (1) of a link that has an address with a lifetime, and
    no IPv6 default route. Critical: the host has no IPv6 default route at all. Warning: it has another one.

    Not reported: links whose advertisements NetworkManager or systemd-networkd handle themselves (they set accept_ra to
    0), and routers with static addresses.

    Sources: kernel Documentation/networking/ip-sysctl.rst accept_ra, forwarding; net/ipv6/route.c
    rt6_purge_dflt_routers; docker/for-linux#844; moby/moby#43466.
    """
    read = {name for name in host.inventory.settings.sysctl if name.endswith(".accept_ra")}
    for link in host.links if read else ():
        renewed = [one for one in link.addresses if _has_lifetime(one)]
        if not renewed or not _is_ignored(host, link) or any(one.family == "ipv6" for one in link.default_routes):
            continue
        others = [one.name for one in host.links if any(route.family == "ipv6" for route in one.default_routes)]
        yield link_finding(
            "warning" if others else "critical",
            host,
            link,
            "no IPv6 default route: router advertisements are ignored (forwarding)",
            evidence=(
                Evidence("forwarding", "1", f"sysctl net.ipv6.conf.{_dotted(link)}.forwarding"),
                Evidence("accept_ra", "1: only without forwarding", f"sysctl net.ipv6.conf.{_dotted(link)}.accept_ra"),
                Evidence("address", f"{renewed[0].address}/{renewed[0].prefix_length}", "ip -6 address"),
                Evidence("IPv6 default routes", ", ".join(others) or "none", "ip -6 route show default"),
            ),
            why="IPv6 packets to other networks have no way out. When their lifetime ends, the addresses go, too."
            if not others
            else f"IPv6 packets leave by {others[0]} only, and the address ends with its lifetime.",
            fixes=(_now(link), _stored(host, link)),
        )


def _has_lifetime(address: Address) -> bool:
    """From router advertisements or DHCPv6."""
    return address.family == "ipv6" and address.scope == "global" and "permanent" not in address.flags


def _is_ignored(host: HostFacts, link: Link) -> bool:
    sysctl = host.inventory.settings.sysctl
    forwarding, accept = (sysctl.get(f"net.ipv6.conf.{link.name}.{name}") for name in ("forwarding", "accept_ra"))
    if not forwarding or accept != ACCEPTS_UNLESS_FORWARDING or is_run_by_networkd(host, link):
        return False
    profile = own_profile(host, link)
    return profile is None or profile.ipv6.method in KERNEL_METHODS


def _dotted(link: Link) -> str:
    """The name for sysctl(8), where a dot is a slash."""
    return link.name.replace(".", "/")


def _now(link: Link) -> Fix:
    name = f"net.ipv6.conf.{_dotted(link)}.accept_ra"
    return Fix(
        "here",
        "Accept router advertisements although forwarding is on",
        (command("sysctl", "-w", f"{name}={ALWAYS_ACCEPTS}"),),
        False,
        (command("sysctl", "-w", f"{name}={ACCEPTS_UNLESS_FORWARDING}"),),
        "The route returns with the next advertisement, within 10 minutes; at once with: rdisc6 INTERFACE.",
    )


def _stored(host: HostFacts, link: Link) -> Fix:
    title = "Store in /etc/sysctl.d"
    if SAFE_NAME.fullmatch(link.name) is None:
        return Fix("here", title, (), True, note=UNSAFE_NAME_NOTE)
    name = f"net.ipv6.conf.{_dotted(link)}.accept_ra"
    stanza = ifupdown_stanza(host, link)
    if stanza is not None:
        return stanza_fix(link, stanza, f"up {command('sysctl', '-w', f'{name}={ALWAYS_ACCEPTS}')} || true")
    file = f"/etc/sysctl.d/90-accept-ra-{link.name}.conf"
    note = "Applied when the link appears (systemd-sysctl by udev); the command above applies it now."
    return Fix("here", title, (echo(f"{name} = {ALWAYS_ACCEPTS}", file),), True, (command("rm", file),), note)
