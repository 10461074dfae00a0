"""What filters forwarded packets: nftables and iptables-legacy → `PacketFilters`. Needs root.

ebtables-legacy and arptables-legacy are not read: nothing shows whether their tables exist without
creating them.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.probe.inventory.filters.iptables import read_iptables_chains
from nictop.probe.inventory.filters.nft import read_nft_chains
from nictop.probe.records import Link, PacketFilters, Unreadable


def read_filters(
    links: Iterable[Link], sys: str = "/sys", proc: str = "/proc", modules: str = "/lib/modules"
) -> tuple[PacketFilters, Unreadable | None]:
    """The chains, and why all of them are missing. Never raises OSError."""
    names = {link.ifindex: link.name for link in links}
    chains, missing = read_nft_chains(names, sys, modules)
    legacy, unreadable = read_iptables_chains(proc)
    unreadable = {**missing, **unreadable}
    refused = next((why for why in unreadable.values() if why.reason == "needs_root"), None)
    return PacketFilters((*chains, *legacy), unreadable), refused
