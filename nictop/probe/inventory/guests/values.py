"""Values of command lines and configurations: numbers, MAC addresses; names of monitors. Pure."""

from __future__ import annotations

from nictop.probe.inventory.machine.qemu import MAC_ADDRESS
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.sysfs import parse_integer

MONITORS = {"cloud-hyperviso": "cloud-hypervisor", "firecracker": "firecracker", "crosvm": "crosvm"}
"""comm of monitors other than QEMU, which the kernel truncates to 15 bytes → product."""
MAX_NUMBER_CHARS = 10


def mac_or_none(text: str) -> str | None:
    """In lower case; None for any other text."""
    lower = text.lower()
    return lower if MAC_ADDRESS.fullmatch(lower) else None


def small_number(text: str) -> int | None:
    """A decimal number of at most `MAX_NUMBER_CHARS` digits; None for any other text."""
    if len(text) > MAX_NUMBER_CHARS or not is_ascii(text) or not text.isdigit():
        return None
    return parse_integer(text)
