"""The command line of a QEMU process → its NICs, virtual CPUs and UUID. Pure.

Options are those of qemu(1), "Network options", in option syntax (``tap,id=net0,ifname=tap0``;
``,,`` is a comma) or as a JSON object, as libvirt writes them
(``{"type":"tap","fds":"33","vhost":true,"vhostfds":"35","id":"hostnet0"}``): ``-netdev`` with the
``-device`` that names it, ``-nic``, and the older ``-net nic`` with ``-net tap``. What was plugged
in later is not in a command line.
"""

from __future__ import annotations

import json
import re

from nictop.probe.inventory.guests.values import mac_or_none, small_number
from nictop.probe.kernel.patterns import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

MAX_NICS = 64
"""Of one guest."""
VFIO_DEVICES = ("vfio-pci", "vfio-pci-nohotplug")
"""hw/vfio/pci.c"""
FULL_ADDRESS = pattern(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
SHORT_ADDRESS = pattern(r"[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-7]", re.ASCII)
SMP_LEVELS = ("sockets", "dies", "clusters", "cores", "threads")
"""Their product is the number of virtual CPUs if ``cpus`` is not given."""


class CommandNic:
    """One NIC of the command line."""

    def __init__(self, backend: dict[str, str], device: dict[str, str]) -> None:
        self.name = device.get("id") or backend.get("id", "")
        self.model = device.get("driver") or None
        self.address = mac_or_none(device.get("mac") or device.get("macaddr", ""))
        self.backend = backend.get("type") or None
        self.tap_name = backend.get("ifname", "")
        self.path = backend.get("vhostdev", "")
        self.chardev = backend.get("chardev", "")
        self.descriptors = tuple(numbers(backend.get("fds") or backend.get("fd", "")))
        """Of the emulator: those of taps and macvtaps that another program has opened for it."""
        self.mtu = small_number(device.get("host_mtu", ""))
        self.queues = queue_pairs(backend, len(self.descriptors))
        self.vhost = uses_vhost(backend) if self.backend in ("tap", "bridge") else None


class QemuCommand:
    """What one command line says."""

    def __init__(self, command: str) -> None:
        arguments = command.split("\0")
        pairs = [
            (option.lstrip("-"), value)
            for option, value in zip(arguments, arguments[1:])
            if option.startswith("-")
        ]
        self.uuid = last_value(pairs, "uuid")
        self.id = last_value(pairs, "id")
        self.vcpus = virtual_cpus(last_value(pairs, "smp"))
        self.max_vcpus = small_number(options(last_value(pairs, "smp"), "cpus").get("maxcpus", ""))
        devices = [options(value, "driver") for option, value in pairs if option == "device"]
        chardevs = [options(value, "backend") for option, value in pairs if option == "chardev"]
        self._sockets = {one.get("id", ""): one.get("path", "") for one in chardevs}
        found = [*netdevs(pairs, devices), *short_nics(pairs), *old_nics(pairs)]
        self.nics = tuple(map(self._with_path, found[:MAX_NICS]))
        self.functions = tuple(given_functions(devices))[:MAX_NICS]
        """(id, PCI address) of each function that it was given by VFIO."""

    def _with_path(self, nic: CommandNic) -> CommandNic:
        nic.path = nic.path or self._sockets.get(nic.chardev, "")
        return nic


def last_value(pairs: Iterable[tuple[str, str]], name: str) -> str:
    """The last one counts, as for QEMU; "": not given."""
    return next((value for option, value in reversed(list(pairs)) if option == name), "")


def options(value: str, first: str) -> dict[str, str]:
    """Keys with texts of QEMU's option syntax or a JSON object, in which true and false become on
    and off. `first`: the key of a first part without one (``tap,…``)."""
    if value.startswith("{"):
        return json_options(value)
    found: dict[str, str] = {}
    for position, part in enumerate(value.replace(",,", "\0").split(",")):
        key, separator, text = part.replace("\0", ",").partition("=")
        if position == 0 and not separator:
            found[first] = key
        else:
            found[key] = text
    return found


def json_options(value: str) -> dict[str, str]:
    """{} for anything but an object; members that are no scalars are left out."""
    try:
        decoded: Any = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, str] = {}
    for key, member in decoded.items() if isinstance(decoded, dict) else ():
        if isinstance(member, bool):
            found[key] = "on" if member else "off"
        elif isinstance(member, (str, int)):
            found[key] = str(member)
    return found


def netdevs(
    pairs: Iterable[tuple[str, str]], devices: Iterable[dict[str, str]]
) -> Iterator[CommandNic]:
    """``-netdev`` and the ``-device`` that names it."""
    backends = {}
    for option, value in pairs:
        if option == "netdev":
            backend = options(value, "type")
            backends[backend.get("id", "")] = backend
    for device in devices:
        backend = backends.get(device.get("netdev", ""), {})
        if "netdev" in device and backend:
            yield CommandNic(backend, device)


def short_nics(pairs: Iterable[tuple[str, str]]) -> Iterator[CommandNic]:
    """``-nic tap,model=virtio-net-pci,mac=…``: backend and device in one option."""
    for option, value in pairs:
        both = options(value, "type") if option == "nic" else {}
        if both.get("type", "none") != "none":
            yield CommandNic(both, {"driver": both.get("model", ""), "mac": both.get("mac", "")})


def old_nics(pairs: Iterable[tuple[str, str]]) -> Iterator[CommandNic]:
    """``-net nic,macaddr=… -net tap,ifname=…``. All of them are connected by one hub: only if there
    is one of each do they belong together."""
    found = [options(value, "type") for option, value in pairs if option == "net"]
    cards = [one for one in found if one.get("type") == "nic"]
    backends = [one for one in found if one.get("type") not in ("nic", "none")]
    if len(cards) == 1 and len(backends) == 1:
        yield CommandNic(backends[0], {**cards[0], "driver": cards[0].get("model", "")})


def given_functions(devices: Iterable[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """``-device vfio-pci,host=01:10.2`` or ``sysfsdev=/sys/bus/pci/devices/0000:01:10.2``."""
    for device in devices:
        if device.get("driver") in VFIO_DEVICES:
            path = device.get("sysfsdev", "").rstrip("/")
            address = full_address(device.get("host") or path.rpartition("/")[2])
            if address is not None:
                yield device.get("id", ""), address


def full_address(text: str) -> str | None:
    """``0000:01:10.2`` of ``01:10.2``; None: no address of a PCI function."""
    lower = text.lower()
    if FULL_ADDRESS.fullmatch(lower):
        return lower
    if not SHORT_ADDRESS.fullmatch(lower):
        return None
    bus, _, rest = lower.partition(":")
    slot, _, function = rest.partition(".")
    return f"0000:{bus:>02}:{slot:>02}.{function}"


def numbers(text: str) -> Iterator[int]:
    """``33:34:35``; parts that are no numbers are names of descriptors, and left out."""
    for part in text.split(":")[:MAX_NICS]:
        number = small_number(part)
        if number is not None:
            yield number


def queue_pairs(backend: dict[str, str], descriptors: int) -> int | None:
    """net/tap.c: one, ``queues``, or as many as there are descriptors; vhost-user: ``queues``."""
    if backend.get("type") not in ("tap", "vhost-user"):
        return None
    return small_number(backend.get("queues", "")) or max(1, descriptors)


def uses_vhost(backend: dict[str, str]) -> bool:
    """net/tap.c, net_init_tap_one: ``vhost``, else that a descriptor of vhost is given or that it
    is forced."""
    if backend.get("vhost"):
        return backend["vhost"] == "on"
    has_descriptor = bool(backend.get("vhostfd") or backend.get("vhostfds"))
    return has_descriptor or backend.get("vhostforce") == "on"


def virtual_cpus(value: str) -> int | None:
    """``-smp 4``, ``cpus=4,…``, or the product of ``sockets``, ``cores``, … ; without the option
    there is one, but in a machine type that asks for more: None."""
    found = options(value, "cpus") if value else {}
    cpus = small_number(found.get("cpus", ""))
    if cpus is not None:
        return cpus
    product = None
    for level in SMP_LEVELS:
        number = small_number(found.get(level, ""))
        if number:
            product = number * (product or 1)
    return product
