"""The devlink instance of a device: embedded switch, port function, parameters, health reporters.
Reads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.devices.devlink import devlink_of_function, devlink_of_link, devlink_port
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import bits_per_second
from nictop.model.text.words import absence_reason, count_noun, on_off, warn_if
from nictop.probe.records import (
    DevlinkDevice,
    DevlinkParameter,
    DevlinkPort,
    HealthReporter,
    Inventory,
)

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row


def devlink_section(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Of a row with a device that has a devlink instance; else none."""
    inventory = snapshot.inventory
    if inventory is None or not inventory.devlink:
        return ()
    device = _device(row, inventory)
    if device is None:
        return ()
    facts = _switch(device)
    port = None
    if row.link is not None:
        port = devlink_port(row.link, device)
    if port is not None:
        facts.append(Fact("Port", f"{port.index} · {_port_text(port)}"))
        facts += _function(port)
    facts += [Fact("Parameter", _parameter_text(parameter)) for parameter in device.parameters]
    facts += _health(device, port)
    return section("Devlink", facts)


def _device(row: Row, inventory: Inventory) -> DevlinkDevice | None:
    """That of the PCI function of a row, else of the device of its link."""
    device = None
    if row.pci is not None:
        device = devlink_of_function(row.pci.address, inventory)
    if device is None and row.link is not None:
        device = devlink_of_link(row.link, inventory)
    return device


def _switch(device: DevlinkDevice) -> list[Fact]:
    if device.mode is None:
        why = device.unreadable.get("mode")
        if why is None:
            return []
        return [Fact("Eswitch", absence_reason(why, None), "dim")]
    parts = [device.mode]
    if device.inline_mode is not None:
        parts.append(f"inline-mode {device.inline_mode}")
    if device.encap is not None:
        parts.append(f"encap {on_off(device.encap)}")
    return [Fact("Eswitch", " · ".join(parts))]


def _port_text(port: DevlinkPort) -> str:
    physical = f"representor of PF {_number(port.physical_function)}"
    if port.flavour == "pcipf":
        return physical
    if port.flavour == "pcivf":
        return f"{physical} VF {_number(port.virtual_function)}"
    if port.flavour == "pcisf":
        return f"{physical} SF {_number(port.subfunction)}"
    return port.flavour


def _function(port: DevlinkPort) -> list[Fact]:
    """Attributes of the function that a representor stands for."""
    facts = []
    attributes = _attribute_texts(port)
    if attributes:
        facts.append(Fact("Function", " · ".join(attributes), warn_if(port.is_active is False)))
    limits = []
    if port.max_tx_rate:
        limits.append(f"tx_max {bits_per_second(port.max_tx_rate * 8)}")
    if port.min_tx_rate:
        limits.append(f"tx_share {bits_per_second(port.min_tx_rate * 8)}")
    if port.rate_node:
        limits.append(f"in group {port.rate_node}")
    if limits:
        facts.append(Fact("Rate limit", " · ".join(limits)))
    return facts


def _attribute_texts(port: DevlinkPort) -> list[str]:
    parts = []
    if port.address is not None:
        parts.append(port.address)
    if port.is_active is not None:
        parts.append("active" if port.is_active else "inactive")
    if port.is_attached is not None:
        parts.append("driver attached" if port.is_attached else "no driver attached")
    for name, value in (("roce", port.roce), ("migratable", port.migratable)):
        if value is not None:
            parts.append(f"{name} {on_off(value)}")
    if port.max_io_eqs is not None:
        parts.append(f"max_io_eqs {port.max_io_eqs}")
    return parts


def _parameter_text(one: DevlinkParameter) -> str:
    """``enable_sriov: true (permanent)``"""
    modes = {"runtime": one.runtime, "driverinit": one.driverinit, "permanent": one.permanent}
    values = [f"{value} ({mode})" for mode, value in modes.items() if value is not None]
    return f"{one.name}: {', '.join(values)}"


def _number(value: int | None) -> str:
    if value is None:
        return "?"
    return str(value)


def _health(device: DevlinkDevice, port: DevlinkPort | None) -> list[Fact]:
    """One line for reporters without an error, and one for each with errors; of the device, and of
    the port."""
    numbers: list[int | None] = [None]
    if port is not None:
        numbers.append(port.index)
    facts, quiet = [], []
    for reporter in device.reporters:
        if reporter.port not in numbers:
            continue
        if reporter.errors or reporter.has_error:
            facts.append(_reporter(reporter))
        else:
            quiet.append(reporter.name)
    if quiet:
        facts.append(Fact("Health", f"no errors: {', '.join(quiet)}"))
    return facts


def _reporter(one: HealthReporter) -> Fact:
    state = "error" if one.has_error else "healthy"
    counts = (
        f"{count_noun(one.errors, 'error')}, {count_noun(one.recoveries, 'recovery', 'recoveries')}"
    )
    return Fact("Health", f"{one.name}: {state} ({counts})", "bad" if one.has_error else "warn")
