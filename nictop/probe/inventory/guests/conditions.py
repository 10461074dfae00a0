"""What is known of the state of a guest besides that it has a process: `HostedGuest.condition`.

libvirt writes the state of a domain that runs to /run/libvirt/qemu/NAME.xml whenever it changes
(``<domstatus state='paused' reason='user' pid='4242'>``; src/conf/domain_conf.c:
virDomainObjFormat, names of virDomainState), and the memory of one that was saved to
/var/lib/libvirt/qemu/save/NAME.save (src/qemu/qemu_saveimage.c: qemuDomainManagedSavePath). Proxmox
has a lock in the configuration (qm.conf(5)), ``suspended`` after its memory was saved. A container
is paused by the freezer of its cgroup (Documentation/admin-guide/cgroup-v2.rst, cgroup.events). No
manager and no monitor is asked: whether QEMU was paused by others, as by Proxmox, is not known.
"""

from __future__ import annotations

import os
import re

from nictop.probe.inventory.guests.values import small_number
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.light_dataclasses import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nictop.probe.inventory.collect import InventoryRoots
    from nictop.probe.records import HostedGuest

STATUS_DIRECTORY, SAVE_DIRECTORY = "libvirt/qemu", "lib/libvirt/qemu/save"
"""Below /run and below /var."""
STATUS = pattern(r"<domstatus ([^<>]{1,300})>", re.ASCII)
ATTRIBUTE = pattern(r"(state|reason|pid)='([^'<>]{1,64})'", re.ASCII)
STATUS_BYTES = 2048
"""A comment and the element are the beginning."""
MAX_STATUS_FILES = 1024
WITHOUT_CONDITION = ("running", "blocked", "nostate")
"""States of libvirt that are not told: it runs."""
CGROUP_ROOT = "fs/cgroup"
SAVED_BY_LOCK = "suspended"
"""Lock of Proxmox: its memory was saved (qm suspend --todisk)."""


def with_conditions(guests: Iterable[HostedGuest], roots: InventoryRoots) -> list[HostedGuest]:
    """The guests with `condition` and `condition_reason`. Never raises OSError."""
    guests = list(guests)
    of_libvirt: dict[int, tuple[str, str]] = {}
    if any(guest.product == "qemu" and guest.pid is not None for guest in guests):
        of_libvirt = dict(_libvirt_conditions(os.path.join(roots.run, STATUS_DIRECTORY)))
    found = []
    for guest in guests:
        condition, reason = _condition(guest, of_libvirt, roots)
        known = replace(guest, condition=condition, condition_reason=reason)
        found.append(known if condition else guest)
    return found


def _condition(
    guest: HostedGuest, of_libvirt: dict[int, tuple[str, str]], roots: InventoryRoots
) -> tuple[str, str]:
    """("", ""): nothing is known but `HostedGuest.state`."""
    if guest.state == "stopped":
        return ("saved", "") if _is_saved(guest, roots.var) else ("", "")
    if guest.pid is None:
        return "", ""
    if guest.kind == "vm":
        return of_libvirt.get(guest.pid, ("", ""))
    if guest.kind == "container" and _is_frozen(guest.pid, roots):
        return "paused", "frozen by its cgroup"
    return "", ""


def _libvirt_conditions(directory: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Pid of the emulator → (state, reason), of domains that do not simply run."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".xml"))
    except OSError:
        return
    for name in names[:MAX_STATUS_FILES]:
        text = read_text(os.path.join(directory, name), STATUS_BYTES)
        pid, state, reason = parse_status(text if isinstance(text, str) else "")
        if pid is not None and state not in WITHOUT_CONDITION:
            yield pid, (state, reason)


def parse_status(text: str) -> tuple[int | None, str, str]:
    """(Pid, state, reason); pid None: it is no status of a domain."""
    match = STATUS.search(text)
    found = dict(ATTRIBUTE.findall(match[1])) if match is not None else {}
    pid = small_number(found.get("pid", ""))
    return (pid if found.get("state") else None), found.get("state", ""), found.get("reason", "")


def _is_saved(guest: HostedGuest, var: str) -> bool:
    if guest.lock == SAVED_BY_LOCK:
        return True
    is_of_libvirt = guest.kind == "vm" and "/libvirt/" in guest.source
    if not is_of_libvirt or "/" in guest.name:
        return False
    return os.path.lexists(os.path.join(var, SAVE_DIRECTORY, f"{guest.name}.save"))


def _is_frozen(pid: int, roots: InventoryRoots) -> bool:
    """By cgroup v2 (Linux 5.2)."""
    text = read_text(f"{roots.proc}/{pid}/cgroup")
    for line in text.split("\n") if isinstance(text, str) else ():
        if line.startswith("0::/"):
            path = os.path.join(roots.sys, CGROUP_ROOT, line[len("0::/") :], "cgroup.events")
            events = read_text(path)
            return isinstance(events, str) and "frozen 1" in events.split("\n")
    return False
