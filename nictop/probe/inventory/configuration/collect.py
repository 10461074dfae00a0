"""Configuration files of a host that name or match links → `ConfigurationEntry`; their text never leaves the host.

Reads netplan, ifupdown with what it sources, systemd's .network and .link files with their drop-ins, udev rules, ifcfg
files, cloud-init's network configuration, and whatever asks for virtual functions at boot: modprobe.d, tuned, rc.local,
units, tmpfiles and sysfs.conf. With bounds on number and bytes (`Files`). A parser is imported when there is a file for
it: few hosts have more than two kinds.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice

from nictop.probe.inventory.configuration.files import Files
from nictop.probe.kernel.sysfs import printable
from nictop.probe.records import ConfigurationEntry, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nictop.probe.inventory.configuration.ifupdown import SourceDirective

MOST_ENTRIES = 2000
MOST_SOURCED = 200
"""Files that ifupdown's ``source`` may name."""
IFCFG_LEFTOVERS = ("~", ".bak", ".old", ".orig", ".rpmnew", ".rpmsave", ".rpmorig", ".swp", ".template")
"""Endings that the network scripts ignore as well."""


class ConfigurationRoots:
    """Roots of the file system's parts."""

    def __init__(self, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var") -> None:
        self.etc, self.run, self.usr, self.var = etc, run, usr, var

    def by_priority(self, below: str) -> tuple[str, str, str]:
        """A directory of which files in /etc hide those of the same name in /run, and these those in /usr/lib."""
        return os.path.join(self.etc, below), os.path.join(self.run, below), os.path.join(self.usr, "lib", below)


def read_link_configuration(
    *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> tuple[tuple[ConfigurationEntry, ...], Unreadable | None]:
    """(Entries by file and line, the first file that could not be read). Missing files are no trouble."""
    files, places = Files(), ConfigurationRoots(etc, run, usr, var)
    sources: tuple[Callable[[Files, ConfigurationRoots], Iterable[ConfigurationEntry]], ...] = (
        netplan, ifupdown, ifcfg, cloud_init, networkd, links, udev, modules, writers
    )  # fmt: skip
    found = list(islice(chain.from_iterable(source(files, places) for source in sources), MOST_ENTRIES))
    found.sort(key=lambda entry: (entry.file, entry.line))
    if not files.unreadable:
        return tuple(found), None
    first = next(iter(files.unreadable.values()))
    others = len(files.unreadable) - 1
    detail = f"{first.detail} and {others} more" if others else first.detail
    return tuple(found), Unreadable(first.reason, detail)


def effective(files: Files, directories: Iterable[str], *endings: str) -> list[str]:
    """Paths by file name, those of the first directory that has the name."""
    chosen: dict[str, str] = {}
    for directory in directories:
        for path in files.listed(directory, *endings):
            chosen.setdefault(os.path.basename(path), path)
    return [chosen[name] for name in sorted(chosen)]


def parser(module: str, name: str) -> Callable[..., Any]:
    """``parse_NAME`` of the module of that name beside this one."""
    return getattr(import_module(f"nictop.probe.inventory.configuration.{module}"), f"parse_{name}")  # type: ignore[no-any-return]


def parsed(files: Files, paths: Iterable[str], module: str, name: str) -> Iterator[ConfigurationEntry]:
    """What `parser` finds in each of the files."""
    for path in paths:
        text = files.text(path)
        if text:
            yield from parser(module, name)(text, printable(path))


def netplan(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(files, effective(files, places.by_priority("netplan"), ".yaml"), "netplan", "netplan")


def cloud_init(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Without the files of /var/lib/cloud/instances: they repeat the seed."""
    seeds = os.path.join(places.var, "lib/cloud/seed")
    paths = [os.path.join(places.etc, "cloud/cloud.cfg"), *files.listed(f"{places.etc}/cloud/cloud.cfg.d", ".cfg")]
    paths += [os.path.join(seed, "network-config") for seed in files.listed(seeds)]
    return parsed(files, paths, "netplan", "cloud_init")


def ifupdown(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """/etc/network/interfaces, and what it names with ``source``, each file once."""
    waiting = [os.path.join(places.etc, "network/interfaces")]
    seen: set[str] = set()
    while waiting and len(seen) <= MOST_SOURCED:
        path = waiting.pop(0)
        text = None if path in seen else files.text(path)
        seen.add(path)
        if not text:
            continue
        entries, sources = parser("ifupdown", "interfaces")(text, printable(path))
        yield from entries
        for source in sources:
            waiting += sourced(files, places, source)[:MOST_SOURCED]


def sourced(files: Files, places: ConfigurationRoots, source: SourceDirective) -> list[str]:
    """Files that a pattern stands for. An absolute one of /etc lies below our root of it."""
    pattern = source.pattern
    if pattern.startswith("/etc/"):
        pattern = os.path.join(places.etc, pattern[len("/etc/") :])
    found = sorted(islice(glob.iglob(pattern), MOST_SOURCED))
    if not source.directory:
        return found
    return [path for directory in found for path in files.listed(directory)]


def ifcfg(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    for directory in ("sysconfig/network-scripts", "sysconfig/network"):
        for path in files.listed(os.path.join(places.etc, directory)):
            if os.path.basename(path).startswith("ifcfg-") and not path.endswith(IFCFG_LEFTOVERS):
                text = files.text(path)
                entry = parser("ifupdown", "ifcfg")(text, printable(path)) if text else None
                if entry is not None:
                    yield entry


def networkd(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return units(files, places, ".network", "network")


def links(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return units(files, places, ".link", "link")


def units(files: Files, places: ConfigurationRoots, ending: str, kind: str) -> Iterator[ConfigurationEntry]:
    """Unit files with their drop-ins; an empty file, or a link to /dev/null, hides one of lower priority."""
    directories = places.by_priority("systemd/network")
    for path in effective(files, directories, ending):
        text = files.text(path)
        if not text:
            continue
        name = os.path.basename(path)
        extra = effective(files, [os.path.join(directory, f"{name}.d") for directory in directories], ".conf")
        entry = parser("networkd", kind)([text, *filter(None, map(files.text, extra))], printable(path))
        if entry is not None:
            yield entry


def udev(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(files, effective(files, places.by_priority("udev/rules.d"), ".rules"), "udev", "udev_rules")


def modules(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(files, effective(files, places.by_priority("modprobe.d"), ".conf"), "sriov", "modprobe")


def writers(files: Files, places: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Files of the administrator that may write sriov_numvfs."""
    etc = places.etc
    paths = [os.path.join(etc, name) for name in ("rc.local", "rc.d/rc.local", "sysfs.conf")]
    for directory, ending in (("systemd/system", ".service"), ("tmpfiles.d", ".conf"), ("sysfs.d", ".conf")):
        paths += files.listed(os.path.join(etc, directory), ending)
    for directory in ("tuned", "tuned/profiles"):
        paths += [os.path.join(profile, "tuned.conf") for profile in files.listed(os.path.join(etc, directory))]
    real = {os.path.realpath(path): path for path in reversed(paths)}  # rc.local is a link to the other one
    return parsed(files, sorted(real.values()), "sriov", "numvfs")
