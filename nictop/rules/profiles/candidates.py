"""Which NIC is meant by a name that no NIC has any more: proposals by slot and by order, never a
decision.

Pure. systemd.net-naming-scheme(7): enp6s18f0 is bus 6, device 18, function 0; ens18 is slot 18.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import Link
from nictop.rules.finding import Evidence
from nictop.rules.host import lasting_address, link_driver

MAX_CANDIDATES = 5
SLOT_NAME = pattern(r"en(?:p(\d{1,3}))?s(\d{1,4})(?:f(\d{1,3}))?(?:np\d+)?", re.ASCII)
KERNEL_NAME = pattern(r"eth(\d{1,4})", re.ASCII)
ADDRESS = pattern(r"[0-9a-f]{4,}:([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
Place = tuple[int, int, int]
"""Bus, device and function."""


def place_of_name(name: str) -> Place | None:
    """Bus (0: not in the name), device and function of a predictable name."""
    match = SLOT_NAME.fullmatch(name)
    return (int(match[1] or 0), int(match[2]), int(match[3] or 0)) if match else None


def place_of_link(link: Link) -> Place | None:
    match = ADDRESS.fullmatch(link.pci_address or "")
    return (int(match[1], 16), int(match[2], 16), int(match[3], 16)) if match else None


def likely(name: str, missing: Sequence[str], links: Sequence[Link]) -> tuple[Link, str] | None:
    """The NIC that `name` was probably the name of, and by what; None: not known. `missing`: all
    names that no NIC has, `links`: the NICs that are not configured."""
    wanted = place_of_name(name)
    if wanted is not None:
        same = [link for link in links if (place_of_link(link) or (0, 0, 0))[1:] == wanted[1:]]
        if len(same) == 1:
            return same[0], "same slot"
    if len(missing) != len(links) or len(links) < 2:
        return None
    names, places = _sorted_names(missing), _sorted_links(links)
    return (places[names.index(name)], "same order of slots") if names and places else None


def _sorted_names(names: Sequence[str]) -> list[str]:
    """(): they have no order."""
    kernel = [KERNEL_NAME.fullmatch(name) for name in names]
    if all(kernel):
        return sorted(names, key=lambda name: int(name[3:]))
    places = {name: place_of_name(name) for name in names}
    if any(place is None for place in places.values()):
        return []
    return sorted(names, key=lambda name: places[name] or (0, 0, 0))


def _sorted_links(links: Sequence[Link]) -> list[Link]:
    places = {link.ifindex: place_of_link(link) for link in links}
    if any(place is None for place in places.values()):
        return []
    return sorted(links, key=lambda link: places[link.ifindex] or (0, 0, 0))


def candidate_evidence(
    links: Sequence[Link], what: str = "unconfigured NICs"
) -> tuple[Evidence, ...]:
    """NICs that may be meant, with what tells them apart."""
    found = [_text(link) for link in links[:MAX_CANDIDATES]]
    if len(links) > MAX_CANDIDATES:
        found.append(f"{len(links) - MAX_CANDIDATES} more")
    return (Evidence(what, "; ".join(found), "ip address"),)


def _text(link: Link) -> str:
    parts = (link_driver(link), link.pci_address, lasting_address(link))
    return f"{link.name} ({', '.join(part for part in parts if part)})"


def proposal(name: str, missing: Sequence[str], links: Sequence[Link]) -> str:
    """A sentence for the note of a fix."""
    found = likely(name, missing, links)
    if len(links) == 1:
        return f"The only one is {links[0].name}: compare MAC address and cable."
    one_of = f"It is one of {', '.join(link.name for link in links[:MAX_CANDIDATES])}"
    if found is None:
        return f"{one_of}; which one is not known: compare MAC address and cable."
    return f"{one_of}; perhaps {found[0].name} ({found[1]}): compare MAC address and cable."
