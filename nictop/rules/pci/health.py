"""Health reporters of drivers."""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.records import DevlinkDevice, HealthReporter, Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding


@host_rule("warning", uses=("devlink",))
def health_reporter_has_an_error(host: HostFacts) -> Outcomes:
    """A health reporter of a driver (devlink) is in the state error: the driver has not recovered
    from a fault.

    Drivers report faults of firmware and queues (fw, fw_fatal, tx, rx), and recover by a reset if
    auto_recover is on. The state error remains if the recovery failed, or is left to the
    administrator.

    Not reported: faults from which the driver has recovered; the panel shows their number.

    Sources: kernel Documentation/networking/devlink/devlink-health.rst; devlink-health(8).
    """
    for device in host.inventory.devlink:
        for reporter in device.reporters:
            if reporter.has_error:
                yield _reporter_finding(host, device, reporter)


def _reporter_finding(host: HostFacts, device: DevlinkDevice, reporter: HealthReporter) -> Finding:
    handle, name = _handle(device, reporter), reporter.name
    link = _link(device, reporter, host.snapshot.links)
    numbers = f"{reporter.errors}, recovered {reporter.recoveries} times"
    evidence = [
        Evidence("state", "error", f"devlink health show {handle} reporter {name}"),
        Evidence("errors", numbers, "devlink health show"),
    ]
    if reporter.auto_recover is not None:
        state = "on" if reporter.auto_recover else "off"
        evidence.append(Evidence("auto_recover", state, "devlink health show"))
    dump = command("devlink", "health", "dump", "show", handle, "reporter", name)
    recover = command("devlink", "health", "recover", handle, "reporter", name)
    return host_finding(
        "warning",
        host,
        device.device if link is None else link.name,
        f'health reporter "{name}": error, not recovered',
        evidence=tuple(evidence),
        why="The device or one of its queues may not work until it is reset.",
        item=name,
        fixes=(
            Fix(
                "here",
                "Read the dump of the fault",
                (dump,),
                note="Not every reporter has one. The vendor may ask for it; a recovery "
                "can discard it.",
            ),
            Fix(
                "here",
                "Recover",
                (recover,),
                note="May reset the device: its links go down for some seconds.",
            ),
        ),
    )


def _handle(device: DevlinkDevice, reporter: HealthReporter) -> str:
    """``pci/0000:3b:00.0``, with the number of the port if it is a reporter of one."""
    handle = f"{device.bus}/{device.device}"
    if reporter.port is None:
        return handle
    return f"{handle}/{reporter.port}"


def _link(
    device: DevlinkDevice, reporter: HealthReporter, links: Mapping[int, Link]
) -> Link | None:
    for port in device.ports:
        if port.index == reporter.port and port.ifindex is not None:
            return links.get(port.ifindex)
    return None
