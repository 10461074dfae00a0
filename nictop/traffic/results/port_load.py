"""What the port of an end carried during a run, with the functions that share it. Reads nothing."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True)
class PortLoad:
    """The port of a physical function with VFs that carries a run, in its measured seconds."""

    end: str
    """Name of the host of the run's end."""
    host: str
    """Of the port: that of the end, or the hypervisor below it."""
    device: str
    """Its netdev."""
    source: str = ""
    """``eth-mac``, or the driver whose own counters these are; "": none of these."""
    received: float | None = None
    """Bits per second at the port, as the NIC counts them."""
    sent: float | None = None
    wire_received: float | None = None
    """With preamble and gap of each packet; None: packets are not counted."""
    wire_sent: float | None = None
    speed: int | None = None
    """Mb/s of the port; None: not known."""
    unknown: str = ""
    """Why the rates are not known; "" if they are."""
    is_shared: bool = False
    """Other physical functions have the same port (NPAR): they are counted as well."""
