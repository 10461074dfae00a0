"""Health reporters of drivers."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.records import DevlinkDevice, HealthReporter, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding


@host_rule("PCI and SR-IOV", "warning", uses=("devlink",))
def health_reporter_has_an_error(host: HostFacts) -> Outcomes:
    """A health reporter of a driver (devlink) is in the state error: the driver has not recovered from a fault.

    Drivers report faults of firmware and queues (fw, fw_fatal, tx, rx), and recover by a reset if auto_recover is on.
    The state error remains if the recovery failed, or is left to the administrator.

    Not reported: faults from which the driver has recovered; the panel shows their number.

    Sources: kernel Documentation/networking/devlink/devlink-health.rst; devlink-health(8).
    """
    for device in host.inventory.devlink:
        for one in device.reporters:
            if not one.has_error:
                continue
            handle = _handle(device, one)
            link = _link(device, one, host.snapshot.links)
            yield host_finding(
                "warning",
                host,
                link.name if link is not None else device.device,
                f'health reporter "{one.name}": error, not recovered',
                evidence=(
                    Evidence("state", "error", f"devlink health show {handle} reporter {one.name}"),
                    Evidence("errors", f"{one.errors}, recovered {one.recoveries} times", "devlink health show"),
                    *(
                        (Evidence("auto_recover", "on" if one.auto_recover else "off", "devlink health show"),)
                        if one.auto_recover is not None
                        else ()
                    ),
                ),
                why="The device or one of its queues may not work until it is reset.",
                fixes=(
                    Fix(
                        "here",
                        "Read the dump of the fault",
                        (command("devlink", "health", "dump", "show", handle, "reporter", one.name),),
                        note="Not every reporter has one. The vendor may ask for it; a recovery can discard it.",
                    ),
                    Fix(
                        "here",
                        "Recover",
                        (command("devlink", "health", "recover", handle, "reporter", one.name),),
                        note="May reset the device: its links go down for some seconds.",
                    ),
                ),
            )


def _handle(device: DevlinkDevice, one: HealthReporter) -> str:
    """``pci/0000:3b:00.0``, with the number of the port if it is a reporter of one."""
    return f"{device.bus}/{device.device}" + (f"/{one.port}" if one.port is not None else "")


def _link(device: DevlinkDevice, one: HealthReporter, links: Mapping[int, Link]) -> Link | None:
    port = next((port for port in device.ports if port.index == one.port), None)
    return links.get(port.ifindex) if port is not None and port.ifindex is not None else None
