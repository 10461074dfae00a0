"""ethtool values of a netdev: channels, rings, coalescing, offloads, RSS, pause, FEC, EEE,
transceiver.

Reads nothing; returns sections of unsanitized text. Absent parts are listed with the reason.
"""

from __future__ import annotations

from nictop.model.devices.links import ethtool_driver
from nictop.model.facts.ethtool_settings import (
    DRIVERS_WITH_OFFLOADS_ON,
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
from nictop.model.text.words import dim_if, driver_name, is_virtual, on_off, warn_if
from nictop.probe.records import (
    Channels,
    Ethtool,
    Feature,
    Link,
    LinkSettings,
    Module,
    PciFunction,
    Rings,
)

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


OFFLOADS = "Offloads"
"""Title of the section."""
OTHER_FEATURES = "Also on"
"""Label of the features of no offload."""


def ethtool_sections(link: Link, pci: PciFunction | None) -> tuple[Section, ...]:
    ethtool = link.ethtool
    names = {field: name for field, name in PART_NAMES.items() if getattr(ethtool, field) is None}
    if not is_virtual(link):
        names.pop("settings", None)  # the line of the speed says it
    elif "module" not in ethtool.unreadable:
        names.pop("module", None)  # virtual links have no transceiver
    missing = absences(names, ethtool.unreadable, driver_name(link, pci))
    offloads: list[Fact] = []
    if ethtool.features is not None:
        offloads = offload_facts(ethtool.features, ethtool_driver(link))
    module: list[Fact] = []
    if ethtool.module is not None:
        module = _module_facts(ethtool.module)
    return (
        *section("Queues", _queue_facts(ethtool)),
        *section(OFFLOADS, offloads),
        *section("Link parameters", _parameter_facts(ethtool)),
        *section("Module", module),
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
        hashing = ethtool.rss.hash_function or "unknown"
        if ethtool.rss.key_length:
            hashing += f", key {ethtool.rss.key_length} bytes"
        facts.append(Fact("RSS hash", hashing))
    return facts


def channel_text(channels: Channels) -> str:
    """``combined 2 of 4 · other 1 of 1``; kinds that the driver does not have are left out."""
    parts = present_and_maximum(
        ("combined", channels.combined, channels.max_combined),
        ("rx", channels.rx, channels.max_rx),
        ("tx", channels.tx, channels.max_tx),
        ("other", channels.other, channels.max_other),
    )
    return " · ".join(parts) or "none"


def ring_text(rings: Rings) -> str:
    """``rx 512 of 4096 · tx 512 of 4096``"""
    parts = present_and_maximum(
        ("rx", rings.rx, rings.max_rx),
        ("rx mini", rings.rx_mini, rings.max_rx_mini),
        ("rx jumbo", rings.rx_jumbo, rings.max_rx_jumbo),
        ("tx", rings.tx, rings.max_tx),
    )
    if rings.rx_buffer_length:
        parts.append(f"rx buffer {rings.rx_buffer_length} bytes")
    if rings.tcp_data_split not in (None, "unknown"):
        parts.append(f"TCP data split {rings.tcp_data_split}")
    return " · ".join(parts) or "none"


def present_and_maximum(
    *kinds: tuple[str, int | None, int | None], between: str = " of "
) -> list[str]:
    """``combined 2 of 4``: (name, present number, maximum) of each kind that the driver has."""
    parts = []
    for name, now, maximum in kinds:
        if not now and not maximum:
            continue
        number = "?" if now is None else str(now)
        if maximum is not None:
            number += f"{between}{maximum}"
        parts.append(f"{name} {number}")
    return parts


def offload_facts(features: tuple[Feature, ...], driver: str | None) -> list[Fact]:
    """First the offloads that are off although the driver turns them on by default, then those that
    are on, those that are off, and the features of no offload."""
    states = offload_states(features)
    unusual: list[Fact] = []
    refused: list[Fact] = []
    names: dict[bool, list[str]] = {True: [], False: []}
    for state in states:
        text = f"{state.offload.name} {state.text}"
        if state.is_off_unlike_default(driver) and not state.refused:
            unusual.append(Fact("Unusual", text, "warn"))
        elif state.refused:
            refused.append(Fact("Refused", text, "warn"))
        else:
            suffix = " [fixed]" if state.fixed else ""
            names[state.active].append(state.offload.name + suffix)
    if states and not unusual and driver in DRIVERS_WITH_OFFLOADS_ON:
        unusual.append(Fact("Unusual", "none", "good"))
    facts = unusual + refused
    if names[True]:
        facts.append(Fact("On", ", ".join(names[True])))
    if names[False]:
        facts.append(Fact("Off", ", ".join(names[False])))
    others = other_features(features)
    facts.append(Fact(OTHER_FEATURES, ", ".join(others) or "none", "dim"))
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
        flags = [f"{name} {on_off(flag)}" for name, flag in ethtool.private_flags.items()]
        facts.append(Fact("Private flags", ", ".join(flags)))
    if ethtool.settings is not None:
        facts += _mode_facts(ethtool.settings)
    return facts


def _mode_facts(settings: LinkSettings) -> list[Fact]:
    """Link modes of both ends."""
    facts = []
    if settings.advertised:
        facts.append(Fact("Advertised", ", ".join(settings.advertised), "dim"))
    if settings.partner:
        facts.append(Fact("Link partner", ", ".join(settings.partner), "dim"))
    return facts


def _module_facts(module: Module) -> list[Fact]:
    health = []
    if module.temperature is not None:
        health.append(f"{module.temperature:g} °C")
    if module.voltage is not None:
        health.append(f"{module.voltage:g} V")
    diagnostics = " · ".join(health) or "not supported by this module"
    facts = [
        Fact("Module", module_text(module)),
        Fact("Serial", module.serial or "none", "dim"),
        Fact("Diagnostics", diagnostics, dim_if(not health)),
    ]
    for number, text in enumerate(lane_texts(module.lanes), 1):
        label = f"Lane {number}" if len(module.lanes) > 1 else "Optics"
        facts.append(Fact(label, text, warn_if("no light" in text)))
    return facts
