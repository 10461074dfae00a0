"""VXLAN, Geneve and other tunnels of a host, and received packets whose checksum is wrong.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.tunnels import UDP_TUNNELS
from nictop.probe.records import Link
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.subjects import is_up

CHECKSUM = "tx-checksum-ip-generic"
MIN_ERRORS_PER_SECOND = 0.5
"""Mean over the window."""
CHECKSUM_SOURCE = "/proc/net/snmp InCsumErrors"


def links_of_kinds(host: HostFacts, kinds: Sequence[str]) -> Iterator[Link]:
    """Those that are up, by kind."""
    for kind in kinds:
        yield from filter(is_up, host.links_by_kind.get(kind, ()))


@once_per_host
def udp_tunnels(host: HostFacts) -> tuple[Link, ...]:
    return tuple(links_of_kinds(host, UDP_TUNNELS))


def active_features(link: Link, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the features that are on and can be turned off."""
    on = set()
    for feature in link.ethtool.features or ():
        if feature.active and not feature.fixed:
            on.add(feature.name)
    return tuple(name for name in names if name in on)


def is_on(link: Link, name: str) -> bool:
    """The feature is known to be on."""
    for feature in link.ethtool.features or ():
        if feature.name == name:
            return feature.active
    return False


def is_off(link: Link, name: str) -> bool:
    """The feature is known to be off."""
    for feature in link.ethtool.features or ():
        if feature.name == name and not feature.active:
            return True
    return False


def udp_port(tunnel: Link) -> int | None:
    """UDP port; an older probe has it only in `Link.details`, for vxlan."""
    port = tunnel.tunnel.port if tunnel.tunnel is not None else tunnel.details.get("vxlan_port")
    return port if isinstance(port, int) else None


def tunnel_text(tunnel: Link) -> str:
    text, port = f"{tunnel.name}, {tunnel.kind}", udp_port(tunnel)
    return f"{text}, UDP port {port}" if port else text


def same_tunnels(host: HostFacts, tunnel: Link) -> list[Link]:
    """Tunnels of a host that may lead to the one of another host: of the same kind, port and
    network."""
    wanted = _identity(tunnel)
    return [other for other in udp_tunnels(host) if _identity(other) == wanted]


def _identity(tunnel: Link) -> tuple[object, ...]:
    settings = tunnel.tunnel
    number = settings.number if settings is not None and not settings.external else None
    return tunnel.kind, udp_port(tunnel), number


def checksum_errors(host: HostFacts) -> float | None:
    """Packets per second with a wrong checksum, mean over the window; None: not read, or too
    few."""
    rate = host.mean(lambda rates: rates.checksum_errors)
    return rate if rate is not None and rate >= MIN_ERRORS_PER_SECOND else None
