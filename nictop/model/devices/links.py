"""What many modules ask about a link. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.probe.records import Address, Link, PciFunction


def link_at(ifindex: int | None, links: Mapping[int, Link]) -> Link | None:
    """The link with this number; None: there is no number, or no such link in this namespace."""
    if ifindex is None:
        return None
    return links.get(ifindex)


def ports_of(master: Link, links: Mapping[int, Link]) -> list[Link]:
    """The ports of a bridge, bond or team."""
    return [link for link in links.values() if link.master == master.ifindex]


def is_into_namespace(link: Link) -> bool:
    """A veth whose other end is in another network namespace."""
    return link.kind == "veth" and link.lower_namespace is not None


def functions_by_address(functions: Iterable[PciFunction]) -> dict[str, PciFunction]:
    return {function.address: function for function in functions}


def function_of(link: Link, functions: Mapping[str, PciFunction]) -> PciFunction | None:
    """The PCI function of a link; None: it has none, or not one of these. `functions`: by
    address."""
    if link.pci_address is None:
        return None
    return functions.get(link.pci_address)


def global_addresses(link: Link, family: str | None = None) -> list[Address]:
    """Addresses of global scope; of one family, or of both."""
    found = []
    for address in link.addresses:  # many rules ask for those of all links
        if address.scope == "global" and family in (None, address.family):
            found.append(address)
    return found


def has_global_address(link: Link) -> bool:
    return any(address.scope == "global" for address in link.addresses)


def ethtool_driver(link: Link) -> str | None:
    """The driver that ethtool reports; "": it has no name. None: not read, or not reported."""
    driver = link.ethtool.driver
    if driver is None:
        return None
    return driver.driver


def reported_speed(link: Link) -> int | None:
    """Mb/s, as ethtool reports it; None: not known."""
    settings = link.ethtool.settings
    if settings is None:
        return None
    return settings.speed
