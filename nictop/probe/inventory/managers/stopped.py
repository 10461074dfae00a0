"""NetworkManager and systemd-networkd if they are installed but not running → `StoppedManager`.

On hosts with systemd (/run/systemd/system) reads the unit files below /usr/lib, /lib and /etc, the
links that enable them and, for NetworkManager, the profiles on disk (keyfiles and ifcfg files: only
names, MAC addresses and methods are passed on). Nothing is read for a manager that runs.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from nictop.probe.inventory.configuration.collect import IFCFG_LEFTOVERS
from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.configuration.ifupdown import parse_assignments, parse_ifcfg
from nictop.probe.inventory.managers.networkmanager_conf import NO_VALUES, parse_settings
from nictop.probe.kernel.sysfs import printable_path
from nictop.probe.records import ConfigurationEntry, StoppedManager, Unreadable

NETWORK_MANAGERS: tuple[tuple[Literal["NetworkManager", "systemd-networkd"], str], ...] = (
    ("NetworkManager", "NetworkManager"),
    ("systemd-networkd", "systemd-network"),
)
"""Name, also of the unit, and comm, which the kernel truncates to 15 bytes."""
ETHERNET_TYPES = ("ethernet", "802-3-ethernet", "infiniband")
"""``connection.type``, and the names of the sections with the MAC address."""
KEYFILE_METHODS = {"auto": ("dhcp4",), "manual": ("static",)}
"""``ipv4.method`` → `ConfigurationEntry.methods`."""
KEYFILE_SUFFIX = ".nmconnection"
MAX_DISK_PROFILES = 500


def read_stopped_managers(
    names: Collection[str], *, etc: str = "/etc", run: str = "/run", usr: str = "/usr"
) -> tuple[tuple[StoppedManager, ...], Unreadable | None]:
    """(Managers, why the first unreadable file could not be read). `names`: comm of all processes,
    also of other network namespaces: a manager that runs there is not stopped. Never raises
    OSError."""
    if not os.path.isdir(os.path.join(run, "systemd/system")):
        return (), None
    files, found = Files(), []
    for name, comm in NETWORK_MANAGERS:
        if comm in names:
            continue
        state = unit_state(f"{name}.service", etc, usr)
        if state is None:
            continue
        profiles: tuple[ConfigurationEntry, ...] = ()
        if name == "NetworkManager":
            profiles = tuple(profiles_on_disk(files, etc, run, usr))
        found.append(StoppedManager(name, state, profiles))
    return tuple(found), next(iter(files.unreadable.values()), None)


def unit_state(unit: str, etc: str, usr: str) -> Literal["enabled", "disabled", "masked"] | None:
    """As ``systemctl is-enabled``; None: there is no such unit."""
    own = os.path.join(etc, "systemd/system")
    if os.path.realpath(os.path.join(own, unit)) == "/dev/null":
        return "masked"
    directories = (
        own,
        os.path.join(usr, "lib/systemd/system"),
        os.path.join(usr, "../lib/systemd/system"),
    )
    if not any(os.path.isfile(os.path.join(directory, unit)) for directory in directories):
        return None
    if glob.glob(os.path.join(glob.escape(own), "*.wants", unit)):
        return "enabled"
    return "disabled"


def profiles_on_disk(files: Files, etc: str, run: str, usr: str) -> Iterator[ConfigurationEntry]:
    """Profiles for Ethernet and InfiniBand that connect automatically."""
    paths: list[str] = []
    for root in (etc, run, os.path.join(usr, "lib")):
        paths += files.listed(
            os.path.join(root, "NetworkManager/system-connections"), KEYFILE_SUFFIX
        )
    scripts = files.listed(os.path.join(etc, "sysconfig/network-scripts"))
    paths += [path for path in scripts if os.path.basename(path).startswith("ifcfg-")]
    for path in paths[:MAX_DISK_PROFILES]:
        text = files.text(path)
        if not text or path.endswith(IFCFG_LEFTOVERS):
            continue
        parse = parse_keyfile if path.endswith(KEYFILE_SUFFIX) else parse_ifcfg_on_boot
        entry = parse(text, printable_path(path))
        if entry is not None:
            yield entry


def parse_ifcfg_on_boot(text: str, file: str) -> ConfigurationEntry | None:
    """None: it is not brought up at boot, or not by NetworkManager."""
    if parse_assignments(text).get("ONBOOT", "yes").lower() in NO_VALUES:
        return None
    entry = parse_ifcfg(text, file)
    if entry is None or entry.ignores or not entry.methods:
        return None
    return entry


def parse_keyfile(text: str, file: str) -> ConfigurationEntry | None:
    """nm-settings-keyfile(5). None: a profile of another type, or one that does not connect
    automatically."""
    settings = parse_settings(text)

    def value(sections: Iterable[str], key: str) -> str:
        found = [one.value for one in settings if one.section in sections and one.key == key]
        return found[-1] if found else ""

    if value(("connection",), "type") not in ETHERNET_TYPES:
        return None
    if value(("connection",), "autoconnect").lower() in NO_VALUES:
        return None
    name = value(("connection",), "interface-name")
    address = value(ETHERNET_TYPES, "mac-address").lower()
    if not name and not address:
        name = "*"
    return ConfigurationEntry(
        owner="other",
        file=file,
        line=1,
        names=(name,) if name else (),
        addresses=(address,) if address else (),
        methods=KEYFILE_METHODS.get(value(("ipv4",), "method"), ()),
    )
