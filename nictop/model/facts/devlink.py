"""The devlink instance of a device: embedded switch, port function, parameters, health reporters. Reads nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.model.devices.devlink import devlink_of_function, devlink_of_link, devlink_port
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import bits_per_second
from nictop.model.text.words import absence_reason, count_noun, on_off
from nictop.probe.records import DevlinkDevice, DevlinkParameter, DevlinkPort, HealthReporter

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row


def devlink_section(row: Row, snapshot: Snapshot) -> tuple[Section, ...]:
    """Of a row with a device that has a devlink instance; else none."""
    inventory = snapshot.inventory
    if inventory is None or not inventory.devlink:
        return ()
    device = devlink_of_function(row.pci.address, inventory) if row.pci is not None else None
    if device is None and row.link is not None:
        device = devlink_of_link(row.link, inventory)
    if device is None:
        return ()
    facts = _switch(device)
    port = devlink_port(row.link, device) if row.link is not None else None
    if port is not None:
        facts.append(Fact("Port", f"{port.index} · {_port_text(port)}"))
        facts += _function(port)
    facts += [Fact("Parameter", _parameter_text(one)) for one in device.parameters]
    facts += _health(device, port)
    return section("Devlink", facts)


def _switch(device: DevlinkDevice) -> list[Fact]:
    if device.mode is None:
        why = device.unreadable.get("mode")
        return [Fact("Eswitch", absence_reason(why, None), "dim")] if why is not None else []
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
    parts = [port.address] if port.address is not None else []
    if port.is_active is not None:
        parts.append("active" if port.is_active else "inactive")
    if port.is_attached is not None:
        parts.append("driver attached" if port.is_attached else "no driver attached")
    for name, value in (("roce", port.roce), ("migratable", port.migratable)):
        if value is not None:
            parts.append(f"{name} {on_off(value)}")
    if port.max_io_eqs is not None:
        parts.append(f"max_io_eqs {port.max_io_eqs}")
    facts = [Fact("Function", " · ".join(parts), "warn" if port.is_active is False else "normal")] if parts else []
    rates = [
        f"{name} {bits_per_second(rate * 8)}"
        for name, rate in (("tx_max", port.max_tx_rate), ("tx_share", port.min_tx_rate))
        if rate
    ]
    rates += [f"in group {port.rate_node}"] if port.rate_node else []
    return [*facts, Fact("Rate limit", " · ".join(rates))] if rates else facts


def _parameter_text(one: DevlinkParameter) -> str:
    """``enable_sriov: true (permanent)``"""
    modes = {"runtime": one.runtime, "driverinit": one.driverinit, "permanent": one.permanent}
    return f"{one.name}: " + ", ".join(f"{value} ({mode})" for mode, value in modes.items() if value is not None)


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _health(device: DevlinkDevice, port: DevlinkPort | None) -> list[Fact]:
    """One line for reporters without an error, and one for each with errors; of the device, and of the port."""
    own = [one for one in device.reporters if one.port is None or (port is not None and one.port == port.index)]
    quiet = [one.name for one in own if not one.errors and not one.has_error]
    facts = [_reporter(one) for one in own if one.errors or one.has_error]
    return [*facts, Fact("Health", f"no errors: {', '.join(quiet)}")] if quiet else facts


def _reporter(one: HealthReporter) -> Fact:
    state = "error" if one.has_error else "healthy"
    counts = f"{count_noun(one.errors, 'error')}, {count_noun(one.recoveries, 'recovery', 'recoveries')}"
    return Fact("Health", f"{one.name}: {state} ({counts})", "bad" if one.has_error else "warn")
