"""Power saving of a NIC and of its PCIe link: how to turn it off.

Reads nothing. Documentation/ABI/testing/sysfs-bus-pci (link/l1_aspm),
admin-guide/kernel-parameters.txt (pcie_aspm), ethtool(8) (--set-eee).
"""

from __future__ import annotations

from nictop.probe.records import Link, PciFunction
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import echo
from nictop.rules.fixes.persistence import ethtool_fixes, udev_fix
from nictop.rules.host import HostFacts
from nictop.rules.vf.facts import PCI_DEVICES

ASPM_STATES = ("l1_aspm", "l0s_aspm")
"""Substates of L1 are off when L1 is."""
ASPM_NOTE = (
    "The link to the port above then no longer sleeps, which costs some tenths of a watt. The "
    "kernel parameter pcie_aspm=off does not do this: it leaves what the firmware has enabled."
)
NOT_CONTROLLED_NOTE = (
    "There is no link/l1_aspm in sysfs: this kernel does not control ASPM here, is older than 5.5, "
    "or the link cannot sleep. In the BIOS setup: ASPM or PCIe power management; in a guest: in "
    "that of the hypervisor."
)


def aspm_on(function: PciFunction | None) -> tuple[str, ...]:
    """Enabled states of ASPM of the link of a function, by name in sysfs."""
    return tuple(name for name in ASPM_STATES if function is not None and function.aspm.get(name))


def aspm_evidence(function: PciFunction | None) -> tuple[Evidence, ...]:
    """State of ASPM; (): not known."""
    if function is None or not function.aspm:
        return ()
    states = [name.partition("_")[0].upper().replace("S", "s") for name in aspm_on(function)]
    return (
        Evidence(
            "ASPM",
            f"{', '.join(states)} on" if states else "off",
            f"{PCI_DEVICES}/{function.address}/link",
        ),
    )


def aspm_fixes(link: Link | None, function: PciFunction | None) -> tuple[Fix, ...]:
    """Turn ASPM off for the PCIe link of a NIC; (): it is off."""
    if function is None:
        return ()
    if not function.aspm:
        return (
            Fix(
                "firmware",
                "Turn off PCIe power management (ASPM)",
                (),
                True,
                note=NOT_CONTROLLED_NOTE,
            ),
        )
    states = aspm_on(function)
    if not states:
        return ()
    paths = [f"{PCI_DEVICES}/{function.address}/link/{name}" for name in states]
    now = Fix(
        "here",
        "Turn off ASPM of the PCIe link",
        tuple(echo(0, path) for path in paths),
        persistent=False,
        undo=tuple(echo(1, path) for path in paths),
        note=ASPM_NOTE,
    )
    if link is None:
        return (now,)
    assignments = ", ".join(f'ATTR{{device/link/{name}}}="0"' for name in states)
    return now, udev_fix(link, "aspm", assignments)


def eee_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Turn Energy Efficient Ethernet off; (): it is off, or not known."""
    eee = link.ethtool.eee
    if eee is None or not (eee.enabled or eee.active):
        return ()
    note = "The link is down for some seconds while it negotiates again."
    return ethtool_fixes(host, link, ["--set-eee", "eee", "off"], note=note)


def eee_evidence(link: Link) -> tuple[Evidence, ...]:
    eee = link.ethtool.eee
    if eee is None:
        return ()
    state = "off"
    if eee.active:
        state = "active"
    elif eee.enabled:
        state = "enabled, not active"
    return (Evidence("Energy Efficient Ethernet", state, f"ethtool --show-eee {link.name}"),)
