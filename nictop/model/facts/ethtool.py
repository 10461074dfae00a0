"""ethtool values of a netdev: channels, rings, coalescing, offloads, RSS, pause, FEC, EEE, transceiver.

Reads nothing; returns sections of unsanitized text. Absent parts are listed with the reason.
"""

from __future__ import annotations

from nictop.model.facts.ethtool_settings import (
    coalescing_text,
    eee_text,
    fec_text,
    offload_states,
    other_features,
    pause_text,
    rss_text,
)
from nictop.model.facts.hardware import lane_texts, module_text
from nictop.model.facts.sections import Fact, Section, absences, section
from nictop.model.queues.counts import receive_channels
from nictop.model.text.words import driver_name, is_virtual, on_off
from nictop.probe.records import Channels, Ethtool, Feature, Link, Module, PciFunction, Rings

PART_NAMES = {
    "settings": "speed",
    "channels": "channels",
    "rings": "rings",
    "coalescing": "coalescing",
    "features": "offloads",
    "rss": "RSS",
    "pause": "pause",
    "fec": "FEC",
    "eee": "EEE",
    "module": "module",
    "private_flags": "private flags",
}
"""Field of `Ethtool` → name in the list of absent parts."""


def ethtool_sections(link: Link, pci: PciFunction | None) -> tuple[Section, ...]:
    ethtool = link.ethtool
    names = {
        field: name
        for field, name in PART_NAMES.items()
        if getattr(ethtool, field) is None and not (field == "settings" and not is_virtual(link))
    }
    if is_virtual(link) and "module" not in ethtool.unreadable:
        names.pop("module", None)  # virtual links have no transceiver
    missing = absences(names, ethtool.unreadable, driver_name(link, pci))
    return (
        *section("Queues", _queue_facts(ethtool)),
        *section("Offloads", offload_facts(ethtool.features) if ethtool.features is not None else ()),
        *section("Link parameters", _parameter_facts(ethtool)),
        *section("Module", _module_facts(ethtool.module) if ethtool.module is not None else ()),
        *section("Not available", missing),
    )


def _queue_facts(ethtool: Ethtool) -> list[Fact]:
    facts = []
    if ethtool.channels is not None:
        facts.append(Fact("Channels", channel_text(ethtool.channels)))
    if ethtool.rings is not None:
        facts.append(Fact("Rings", ring_text(ethtool.rings)))
    if ethtool.coalescing is not None:
        facts.append(Fact("Coalescing", coalescing_text(ethtool.coalescing) or "all parameters 0"))
    if ethtool.rss is not None:
        text, tone = rss_text(ethtool.rss, receive_channels(ethtool.channels))
        facts.append(Fact("RSS", text, tone))
        key = f", key {ethtool.rss.key_length} bytes" if ethtool.rss.key_length else ""
        facts.append(Fact("RSS hash", f"{ethtool.rss.hash_function or 'unknown'}{key}"))
    return facts


def channel_text(channels: Channels) -> str:
    """``combined 2 of 4 · other 1 of 1``; kinds that the driver does not have are left out."""
    kinds = (
        ("combined", channels.combined, channels.max_combined),
        ("rx", channels.rx, channels.max_rx),
        ("tx", channels.tx, channels.max_tx),
        ("other", channels.other, channels.max_other),
    )
    return " · ".join(_of(name, now, maximum) for name, now, maximum in kinds if now or maximum) or "none"


def ring_text(rings: Rings) -> str:
    """``rx 512 of 4096 · tx 512 of 4096``"""
    kinds = (
        ("rx", rings.rx, rings.max_rx),
        ("rx mini", rings.rx_mini, rings.max_rx_mini),
        ("rx jumbo", rings.rx_jumbo, rings.max_rx_jumbo),
        ("tx", rings.tx, rings.max_tx),
    )
    parts = [_of(name, now, maximum) for name, now, maximum in kinds if now or maximum]
    if rings.rx_buffer_length:
        parts.append(f"rx buffer {rings.rx_buffer_length} bytes")
    if rings.tcp_data_split not in (None, "unknown"):
        parts.append(f"TCP data split {rings.tcp_data_split}")
    return " · ".join(parts) or "none"


def _of(name: str, now: int | None, maximum: int | None) -> str:
    return f"{name} {now if now is not None else '?'}" + (f" of {maximum}" if maximum is not None else "")


def offload_facts(features: tuple[Feature, ...]) -> list[Fact]:
    """First the offloads that differ from usual, then those that are on, those that are off, and the features of no
    offload."""
    states = offload_states(features)
    facts = [
        Fact(
            "Unusual",
            f"{state.offload.name} {state.text}",
            "dim" if state.fixed else "warn",
        )
        for state in states
        if state.unusual
    ]
    if not facts and states:
        facts.append(Fact("Unusual", "none", "good"))
    facts += [
        Fact("Refused", f"{state.offload.name} {state.text}", "warn")
        for state in states
        if state.refused and not state.unusual
    ]
    for active in (True, False):
        names = [
            state.offload.name + (" [fixed]" if state.fixed else "")
            for state in states
            if state.active is active and not state.unusual and not state.refused
        ]
        if names:
            facts.append(Fact(on_off(active).capitalize(), ", ".join(names)))
    others = other_features(features)
    facts.append(Fact("Also on", ", ".join(others) or "none", "dim"))
    return facts


def _parameter_facts(ethtool: Ethtool) -> list[Fact]:
    facts = []
    if ethtool.pause is not None:
        facts.append(Fact("Pause", pause_text(ethtool.pause)))
    if ethtool.fec is not None:
        facts.append(Fact("FEC", fec_text(ethtool.fec)))
    if ethtool.eee is not None:
        facts.append(Fact("EEE", eee_text(ethtool.eee)))
    if ethtool.private_flags:
        facts.append(
            Fact("Private flags", ", ".join(f"{name} {on_off(flag)}" for name, flag in ethtool.private_flags.items()))
        )
    if ethtool.settings is not None:
        for label, modes in (("Advertised", ethtool.settings.advertised), ("Link partner", ethtool.settings.partner)):
            if modes:
                facts.append(Fact(label, ", ".join(modes), "dim"))
    return facts


def _module_facts(module: Module) -> list[Fact]:
    facts = [Fact("Module", module_text(module)), Fact("Serial", module.serial or "none", "dim")]
    health = [
        f"{value:g} {unit}" for value, unit in ((module.temperature, "°C"), (module.voltage, "V")) if value is not None
    ]
    facts.append(
        Fact("Diagnostics", " · ".join(health) or "not supported by this module", "normal" if health else "dim")
    )
    for number, text in enumerate(lane_texts(module.lanes)):
        dark = "no light" in text
        facts.append(
            Fact(f"Lane {number + 1}" if len(module.lanes) > 1 else "Optics", text, "warn" if dark else "normal")
        )
    return facts
