"""Command lines of other virtual machine monitors: cloud-hypervisor, Firecracker, crosvm. Pure.

Only what they say plainly. cloud-hypervisor (docs/device_model.md): ``--net tap=NAME,mac=…,
num_queues=N,vhost_user=true,socket=PATH …``, several in one option; ``--device path=…``; ``--cpus
boot=N``. Firecracker (docs/jailer.md): ``--id NAME``; its NICs are configured over a socket, so
that only open taps show them. crosvm (``crosvm run --help``): ``--net tap-name=NAME,mac=…``,
``--vfio PATH``, ``--cpus N``.
"""

from __future__ import annotations

import os

from nictop.probe.inventory.guests.qemu_command import (
    CommandNic,
    full_address,
    options,
)
from nictop.probe.inventory.guests.values import small_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRUE_WORDS = ("on", "true")


class MonitorCommand:
    """What one command line says."""

    def __init__(self, product: str, command: str) -> None:
        found = dict_of_options(command)
        self.name = MONITOR_NAMES[product](found)
        self.id = ""
        self.vcpus = boot_cpus((found.get("cpus") or [""])[-1])
        self.nics = tuple(MONITOR_NICS[product](found))
        functions = []
        for value in (*found.get("device", ()), *found.get("vfio", ())):
            path = options(value, "path").get("path", "")
            address = full_address(path.rstrip("/").rpartition("/")[2])
            if address is not None:
                functions.append(("", address))
        self.functions = tuple(functions)


def dict_of_options(command: str) -> dict[str, list[str]]:
    """Name of an option → its values: all words behind it that are no options, or what follows its
    ``=``."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for word in command.split("\0")[1:]:
        if not word.startswith("--"):
            values.append(word)
            continue
        name, separator, value = word[2:].partition("=")
        values = found.setdefault(name, [])
        if separator:
            values.append(value)
    return found


def boot_cpus(value: str) -> int | None:
    """``4``, ``boot=4,max=8`` of cloud-hypervisor, ``num-cores=4`` of crosvm."""
    found = options(value, "boot")
    return small_number(found.get("boot") or found.get("num-cores", ""))


def socket_name(found: dict[str, list[str]]) -> str:
    """``web1`` of ``--api-socket /run/web1.sock``."""
    path = options((found.get("api-socket") or [""])[-1], "path").get("path", "")
    return os.path.splitext(os.path.basename(path))[0]


def given_name(option: str) -> Callable[[dict[str, list[str]]], str]:
    return lambda found: (found.get(option) or [""])[-1]


MONITOR_NAMES: dict[str, Callable[[dict[str, list[str]]], str]] = {
    "cloud-hypervisor": socket_name,
    "firecracker": given_name("id"),
    "crosvm": given_name("name"),
}


def cloud_hypervisor_nics(found: dict[str, list[str]]) -> Iterator[CommandNic]:
    """Queues are counted one by one: two are a pair."""
    for value in found.get("net", ()):
        given = options(value, "tap")
        is_vhost_user = given.get("vhost_user") in TRUE_WORDS
        nic = CommandNic(
            {"type": "vhost-user" if is_vhost_user else "tap", "ifname": given.get("tap", "")},
            {"driver": "virtio-net", "mac": given.get("mac", ""), "id": given.get("id", "")},
        )
        nic.path = given.get("socket", "") or given.get("vhost_socket", "")
        queues = small_number(given.get("num_queues", ""))
        nic.queues = max(1, queues // 2) if queues else 1
        nic.mtu = small_number(given.get("mtu", ""))
        nic.vhost = None
        yield nic


def crosvm_nics(found: dict[str, list[str]]) -> Iterator[CommandNic]:
    values = [options(value, "tap-name") for value in found.get("net", ())]
    values += [{"tap-name": name} for name in found.get("tap-name", ())]
    for given in values:
        nic = CommandNic(
            {"type": "tap", "ifname": given.get("tap-name", "")},
            {"driver": "virtio-net", "mac": given.get("mac", "")},
        )
        nic.vhost = None
        yield nic


def no_nics(found: dict[str, list[str]]) -> Iterator[CommandNic]:
    return iter(())


MONITOR_NICS: dict[str, Callable[[dict[str, list[str]]], Iterator[CommandNic]]] = {
    "cloud-hypervisor": cloud_hypervisor_nics,
    "firecracker": no_nics,
    "crosvm": crosvm_nics,
}
