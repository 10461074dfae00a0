"""The guided jobs as a form: which fields each of them has, and what becomes of their words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nictop.changes.guided import GuidedChange, give_address, make_vfs, spread_interrupts, use_queues
from nictop.changes.guided_address import AddressRequest
from nictop.errors import NictopError
from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.probe.records import Channels, Link, PciFunction
from nictop.rules import HostFacts
from nictop.tui.widgets.base.form import Field

ADDRESS, QUEUES, VFS, INTERRUPTS = "give it an address", "set its queues", "make VFs", "spread its interrupts"
JOBS = (ADDRESS, QUEUES, VFS, INTERRUPTS)
STATIC, DHCP = "static", "DHCP"
NO, YES = "no", "yes"
ITS_OWN, NEW = "the one it has", "a new one"

JOB_FIELDS = {
    ADDRESS: ("method", "address", "default_route", "gateway", "profile"),
    QUEUES: ("queues",),
    VFS: ("vfs",),
    INTERRUPTS: ("cpus",),
}
"""Job → its fields."""


@dataclass(frozen=True)
class NicRef:
    """The NIC to set up; the inventory of its host is known."""

    host: HostFacts
    link: Link
    function: PciFunction | None
    """Its PCI function; None: it is not on the PCI bus."""

    @classmethod
    def of(cls, host: HostFacts, link: Link) -> NicRef:
        function = next((one for one in host.snapshot.pci if one.address == link.pci_address), None)
        return cls(host, link, function)


class Missing(NictopError):
    """A required field is empty."""


def fields_of(place: NicRef) -> Sequence[Field]:
    """All fields, with the present settings of the NIC as examples."""
    online = place.host.inventory.platform.online_cpus or ""
    return (
        Field("job", "what to do", "", None, JOBS),
        Field("method", "address", "", None, (STATIC, DHCP)),
        Field("address", "its address", "192.0.2.10/24", empty="to be typed"),
        Field("default_route", "default route", "whether what goes elsewhere may leave here", None, (NO, YES)),
        Field("gateway", "gateway", "192.0.2.1", empty="none"),
        Field("profile", "profile", "of NetworkManager", None, (ITS_OWN, NEW)),
        Field("queues", "queues", _queue_words(place.link), empty="to be typed"),
        Field("vfs", "VFs", _vf_words(place.function), empty="to be typed"),
        Field("cpus", "CPUs", f"of {online}, one interrupt after the other", preset=online, empty="to be typed"),
    )


def names_shown(words: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the fields of the chosen job that apply to the present values of the others."""
    names = ("job", *JOB_FIELDS[words["job"]])
    if words["method"] == DHCP:
        names = tuple(name for name in names if name not in ("address", "gateway"))
    elif words["default_route"] == NO:
        names = tuple(name for name in names if name != "gateway")
    return names


def set_up_of(words: Mapping[str, str], place: NicRef) -> GuidedChange:
    """The change described by the values. Raises NictopError for invalid ones, `Missing` for an empty one."""
    job = words["job"]
    if job == ADDRESS:
        return give_address(place.host, place.link, _address_request(words))
    if job == QUEUES:
        return use_queues(place.host, place.link, _number(words["queues"], "how many queues"))
    if job == VFS:
        if place.function is None:
            raise NictopError(f"{place.link.name} is no PCI function: it has no virtual functions")
        return make_vfs(place.host, place.function, _number(words["vfs"], "how many virtual functions"))
    text = words["cpus"].strip()
    cpus = parse_cpu_list(text)
    if not text:
        raise Missing("Type the CPUs: 0-3,8.")
    if not cpus:
        raise NictopError(f"{text!r} is no list of CPUs", "for example 0-3,8")
    return spread_interrupts(place.host, place.link, cpus)


def _address_request(words: Mapping[str, str]) -> AddressRequest:
    routed, new = words["default_route"] == YES, words["profile"] == NEW
    if words["method"] == DHCP:
        return AddressRequest(None, default_route=routed, new_profile=new)
    address = words["address"].strip()
    if not address:
        raise Missing("Type the address with the length of its prefix: 192.0.2.10/24.")
    return AddressRequest(address, words["gateway"].strip() if routed else "", routed, new)


def _number(text: str, what: str) -> int:
    word = text.strip()
    if not word:
        raise Missing(f"Type {what}.")
    if not (word.isascii() and word.isdecimal()) or len(word) > 6:
        raise NictopError(f"{word!r} is no number")
    return int(word)


def _queue_words(link: Link) -> str:
    channels = link.ethtool.channels
    most = _most_queues(channels) if channels is not None else 0
    return f"1 to {most}, {receive_queues(link)} now" if most else "cannot be set"


def _most_queues(channels: Channels) -> int:
    return channels.max_combined or min(channels.max_rx or 0, channels.max_tx or 0)


def _vf_words(function: PciFunction | None) -> str:
    sriov = function.sriov if function is not None else None
    if sriov is None or not sriov.total_vfs:
        return "offered by physical functions only"
    return f"1 to {sriov.total_vfs}, {sriov.num_vfs or 'none'} now"
