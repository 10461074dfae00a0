"""What an event may be about that no inventory has read yet: how far it reaches."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.records import EventSource

ABOUT_LINK, ABOUT_OTHER_ENDS, ABOUT_ADDRESSES, ABOUT_ALL = range(4)
REACHES: dict[EventSource, int] = {
    "link": ABOUT_LINK,
    "another namespace": ABOUT_OTHER_ENDS,
    "address": ABOUT_ADDRESSES,
    "default route": ABOUT_ADDRESSES,
    "route": ABOUT_ADDRESSES,
    "routing rule": ABOUT_ADDRESSES,
    "gateway": ABOUT_ADDRESSES,
    "NetworkManager": ABOUT_ADDRESSES,
}


def reach_of(source: EventSource) -> int:
    """A link; also the other ends of veths; also addresses, routes, managers and profiles;
    everything. What else a manager changes has events of its own."""
    return REACHES.get(source, ABOUT_ALL)
