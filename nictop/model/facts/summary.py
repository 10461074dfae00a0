"""The summary of a netdev: its five most important lines, or the same in one line.

Reads nothing; returns unsanitized text. The sections after the summary have all details.
"""

from __future__ import annotations

from nictop.model.devices.bonds import bond_text
from nictop.model.doubts import doubts_of
from nictop.model.facts.ethtool import present_and_maximum
from nictop.model.facts.sections import SUMMARY, Fact, Section, section
from nictop.model.parts import newest_counters, rates_of_links, unreadable_sources
from nictop.model.queues.counts import used_channels
from nictop.model.rates.links import LinkRates
from nictop.model.snapshot import Snapshot, is_unread_link, outdated_text
from nictop.model.text import units
from nictop.model.text.words import (
    absence_reason,
    address_text,
    count_noun,
    dim_if,
    driver_name,
    is_virtual,
    mtu_text,
    state_text,
    warn_if,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import LINK_COUNTERS, Address, Link, PciFunction

LOSS_COUNTERS = (
    ("rx_errors", "rx_errors"),
    ("tx_errors", "tx_errors"),
    ("rx_dropped", "rx_dropped"),
    ("tx_dropped", "tx_dropped"),
    ("rx_missed_errors", "rx_missed"),
)
"""Counter of the kernel → field of `LinkRates`."""


def summary_section(link: Link, pci: PciFunction | None, snapshot: Snapshot) -> tuple[Section, ...]:
    """State, losses, addresses, driver, queues: five lines where they apply. Nothing for a link
    without an inventory yet."""
    if is_unread_link(link):
        return ()
    facts = [_state(link), errors_fact(link, snapshot), _addresses(link, snapshot)]
    if link.bond is not None:
        facts.append(_bond(link, snapshot))
    else:
        facts.append(_driver(link, pci))
    return section(SUMMARY, [*facts, *_queues(link, pci)])


def summary_line(link: Link, pci: PciFunction | None, snapshot: Snapshot) -> tuple[Fact, ...]:
    """The same, a few words each, the most important first. Nothing for a link without an inventory
    yet."""
    if is_unread_link(link):
        return ()
    text, tone = state_text(link)
    facts = [
        *age_facts(link, pci, snapshot),
        Fact("State", text, tone),
        Fact("MTU", mtu_text(link)),
        Fact("Addresses", _first_address(link, snapshot), _addresses(link, snapshot).tone),
    ]
    driver, channels = driver_name(link, pci), link.ethtool.channels
    if link.bond is not None:
        facts.append(_bond(link, snapshot))
    elif driver is not None:
        facts.append(Fact("Driver", driver))
    if channels is not None:
        facts.append(Fact("Queues", count_noun(used_channels(channels), "queue")))
    errors = errors_fact(link, snapshot)
    brief = errors.text.removeprefix(NONE_NOW)
    if errors.text == NO_ERRORS:
        brief = "no errors or drops"
    place = 1 if errors.tone == "warn" else len(facts)
    facts.insert(place, replace(errors, text=brief))
    return tuple(facts)


NEWER_BY_EVENT = ", but for name, state and MTU"
"""What an event about a link has itself (`LinkChange`)."""


def age_facts(link: Link | None, pci: PciFunction | None, snapshot: Snapshot) -> tuple[Fact, ...]:
    """Where the values may be those of before a change or an event of the host; `link` and `pci`
    are None for the host."""
    text, doubts = outdated_text(snapshot), doubts_of(snapshot)
    if doubts is None or not doubts.concern_values(link, pci):
        return ()
    event = snapshot.unread_event
    if event is not None and event.source == "link":
        text += NEWER_BY_EVENT
    return (Fact("Values", text, "warn"),)


def _bond(link: Link, snapshot: Snapshot) -> Fact:
    text, is_complete = bond_text(link, snapshot.links)
    return Fact("Bond", text, warn_if(not is_complete))


def _state(link: Link) -> Fact:
    text, tone = state_text(link)
    why = link.ethtool.unreadable.get("settings")
    if why is not None:
        text = text.replace("speed unknown", f"speed {absence_reason(why, driver_name(link))}")
    parts = [text, mtu_text(link)]
    if link.carrier_changes:
        parts.append(count_noun(link.carrier_changes, "carrier change"))
    return Fact("State", " · ".join(parts), tone)


NO_ERRORS = "no errors, drops or missed packets"
NONE_NOW = "0/s · "


def _first_address(link: Link, snapshot: Snapshot) -> str:
    ranked = ranked_addresses(link)
    if ranked:
        return address_text(ranked[0])
    if "addresses" in unreadable_sources(snapshot):
        return "address unknown"
    return "no address"


def errors_fact(link: Link, snapshot: Snapshot) -> Fact:
    """Present losses with their rates; otherwise the losses since the driver was loaded."""
    numbers = newest_counters(link, snapshot)
    if numbers is None:
        return Fact("Errors", "counters not read", "dim")
    rates = rates_of_links(snapshot).get(link.ifindex)
    now = _current_losses(rates)
    if now:
        return Fact("Errors", " · ".join(now), "warn")
    total = dict(zip(LINK_COUNTERS, numbers, strict=False))
    totals = [f"{name} {units.count(total[name])}" for name, _ in LOSS_COUNTERS if total.get(name)]
    if totals and rates is not None:
        return Fact("Errors", f"{NONE_NOW}total {', '.join(totals)}")
    if totals:
        return Fact("Errors", ", ".join(totals))
    if "tx_dropped" not in total:  # ESXi
        return Fact("Errors", "no errors")
    if "rx_missed_errors" not in total:
        return Fact("Errors", "no errors or drops")
    return Fact("Errors", NO_ERRORS, "good")


def _current_losses(rates: LinkRates | None) -> list[str]:
    losses = []
    for name, field in LOSS_COUNTERS:
        rate = getattr(rates, field, None)
        if rate:
            losses.append(f"{name} {units.per_second(rate)}")
    return losses


def ranked_addresses(link: Link) -> list[Address]:
    """The most useful ones first: global before link-local, IPv4 before IPv6."""
    return sorted(link.addresses, key=lambda one: (one.scope != "global", one.family != "ipv4"))


def _addresses(link: Link, snapshot: Snapshot) -> Fact:
    sources = unreadable_sources(snapshot)
    parts = [*map(address_text, ranked_addresses(link))]
    if not parts and "addresses" in sources:
        parts = [absence_reason(sources["addresses"], None)]
    families = dict.fromkeys(route.family.replace("ip", "IP") for route in link.default_routes)
    parts = parts or ["none"]
    if families:
        parts.append(f"default route {', '.join(families)}")
    tone = dim_if(not link.addresses)
    if any("dadfailed" in address.flags for address in link.addresses):
        parts.append("duplicate address detected")
        tone = "bad"
    return Fact("Addresses", " · ".join(parts), tone)


def _driver(link: Link, pci: PciFunction | None) -> Fact:
    info = link.ethtool.driver
    known = driver_name(link, pci)
    if info is None:
        text = known or absence_reason(link.ethtool.unreadable.get("driver"), known)
        return Fact("Driver", text, dim_if(not known))
    text = f"{info.driver or known or 'no name'} {info.version}".rstrip()
    if info.firmware.strip(" N/A"):
        text += f" · firmware {info.firmware}"
    return Fact("Driver", text)


def _queues(link: Link, pci: PciFunction | None) -> list[Fact]:
    ethtool = link.ethtool
    parts = []
    if ethtool.channels is not None:
        now = ethtool.channels
        parts += present_and_maximum(
            ("combined", now.combined, now.max_combined),
            ("rx", now.rx, now.max_rx),
            ("tx", now.tx, now.max_tx),
            between="/",
        )
    if ethtool.rings is not None:
        rings = ethtool.rings
        parts += present_and_maximum(
            ("rx ring", rings.rx, rings.max_rx), ("tx ring", rings.tx, rings.max_tx), between="/"
        )
    if parts:
        return [Fact("Queues", " · ".join(parts))]
    if is_virtual(link):
        return []
    return [
        Fact(
            "Queues",
            absence_reason(ethtool.unreadable.get("channels"), driver_name(link, pci)),
            "dim",
        )
    ]
