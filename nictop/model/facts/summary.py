"""The summary of a netdev: its five most important lines, or the same in one line.

Reads nothing; returns unsanitized text. The sections after the summary have all details.
"""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.bonds import bond_text
from nictop.model.facts.sections import SUMMARY, Fact, Section, section
from nictop.model.rates.links import LinkRates
from nictop.model.snapshot import ARPHRD_VOID, BEFORE_CHANGE, Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone, absence_reason, count_noun, driver_name, is_virtual, mtu_text, state_text
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
    """State, losses, addresses, driver, queues: five lines where they apply. Nothing for a link without an inventory
    yet."""
    if link.type == ARPHRD_VOID:
        return ()
    facts = [*_age(snapshot), _state(link), errors_fact(link, snapshot), _addresses(link, snapshot)]
    facts.append(_driver(link, pci) if link.bond is None else _bond(link, snapshot))
    return section(SUMMARY, [*facts, *_queues(link, pci)])


def summary_line(link: Link, pci: PciFunction | None, snapshot: Snapshot) -> tuple[Fact, ...]:
    """The same, a few words each, the most important first. Nothing for a link without an inventory yet."""
    if link.type == ARPHRD_VOID:
        return ()
    text, tone = state_text(link)
    errors = errors_fact(link, snapshot)
    brief = "no errors or drops" if errors.text == NO_ERRORS else errors.text.removeprefix(NONE_NOW)
    ranked = ranked_addresses(link)
    sources = snapshot.inventory.unreadable if snapshot.inventory is not None else {}
    none = "address unknown" if "addresses" in sources else "no address"
    address = f"{ranked[0].address}/{ranked[0].prefix_length}" if ranked else none
    facts = [
        *_age(snapshot),
        Fact("State", text, tone),
        Fact("MTU", mtu_text(link)),
        Fact("Addresses", address, _addresses(link, snapshot).tone),
    ]
    known, channels = driver_name(link, pci), link.ethtool.channels
    if link.bond is not None:
        facts.append(_bond(link, snapshot))
    elif known is not None:
        facts.append(Fact("Driver", known))
    if channels is not None:
        number = (channels.combined or 0) + max(channels.rx or 0, channels.tx or 0)
        facts.append(Fact("Queues", count_noun(number, "queue")))
    facts.insert(1 if errors.tone == "warn" else len(facts), replace(errors, text=brief))
    return tuple(facts)


def _age(snapshot: Snapshot) -> tuple[Fact, ...]:
    """Where the values are those of before a change of the host."""
    return (Fact("Values", BEFORE_CHANGE, "warn"),) if snapshot.is_before_change else ()


def _bond(link: Link, snapshot: Snapshot) -> Fact:
    text, is_complete = bond_text(link, snapshot.links)
    return Fact("Bond", text, "normal" if is_complete else "warn")


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
NONE_NOW = "none now · "


def errors_fact(link: Link, snapshot: Snapshot) -> Fact:
    """Present losses with their rates; otherwise the losses since the driver was loaded."""
    numbers = snapshot.counters.links.get(link.ifindex) if snapshot.counters is not None else None
    numbers = numbers if numbers is not None else link.counters
    if numbers is None:
        return Fact("Errors", "counters not read yet", "dim")
    rates = snapshot.rates.links.get(link.ifindex) if snapshot.rates is not None else None
    now = _current_losses(rates)
    if now:
        return Fact("Errors", " · ".join(now), "warn")
    total = dict(zip(LINK_COUNTERS, numbers, strict=False))
    totals = [f"{name} {units.count(total[name])}" for name, _ in LOSS_COUNTERS if total.get(name)]
    if totals:
        return Fact("Errors", f"{NONE_NOW}total {', '.join(totals)}" if rates is not None else ", ".join(totals))
    if len(numbers) <= LINK_COUNTERS.index("rx_missed_errors"):  # ESXi
        return Fact(
            "Errors", "no errors" if len(numbers) <= LINK_COUNTERS.index("tx_dropped") else "no errors or drops"
        )
    return Fact("Errors", NO_ERRORS, "good")


def _current_losses(rates: LinkRates | None) -> list[str]:
    if rates is None:
        return []
    rated = ((name, getattr(rates, field)) for name, field in LOSS_COUNTERS)
    return [f"{name} {units.per_second(rate)}" for name, rate in rated if rate]


def ranked_addresses(link: Link) -> list[Address]:
    """The most useful ones first: global before link-local, IPv4 before IPv6."""
    return sorted(link.addresses, key=lambda one: (one.scope != "global", one.family != "ipv4"))


def _addresses(link: Link, snapshot: Snapshot) -> Fact:
    sources = snapshot.inventory.unreadable if snapshot.inventory is not None else {}
    parts = [f"{one.address}/{one.prefix_length}" for one in ranked_addresses(link)]
    bad = any("dadfailed" in one.flags for one in link.addresses)
    if not parts:
        parts = [absence_reason(sources["addresses"], None) if "addresses" in sources else "none"]
    families = dict.fromkeys(route.family.replace("ip", "IP") for route in link.default_routes)
    if families:
        parts.append(f"default route {', '.join(families)}")
    tone: Tone = "bad" if bad else "normal" if link.addresses else "dim"
    return Fact("Addresses", " · ".join(parts) + (" · duplicate address detected" if bad else ""), tone)


def _driver(link: Link, pci: PciFunction | None) -> Fact:
    info = link.ethtool.driver
    known = driver_name(link, pci)
    if info is None:
        return Fact(
            "Driver",
            known or absence_reason(link.ethtool.unreadable.get("driver"), known),
            "normal" if known else "dim",
        )
    firmware = (f"firmware {info.firmware}",) if info.firmware.strip(" N/A") else ()
    return Fact("Driver", " · ".join((f"{info.driver or known or 'no name'} {info.version}".rstrip(), *firmware)))


def _queues(link: Link, pci: PciFunction | None) -> list[Fact]:
    ethtool = link.ethtool
    parts = []
    if ethtool.channels is not None:
        now = ethtool.channels
        parts += _ranges(
            ("combined", now.combined, now.max_combined), ("rx", now.rx, now.max_rx), ("tx", now.tx, now.max_tx)
        )
    if ethtool.rings is not None:
        rings = ethtool.rings
        parts += _ranges(("rx ring", rings.rx, rings.max_rx), ("tx ring", rings.tx, rings.max_tx))
    if parts:
        return [Fact("Queues", " · ".join(parts))]
    if is_virtual(link):
        return []
    return [Fact("Queues", absence_reason(ethtool.unreadable.get("channels"), driver_name(link, pci)), "dim")]


def _ranges(*kinds: tuple[str, int | None, int | None]) -> list[str]:
    """``combined 2/4``: present and maximum number; kinds that the driver does not have are left out."""
    return [
        f"{name} {'?' if now is None else now}" + ("" if maximum is None else f"/{maximum}")
        for name, now, maximum in kinds
        if now or maximum
    ]
