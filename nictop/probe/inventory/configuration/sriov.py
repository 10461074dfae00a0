"""Who asks for virtual functions at boot, besides network managers → `ConfigurationEntry`. Pure.

Options of modules (``options igb max_vfs=4``, modprobe.d(5)), and lines of shell scripts, units, tuned profiles,
tmpfiles and sysfs.conf that write a ``sriov_numvfs``.
"""

from __future__ import annotations

from typing import NamedTuple

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import ConfigurationEntry

ADDRESS = "[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}[.][0-7]"
PLACE = pattern(rf"class/net/([^/\s\"']+)/device/sriov_numvfs|/({ADDRESS})/sriov_numvfs")
BEFORE = pattern(r"\b(?:echo|printf)\s+(?:-n\s+)?[\"']?([0-9]{1,4})[\"']?[^|&;]{0,200}(?:>|\|)")
BEHIND = pattern(r"sriov_numvfs[\"']?(?:\s*=\s*|\s+-\s+-\s+-\s+(?:-\s+)?)[\"']?([0-9]{1,4})\b")
LONGEST_LINE = 4096


class VfRequest(NamedTuple):
    """A write to ``sriov_numvfs``. `name` or `address` are "" when they are not in the line (variables)."""

    name: str
    address: str
    functions: int | None


def parse_numvfs_line(line: str) -> VfRequest | None:
    """None: it does not write sriov_numvfs, or is a comment."""
    line = line[:LONGEST_LINE]
    if "sriov_numvfs" not in line or line.lstrip().startswith(("#", ";")):
        return None
    place = PLACE.search(line)
    count = BEHIND.search(line) or BEFORE.search(line)
    name, address = (place[1] or "", (place[2] or "").lower()) if place else ("", "")
    if count is None and ">" not in line:
        return None  # it only reads
    return VfRequest("" if "$" in name else name, address, int(count[1]) if count else None)


def parse_numvfs(text: str, file: str) -> list[ConfigurationEntry]:
    """Lines of any file that write sriov_numvfs; a later zero of the same place is a reset, and is left out."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        asked = parse_numvfs_line(line)
        if asked is None or asked.functions == 0:
            continue
        entries.append(
            ConfigurationEntry(
                owner="sriov",
                file=file,
                line=number,
                names=(asked.name,) if asked.name else (),
                paths=(asked.address,) if asked.address else (),
                virtual_functions=asked.functions,
            )
        )
    return entries


def parse_modprobe(text: str, file: str) -> list[ConfigurationEntry]:
    """``options DRIVER … max_vfs=4,4``: the number of the first port stands for all."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if len(words) < 3 or words[0] != "options":
            continue
        for word in words[2:]:
            key, _, value = word.partition("=")
            count = parse_integer(value.split(",")[0])
            if key in ("max_vfs", "num_vfs") and count:
                driver = words[1].replace("-", "_")
                entries.append(ConfigurationEntry("sriov", file, number, drivers=(driver,), virtual_functions=count))
    return entries
