"""Finds the configuration files that name or match links, and parses them → `ConfigurationEntry`.

Reads netplan, ifupdown with the files it sources, systemd's .network and .link files with their
drop-ins, udev rules, ifcfg files, cloud-init's network configuration, zones of firewalld, files
that request virtual functions at boot (modprobe.d, tuned, rc.local, units, tmpfiles, sysfs.conf),
and scripts of the administrator that run ethtool (rc.local, units, those of ifupdown and of
dispatchers). Number and bytes are limited (`Files`). A parser is imported when there is a file for
it: few hosts have more than two kinds.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice

from nictop.probe.inventory.configuration.files import Files
from nictop.probe.kernel.sysfs import printable_path
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import ConfigurationEntry, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from nictop.probe.inventory.configuration.ifupdown import SourceDirective

MAX_CONFIGURATION_ENTRIES = 2000
MAX_SOURCED_FILES = 200
"""Of ifupdown's ``source``."""
IFCFG_LEFTOVERS = (
    "~",
    ".bak",
    ".old",
    ".orig",
    ".rpmnew",
    ".rpmsave",
    ".rpmorig",
    ".swp",
    ".template",
)
"""Suffixes that the network scripts ignore as well."""
GENERATED_BY_NETPLAN = "10-netplan-"
"""Start of the names of netplan's files in /run/systemd/network."""
HOOK_DIRECTORIES = (
    *(
        "network/if-pre-up.d",
        "network/if-up.d",
        "NetworkManager/dispatcher.d",
        "NetworkManager/dispatcher.d/pre-up.d",
    ),
    *(
        f"networkd-dispatcher/{state}.d"
        for state in ("routable", "carrier", "configured", "configuring")
    ),
)


class ConfigurationRoots:
    """The directories that contain configuration files."""

    def __init__(
        self, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
    ) -> None:
        self.etc, self.run, self.usr, self.var = etc, run, usr, var

    def by_priority(self, below: str) -> tuple[str, str, str]:
        """Directories by priority: a file in /etc replaces that of the same name in /run, and this
        that in /usr/lib."""
        return (
            os.path.join(self.etc, below),
            os.path.join(self.run, below),
            os.path.join(self.usr, "lib", below),
        )


def read_link_configuration(
    *, etc: str = "/etc", run: str = "/run", usr: str = "/usr", var: str = "/var"
) -> tuple[tuple[ConfigurationEntry, ...], Unreadable | None]:
    """(Entries by file and line, why the first unreadable file could not be read). A missing file
    is no failure."""
    files, roots = Files(), ConfigurationRoots(etc, run, usr, var)
    sources: tuple[Callable[[Files, ConfigurationRoots], Iterable[ConfigurationEntry]], ...] = (
        netplan, ifupdown, ifcfg, cloud_init, networkd, links, udev, zones, modules, sriov_writers,
        hooks
    )  # fmt: skip
    found = list(
        islice(
            chain.from_iterable(source(files, roots) for source in sources),
            MAX_CONFIGURATION_ENTRIES,
        )
    )
    found = [with_time(entry, files) for entry in found]
    found.sort(key=lambda entry: (entry.file, entry.line))
    if not files.unreadable:
        return tuple(found), None
    first = next(iter(files.unreadable.values()))
    others = len(files.unreadable) - 1
    detail = f"{first.detail} and {others} more" if others else first.detail
    return tuple(found), Unreadable(first.reason, detail)


def with_time(entry: ConfigurationEntry, files: Files) -> ConfigurationEntry:
    """Netplan's files, and those that it generates, with the time of their last change."""
    if entry.owner != "netplan" and not os.path.basename(entry.file).startswith(
        GENERATED_BY_NETPLAN
    ):
        return entry
    return replace(entry, modified=files.modified.get(entry.file))


def effective(files: Files, directories: Iterable[str], *suffixes: str) -> list[str]:
    """Paths sorted by file name; for each name that in the first directory that has it."""
    chosen: dict[str, str] = {}
    for directory in directories:
        for path in files.listed(directory, *suffixes):
            chosen.setdefault(os.path.basename(path), path)
    return [chosen[name] for name in sorted(chosen)]


def parser(module: str, name: str) -> Callable[..., Any]:
    """The function ``parse_NAME`` of a module in this package."""
    return getattr(import_module(f"nictop.probe.inventory.configuration.{module}"), f"parse_{name}")  # type: ignore[no-any-return]


def parsed(
    files: Files, paths: Iterable[str], module: str, name: str
) -> Iterator[ConfigurationEntry]:
    """Entries that `parser(module, name)` finds in the files."""
    for path in paths:
        text = files.text(path)
        if text:
            yield from parser(module, name)(text, printable_path(path))


def netplan(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(
        files, effective(files, roots.by_priority("netplan"), ".yaml"), "netplan", "netplan"
    )


def cloud_init(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Without the files of /var/lib/cloud/instances, which are copies of the seed."""
    seeds = os.path.join(roots.var, "lib/cloud/seed")
    paths = [
        os.path.join(roots.etc, "cloud/cloud.cfg"),
        *files.listed(f"{roots.etc}/cloud/cloud.cfg.d", ".cfg"),
    ]
    paths += [os.path.join(seed, "network-config") for seed in files.listed(seeds)]
    return parsed(files, paths, "netplan", "cloud_init")


def ifupdown(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """/etc/network/interfaces, and the files it includes with ``source``, each once."""
    pending = [os.path.join(roots.etc, "network/interfaces")]
    seen: set[str] = set()
    while pending and len(seen) <= MAX_SOURCED_FILES:
        path = pending.pop(0)
        text = None if path in seen else files.text(path)
        seen.add(path)
        if not text:
            continue
        entries, sources = parser("ifupdown", "interfaces")(text, printable_path(path))
        yield from entries
        for source in sources:
            pending += sourced_files(files, roots, source)[:MAX_SOURCED_FILES]


def sourced_files(files: Files, roots: ConfigurationRoots, source: SourceDirective) -> list[str]:
    """Files that match a pattern. An absolute pattern in /etc is applied to `roots.etc`."""
    pattern = source.pattern
    if pattern.startswith("/etc/"):
        pattern = os.path.join(roots.etc, pattern[len("/etc/") :])
    found = sorted(islice(glob.iglob(pattern), MAX_SOURCED_FILES))
    if not source.directory:
        return found
    return [path for directory in found for path in files.listed(directory)]


def ifcfg(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    for directory in ("sysconfig/network-scripts", "sysconfig/network"):
        for path in files.listed(os.path.join(roots.etc, directory)):
            if os.path.basename(path).startswith("ifcfg-") and not path.endswith(IFCFG_LEFTOVERS):
                text = files.text(path)
                entry = parser("ifupdown", "ifcfg")(text, printable_path(path)) if text else None
                if entry is not None:
                    yield entry


def networkd(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return units(files, roots, ".network", "network")


def links(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return units(files, roots, ".link", "link")


def units(
    files: Files, roots: ConfigurationRoots, suffix: str, kind: str
) -> Iterator[ConfigurationEntry]:
    """Unit files with their drop-ins; an empty file, or a link to /dev/null, disables one of lower
    priority."""
    directories = roots.by_priority("systemd/network")
    for path in effective(files, directories, suffix):
        text = files.text(path)
        if not text:
            continue
        name = os.path.basename(path)
        extra = effective(
            files, [os.path.join(directory, f"{name}.d") for directory in directories], ".conf"
        )
        entry = parser("networkd", kind)(
            [text, *filter(None, map(files.text, extra))], printable_path(path)
        )
        if entry is not None:
            yield entry


def udev(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(
        files, effective(files, roots.by_priority("udev/rules.d"), ".rules"), "udev", "udev_rules"
    )


def zones(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Zones of firewalld that an administrator has changed. Often only root may read them: see
    `hooks`."""
    unreadable = dict(files.unreadable)
    yield from parsed(
        files, files.listed(os.path.join(roots.etc, "firewalld/zones"), ".xml"), "firewalld", "zone"
    )
    files.unreadable.clear()
    files.unreadable.update(unreadable)


def modules(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    return parsed(
        files, effective(files, roots.by_priority("modprobe.d"), ".conf"), "sriov", "modprobe"
    )


def sriov_writers(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Files of the administrator that may write sriov_numvfs or, if they are scripts or units, run
    ethtool."""
    etc = roots.etc
    scripts = [os.path.join(etc, name) for name in ("rc.local", "rc.d/rc.local")]
    scripts += files.listed(os.path.join(etc, "systemd/system"), ".service")
    for path in each_once(scripts):
        text = files.text(path)
        if text:
            yield from parser("sriov", "numvfs")(text, printable_path(path))
            yield from parser("ethtool_settings", "script")(text, printable_path(path))
    others = [os.path.join(etc, "sysfs.conf")]
    for directory in ("tmpfiles.d", "sysfs.d"):
        others += files.listed(os.path.join(etc, directory), ".conf")
    for directory in ("tuned", "tuned/profiles"):
        others += [
            os.path.join(profile, "tuned.conf")
            for profile in files.listed(os.path.join(etc, directory))
        ]
    yield from parsed(files, each_once(others), "sriov", "numvfs")


def hooks(files: Files, roots: ConfigurationRoots) -> Iterator[ConfigurationEntry]:
    """Scripts of ifupdown and of dispatchers that may run ethtool. Often only root may read them,
    and few set anything: one that cannot be read does not count as missing configuration."""
    unreadable = dict(files.unreadable)
    for directory in HOOK_DIRECTORIES:
        yield from parsed(
            files, files.listed(os.path.join(roots.etc, directory)), "ethtool_settings", "script"
        )
    files.unreadable.clear()
    files.unreadable.update(unreadable)


def each_once(paths: Iterable[str]) -> list[str]:
    """Without links to others: one rc.local may be a link to the other."""
    return sorted({os.path.realpath(path): path for path in reversed(list(paths))}.values())
