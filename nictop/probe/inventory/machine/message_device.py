"""Which device a kernel message is about: the names in its text.

Formats: dev_printk() ``DRIVER DEVICE: …``, netdev_printk() ``DRIVER DEVICE NAME: …`` or, without a
parent device, ``NAME: …`` (drivers/base/core.c, net/core/dev.c). Reads nothing.
"""

from __future__ import annotations

import re

from nictop.probe.kernel.patterns import pattern

PCI_ADDRESS = pattern(
    r"(?<![0-9a-f:.])((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?![0-9a-f.])", re.ASCII
)
"""IOMMU drivers leave the domain 0000 out."""
OF_DEVICE = pattern(
    r"(?P<driver>[\w.-]{1,32}) "
    r"(?P<device>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|virtio[0-9]{1,5}|"
    r"[0-9a-f]{8}-[0-9a-f-]{1,27}|vif-[0-9]{1,5}"
    r"|[0-9]{1,3}-[0-9.]{1,16}:[0-9]{1,3}\.[0-9]{1,3}|[0-9a-f]{4,16}\.[a-z][\w-]{0,32})"
    r"(?:: | (?P<name>[^\s:()]{1,64})(?: \([a-z ]{1,32}\)){0,2}: )",
    re.ASCII,
)
"""PCI, virtio, VMBus, Xen, USB, platform. A name in brackets is that of a netdev without one."""
OF_FUNCTION = pattern(
    r"(?:\w{1,32}: "
    r")?\[\w{1,64}:[0-9]{1,6}\((?:sp-[0-9]{1,"
    r"2}-(?P<slot>[0-9a-f]{2}:[0-9a-f]{2})\.0(?P<function>[0-7])"
    r"|(?P<name>[^\s:()]{1,64}))\)\]",
    re.ASCII,
)
"""bnx2x, qede and qed: ``[FUNCTION:LINE(NAME)]``. qed's own name has bus, device and function
(qlogic/qed/qed_main.c, qed_slowpath_irq_req)."""
OF_NAME = pattern(r"(?:NETDEV WATCHDOG: )?([^\s:()]{1,64})(?: \([^)]{0,64}\)){0,2}: ", re.ASCII)
"""netdev_printk() without a parent, and the watchdog before Linux 6.8."""
IN_SENTENCE = (
    pattern(r"received packet on (\S{1,64}) with own address"),  # net/bridge/br_fdb.c: the port
    pattern(
        r"^(?:bnx2x: )?\[\w{1,64}:\d{1,6}\(([^)\s]{1,64})\)\]"
    ),  # bnx2x, qede: function, line and interface
    pattern(r"\bon dev (\S{1,64})"),  # net/ipv4/route.c: martian source
    pattern(
        r"^(?:IPv6|mlx4_en): ([^\s:()]{1,64}): "
    ),  # net/ipv6/addrconf.c, mellanox/mlx4/en_main.c
    pattern(
        r"^[\w-]{1,32}: (\S{1,64}) NIC Link is "
    ),  # intel/e1000/e1000_main.c; others before netdev_printk()
    pattern(r"to HW filter on device (\S{1,64})"),  # net/8021q/vlan.c
    pattern(r"Failed to rename network interface \d{1,10} from '([^']{1,64})'"),  # systemd
)


def addresses_in(text: str) -> list[str]:
    """PCI addresses in a message, each with its domain."""
    return list(map(with_domain, PCI_ADDRESS.findall(text)))


def with_domain(address: str) -> str:
    if address.count(":") == 2:
        return address
    return f"0000:{address}"


def parse_device(text: str) -> tuple[str | None, str | None]:
    """(device on its bus, name of the interface) that a message begins with, or names where another
    wording is known.

    ``0000:02:00.0``, ``virtio2`` or a VMBus GUID. The name is that at the time of the message.
    """
    match = OF_DEVICE.match(text)
    if match is not None:
        device, name = match["device"], match["name"]
        if name == device:
            return device, None
        return device, name
    match = OF_FUNCTION.match(text)
    if match is not None:
        if not match["slot"]:
            return None, match["name"]
        return f"0000:{match['slot']}.{match['function']}", match["name"]
    for sentence in IN_SENTENCE:
        match = sentence.search(text)
        if match is not None:
            return None, match[1]
    address = next(iter(addresses_in(text)), None)
    match = OF_NAME.match(text)
    if match is None:
        return address, None
    return address, match[1]


def device_in(text: str) -> str:
    """What distinguishes the devices in messages of one text; "": the message names none."""
    device, name = parse_device(text)
    return device or name or ""
