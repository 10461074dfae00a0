"""Network namespaces, links, addresses, routes and queueing disciplines of a lab, by pyroute2.

Every link is made in the namespaces of the lab, none in that of this process.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from nictop.errors import NictopError
from nictop.lab.request import (
    FAULTY,
    HOSTS,
    NIC,
    SMALLER_MTU_BYTES,
    SWITCH,
    LabRequest,
    Network,
    host_names,
    namespace_names,
    networks,
    vlan_of,
    vlan_of_port,
)

BRIDGE = "br0"
IFA_F_NODAD = 0x02
"""No wait of a second until an IPv6 address is used (linux/if_addr.h)."""
IFF_NOARP = 0x80
NETEM_HANDLE, TBF_HANDLE = "1:", "10:"
MAX_WAIT_MICROSECONDS = 50_000
"""In the queue of a shaper: what would wait longer is dropped."""
MIN_BURST_BYTES = 32 * 1024
"""Of tbf; a frame that is larger is dropped."""
BURST_SECONDS = 0.004
"""A clock tick at 250 Hz: less and the rate is not reached (tc-tbf(8))."""
LONGER_PREFIXES = {24: 25, 64: 80}
NO_IPV6 = (errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.EACCES)
"""The kernel has no IPv6, or a sysctl switches it off."""
FORWARDING = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")
UNKNOWN_KIND = (errno.EOPNOTSUPP, errno.ENOENT)
"""A kind of link or queueing discipline that the kernel does not have."""


class Lab:
    """While it is built: a socket of rtnetlink in each namespace."""

    def __init__(self, request: LabRequest, routes: dict[str, IPRoute]) -> None:
        self.request = request
        self.networks = networks(request)
        self._routes = routes

    def at(self, host: str) -> IPRoute:
        return self._routes[host]

    def index(self, host: str, name: str) -> int:
        """ifindex"""
        index: int = self.at(host).link_lookup(ifname=name)[0]
        return index

    def addressed(self, host: str, nic: str) -> str:
        """The link that has the addresses: the NIC, or its VLAN."""
        vlan = vlan_of(self.request, host)
        return f"{nic}.{vlan}" if vlan else nic

    def nics(self) -> Iterator[tuple[Network, str, str]]:
        """(network, host, NIC)"""
        for network in self.networks:
            for host, nic in network.nics.items():
                yield network, host, nic


def build_lab(request: LabRequest) -> None:
    """Make it, in the mounts of this process (`mounts`). Raises NictopError: what this kernel
    cannot do."""
    with ExitStack() as stack:
        routes = {}
        with needs("network namespaces", "CONFIG_NET_NS"):
            for name in namespace_names(request):
                netns.create(name)
                routes[name] = stack.enter_context(IPRoute(netns=name))
        lab = Lab(request, routes)
        _join(lab)
        for name in routes:
            _set_up(lab, name, "lo")
        for network, host, nic in lab.nics():
            _configure(lab, network, host, nic)
        _connect_ends_of_the_chain(lab)
        for fault, make in MAKE_FAULT.items():
            if fault in request.faults:
                make(lab)


@contextmanager
def needs(what: str, option: str) -> Iterator[None]:
    """Raises NictopError: `what` cannot be made. `option`: of the kernel's configuration."""
    try:
        yield
    except (NetlinkError, OSError) as error:
        number = error.code if isinstance(error, NetlinkError) else error.errno
        reason = os.strerror(number) if number else str(error)
        if number in UNKNOWN_KIND:
            raise NictopError(
                f"this kernel has no {what}: {reason}",
                f"it needs {option}; its module may be in a package of its own "
                "(kernel-modules-extra, linux-modules-extra)",
            ) from None
        raise NictopError(f"cannot make {what}: {reason}") from None


def _join(lab: Lab) -> None:
    if lab.request.join == "veth":
        for network in lab.networks:
            (one, its_nic), (other, other_nic) = network.nics.items()
            _veth(lab, one, its_nic, other, other_nic)
        return
    with needs("bridge", "CONFIG_BRIDGE"):
        lab.at(SWITCH).link("add", ifname=BRIDGE, kind="bridge", mtu=lab.request.mtu)
    bridge = lab.index(SWITCH, BRIDGE)
    for host in host_names(lab.request):
        _veth(lab, SWITCH, host, host, NIC)
        port = lab.index(SWITCH, host)
        lab.at(SWITCH).link("set", index=port, master=bridge, mtu=lab.request.mtu, state="up")
    lab.at(SWITCH).link("set", index=bridge, state="up")
    if lab.request.vlan:
        _filter_vlans(lab, bridge)


def _veth(lab: Lab, one: str, name: str, other: str, other_name: str) -> None:
    with needs("veth", "CONFIG_VETH"):
        lab.at(one).link(
            "add", ifname=name, kind="veth", peer={"ifname": other_name, "net_ns_fd": other}
        )


def _filter_vlans(lab: Lab, bridge: int) -> None:
    """The ports have the VLAN with a tag."""
    with needs("bridge with VLANs", "CONFIG_BRIDGE_VLAN_FILTERING"):
        lab.at(SWITCH).link("set", index=bridge, kind="bridge", br_vlan_filtering=1)
        for host in host_names(lab.request):
            port, vlan = lab.index(SWITCH, host), vlan_of_port(lab.request, host)
            lab.at(SWITCH).vlan_filter("add", index=port, vlan_info={"vid": vlan})


def _configure(lab: Lab, network: Network, host: str, nic: str) -> None:
    route, index = lab.at(host), lab.index(host, nic)
    route.link("set", index=index, mtu=lab.request.mtu, state="up")
    _shape(lab, host, index)
    if lab.request.vlan:
        _add_vlan(lab, host, nic)
    _add_addresses(lab, network, host, host)


def _add_vlan(lab: Lab, host: str, nic: str) -> None:
    name, vlan = lab.addressed(host, nic), vlan_of(lab.request, host)
    with needs("VLAN links", "CONFIG_VLAN_8021Q"):
        lab.at(host).link("add", ifname=name, kind="vlan", link=lab.index(host, nic), vlan_id=vlan)
    _set_up(lab, host, name)


def _add_addresses(lab: Lab, network: Network, host: str, owner: str) -> None:
    """The addresses of the host `owner`."""
    for address, prefix in network.addresses(owner):
        _add_address(lab, network, host, address, prefix)


def _add_address(lab: Lab, network: Network, host: str, address: str, prefix: int) -> None:
    index = lab.index(host, lab.addressed(host, network.nics[host]))
    with without_ipv6(address):
        lab.at(host).addr("add", index=index, address=address, prefixlen=prefix, flags=IFA_F_NODAD)


@contextmanager
def without_ipv6(address: str) -> Iterator[None]:
    """Where there is no IPv6, the rest of the lab works without its addresses."""
    try:
        yield
    except NetlinkError as error:
        if ":" not in address or error.code not in NO_IPV6:
            raise


def _shape(lab: Lab, host: str, index: int) -> None:
    """Delay and loss of what the NIC sends, then its rate. The qdisc of the rate is below the other
    one: `rate` of netem is sent as another attribute by pyroute2 0.9 (TCA_RATE)."""
    request, root = lab.request, {"handle": NETEM_HANDLE}
    has_netem = bool(request.delay_ms or request.loss_percent)
    if has_netem:
        with needs("netem, which delays and loses packets", "CONFIG_NET_SCH_NETEM"):
            lab.at(host).tc("add", "netem", index, **root, **_netem(request))
    if request.rate_mbit:
        place = {"parent": f"{NETEM_HANDLE}1", "handle": TBF_HANDLE} if has_netem else root
        with needs("tbf, which limits the rate", "CONFIG_NET_SCH_TBF"):
            lab.at(host).tc("add", "tbf", index, **place, **_tbf(request))


def _netem(request: LabRequest) -> dict[str, float]:
    """Options of tc-netem(8), as pyroute2 has them: microseconds and percent."""
    return {"delay": int(request.delay_ms * 1000), "loss": request.loss_percent}


def _tbf(request: LabRequest) -> dict[str, int]:
    """Options of tc-tbf(8): bytes per second, bytes, microseconds."""
    rate = int(request.rate_mbit * 1e6 / 8)
    return {
        "rate": rate,
        "burst": max(MIN_BURST_BYTES, 2 * request.mtu, int(rate * BURST_SECONDS)),
        "latency": MAX_WAIT_MICROSECONDS,
    }


def _connect_ends_of_the_chain(lab: Lab) -> None:
    """b forwards between a and c."""
    if len(lab.networks) == 1:
        return
    near, far = lab.networks
    for host, its_network, other_network in (("a", near, far), ("c", far, near)):
        gateways = its_network.addresses("b")
        for prefix, (gateway, _) in zip(other_network.prefixes, gateways, strict=True):
            with without_ipv6(gateway):
                lab.at(host).route("add", dst=prefix, gateway=gateway)
    _forward("b")


def _forward(host: str) -> None:
    """These files are of the namespace in which they are opened."""
    netns.pushns(host)
    try:
        for path in FORWARDING:
            if os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("1")
    finally:
        netns.popns()


def _set_up(lab: Lab, host: str, name: str) -> None:
    lab.at(host).link("set", index=lab.index(host, name), state="up")


# ------------------------------------------------------------------------------------------- faults


def _smaller_mtu(lab: Lab) -> None:
    mtu = lab.request.mtu - SMALLER_MTU_BYTES
    lab.at(FAULTY).link("set", index=lab.index(FAULTY, NIC), mtu=mtu)


def _down(lab: Lab) -> None:
    lab.at(FAULTY).link("set", index=lab.index(FAULTY, NIC), state="down")


def _no_address(lab: Lab) -> None:
    lab.at(FAULTY).flush_addr(index=lab.index(FAULTY, lab.addressed(FAULTY, NIC)))


def _prefix_length(lab: Lab) -> None:
    _no_address(lab)
    for address, prefix in lab.networks[0].addresses(FAULTY):
        _add_address(lab, lab.networks[0], FAULTY, address, LONGER_PREFIXES[prefix])


def _duplicate_address(lab: Lab) -> None:
    _add_addresses(lab, lab.networks[0], FAULTY, HOSTS[0])


def _no_arp(lab: Lab) -> None:
    index = lab.index(FAULTY, lab.addressed(FAULTY, NIC))
    lab.at(FAULTY).link("set", index=index, flags=IFF_NOARP, change=IFF_NOARP)


def _refusing_route(lab: Lab) -> None:
    address, _ = lab.networks[0].addresses(HOSTS[0])[0]
    lab.at(FAULTY).route("add", dst=f"{address}/32", type="blackhole")


MAKE_FAULT: dict[str, Callable[[Lab], None]] = {
    "mtu": _smaller_mtu,
    "down": _down,
    "no-address": _no_address,
    "prefix-length": _prefix_length,
    "duplicate-address": _duplicate_address,
    "arp": _no_arp,
    "route": _refusing_route,
    "vlan": lambda lab: None,  # `vlan_of` and `vlan_of_port`: a VLAN link cannot get another VLAN
}
"""In the order in which they are made: what removes addresses comes before what adds some."""
