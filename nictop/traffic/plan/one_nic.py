"""The NIC of one host whose traffic is measured: the one that the user named, the only one, or that
of the default route. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.errors import NictopError
from nictop.model.devices.links import global_addresses
from nictop.model.guests.table import GuestRow, guest_rows
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_LOOPBACK
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link
from nictop.rules.wording import first_names
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.plan.quantities import quoted
from nictop.traffic.plan.request import RunRequest

MAIN_TABLES = (253, 254)
"""default and main (rt_tables)."""


@dataclass(frozen=True)
class MeasuredNic:
    """The endpoint of a host, and what the user should know about its choice."""

    endpoint: Endpoint
    note: str = ""
    vf: int | None = None
    """It is this VF of the NIC."""


def select_nic(request: RunRequest, snapshots: Mapping[str, Snapshot]) -> MeasuredNic:
    """Of the host of a workload. Raises NictopError for a host that is not watched, or a NIC that
    it does not have."""
    if request.guest:
        return measured_guest(request, snapshots)
    return measured_nic(request.client, request.client_nic, snapshots)


def measured_guest(request: RunRequest, snapshots: Mapping[str, Snapshot]) -> MeasuredNic:
    """Of a guest of the host: its tap, macvtap or veth, else its VF. Raises NictopError."""
    host = request.client
    if host not in snapshots:
        raise NictopError(f"{quoted(host)} is not watched")
    of_guest = _rows_of_running_guest(host, request.guest, guest_rows(snapshots[host]))
    counted = _counted_rows(request, of_guest)
    row = counted[0]
    link = row.shown_link
    assert link is not None
    vf = row.vf[1].number if row.link is None and row.vf is not None else None
    note = f"{row.text} is seen from {clean(host)} only: what its programs do is not known"
    if len(counted) > 1:
        note += f"; of its {len(counted)} NICs that at {clean(link.name)} is measured"
    return MeasuredNic(_endpoint(host, link), note, vf)


def _rows_of_running_guest(host: str, name: str, rows: Sequence[GuestRow]) -> list[GuestRow]:
    of_guest = [row for row in rows if name in (row.guest.name, row.guest.id)]
    if not of_guest:
        running = dict.fromkeys(row.guest.name for row in rows if row.guest.state == "running")
        known = first_names([clean(guest) for guest in running]) if running else "none is known"
        raise NictopError(f"{clean(host)} has no guest {quoted(name)}", f"running guests: {known}")
    if of_guest[0].guest.state != "running":
        raise NictopError(f"{clean(name)} is not running on {clean(host)}")
    return of_guest


def _counted_rows(request: RunRequest, of_guest: Iterable[GuestRow]) -> list[GuestRow]:
    """Those whose packets are counted on the hypervisor, by the link that was named if one was."""
    wanted = request.client_nic
    counted = [row for row in of_guest if row.link is not None or row.vf is not None]
    if wanted:
        counted = [row for row in counted if row.shown_link and row.shown_link.name == wanted]
    if counted:
        return counted
    which = f" {quoted(wanted)}" if wanted else ""
    raise NictopError(
        f"{clean(request.client)}: no link or VF{which} that counts packets of "
        f"{clean(request.guest)} is known",
        "nictop guests lists the NICs of its guests; root sees more of them",
    )


def measured_nic(
    host: str, nic: str, snapshots: Mapping[str, Snapshot], option: str = "--client-nic"
) -> MeasuredNic:
    """`nic`: the name that the user gave; "": none. `option`: with which that is done. Raises
    NictopError."""
    if host not in snapshots:
        watched = ", ".join(map(clean, snapshots))
        raise NictopError(f"{quoted(host)} is not watched", f"watched: {watched}")
    links = list(snapshots[host].links.values())
    if nic:
        return MeasuredNic(_endpoint(host, _named(host, nic, links, option)))
    usable = _usable(snapshots[host])
    if len(usable) == 1:
        return MeasuredNic(_endpoint(host, usable[0]))
    default = _of_default_route(usable)
    if default is not None:
        note = f"NIC {clean(default.name)} of the default route is measured; {option} for another"
        return MeasuredNic(_endpoint(host, default), note)
    if snapshots[host].inventory is None:
        names = "they are not read yet"
    elif usable:
        names = first_names([clean(link.name) for link in usable])
    else:
        names = "none has a carrier"
    note = f"no NIC is chosen ({names}): {option} for its rate, packets and queues"
    return MeasuredNic(Endpoint(host, None, ""), note)


def automatic_nic_text(snapshot: Snapshot) -> str:
    """Which NIC of a host is measured if none is chosen: ``ens192``, ``no default route``."""
    if snapshot.inventory is None:
        return "NICs are not read yet"
    chosen = measured_nic(snapshot.host, "", {snapshot.host: snapshot}).endpoint.ifindex
    if chosen is not None:
        return f"automatic: {clean(snapshot.links[chosen].name)}"
    if _usable(snapshot):
        return "no default route: choose one"
    return "none has a carrier: choose one"


def _usable(snapshot: Snapshot) -> list[Link]:
    links = snapshot.links.values()
    return [link for link in links if link.carrier and not link.flags & IFF_LOOPBACK]


def _named(host: str, name: str, links: list[Link], option: str) -> Link:
    for link in links:
        if name == link.name or name in link.altnames:
            return link
    hint = " or ".join(f"{option} {clean(link.name)}" for link in links[:8])
    raise NictopError(f"{clean(host)} has no NIC {quoted(name)}", hint)


def _of_default_route(links: list[Link]) -> Link | None:
    """IPv4 first, then the lowest metric."""
    routes = []
    for link in links:
        for route in link.default_routes:
            if route.table in MAIN_TABLES:
                routes.append((route.family != "ipv4", route.metric, link.ifindex, link))
    return min(routes, key=lambda route: route[:3])[3] if routes else None


def _endpoint(host: str, link: Link) -> Endpoint:
    addresses = [address.address for address in global_addresses(link)]
    by_ipv4 = [address for address in addresses if ":" not in address]
    return Endpoint(host, link.ifindex, next(iter(by_ipv4 or addresses), ""))
