"""NetworkManager and systemd-networkd where they are installed and do not run → `StoppedManager`.

Reads where systemd is what starts daemons (/run/systemd/system): the unit files below /usr/lib, /lib and /etc, what
enables them, and of a NetworkManager that does not run the profiles on disk (keyfiles and ifcfg files: their names, MAC
addresses and methods, nothing else leaves the host). Where both run nothing is read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from nictop.probe.inventory.configuration.collect import IFCFG_LEFTOVERS
from nictop.probe.inventory.configuration.files import Files
from nictop.probe.inventory.configuration.ifupdown import parse_assignments, parse_ifcfg
from nictop.probe.inventory.managers.networkmanager_conf import NO, parse_settings
from nictop.probe.kernel.sysfs import printable
from nictop.probe.records import ConfigurationEntry, StoppedManager, Unreadable

MANAGERS: tuple[tuple[Literal["NetworkManager", "systemd-networkd"], str], ...] = (
    ("NetworkManager", "NetworkManager"),
    ("systemd-networkd", "systemd-network"),
)
"""Name, which is that of the unit as well, and comm, which the kernel cuts at 15 bytes."""
TYPES = ("ethernet", "802-3-ethernet", "infiniband")
HARDWARE = ("ethernet", "802-3-ethernet", "infiniband")
METHODS = {"auto": ("dhcp4",), "manual": ("static",)}
"""``ipv4.method`` → `ConfigurationEntry.methods`."""
KEYFILE = ".nmconnection"
MOST_PROFILES = 500


def read_stopped_managers(
    names: Collection[str], *, etc: str = "/etc", run: str = "/run", usr: str = "/usr"
) -> tuple[tuple[StoppedManager, ...], Unreadable | None]:
    """(Managers, the first file that could not be read). `names`: comm of all processes, of other network namespaces,
    too: one that runs there is not stopped. Never raises OSError."""
    if not os.path.isdir(os.path.join(run, "systemd/system")):
        return (), None
    files, found = Files(), []
    for name, comm in MANAGERS:
        state = None if comm in names else unit_state(f"{name}.service", etc, usr)
        if state is not None:
            profiles = tuple(profiles_on_disk(files, etc, run, usr)) if name == "NetworkManager" else ()
            found.append(StoppedManager(name, state, profiles))
    return tuple(found), next(iter(files.unreadable.values()), None)


def unit_state(unit: str, etc: str, usr: str) -> Literal["enabled", "disabled", "masked"] | None:
    """As ``systemctl is-enabled`` says; None: there is no such unit."""
    own = os.path.join(etc, "systemd/system")
    if os.path.realpath(os.path.join(own, unit)) == "/dev/null":
        return "masked"
    places = (own, os.path.join(usr, "lib/systemd/system"), os.path.join(usr, "../lib/systemd/system"))
    if not any(os.path.isfile(os.path.join(place, unit)) for place in places):
        return None
    wanted = glob.glob(os.path.join(glob.escape(own), "*.wants", unit))
    return "enabled" if wanted else "disabled"


def profiles_on_disk(files: Files, etc: str, run: str, usr: str) -> Iterator[ConfigurationEntry]:
    """Profiles for Ethernet and InfiniBand that connect by themselves."""
    paths: list[str] = []
    for root in (etc, run, os.path.join(usr, "lib")):
        paths += files.listed(os.path.join(root, "NetworkManager/system-connections"), KEYFILE)
    scripts = files.listed(os.path.join(etc, "sysconfig/network-scripts"))
    paths += [path for path in scripts if os.path.basename(path).startswith("ifcfg-")]
    for path in paths[:MOST_PROFILES]:
        text = files.text(path)
        parse = parse_keyfile if path.endswith(KEYFILE) else parse_ifcfg_on_boot
        entry = parse(text, printable(path)) if text and not path.endswith(IFCFG_LEFTOVERS) else None
        if entry is not None:
            yield entry


def parse_ifcfg_on_boot(text: str, file: str) -> ConfigurationEntry | None:
    """None: it is not brought up by itself, or NetworkManager is to leave it alone."""
    entry = parse_ifcfg(text, file)
    on_boot = parse_assignments(text).get("ONBOOT", "yes").lower() not in NO
    return entry if entry is not None and on_boot and not entry.ignores and entry.methods else None


def parse_keyfile(text: str, file: str) -> ConfigurationEntry | None:
    """nm-settings-keyfile(5). None: a profile of another type, or one that connects by hand only."""
    settings = parse_settings(text)

    def value(sections: Iterable[str], key: str) -> str:
        found = [one.value for one in settings if one.section in sections and one.key == key]
        return found[-1] if found else ""

    if value(("connection",), "type") not in TYPES or value(("connection",), "autoconnect").lower() in NO:
        return None
    name, address = value(("connection",), "interface-name"), value(HARDWARE, "mac-address").lower()
    return ConfigurationEntry(
        owner="other",
        file=file,
        line=1,
        names=(name,) if name else () if address else ("*",),
        addresses=(address,) if address else (),
        methods=METHODS.get(value(("ipv4",), "method"), ()),
    )
