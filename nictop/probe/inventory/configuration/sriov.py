"""Files that request virtual functions at boot, other than those of network managers →
`ConfigurationEntry`. Pure.

Module options (``options igb max_vfs=4``, modprobe.d(5)), and lines of shell scripts, units, tuned
profiles, tmpfiles and sysfs.conf that write to ``sriov_numvfs``.
"""

from __future__ import annotations

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry

PCI_ADDRESS_PATTERN = "[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}[.][0-7]"
NUMVFS_PATH = pattern(
    rf"class/net/([^/\s\"']+)/device/sriov_numvfs|/({PCI_ADDRESS_PATTERN})/sriov_numvfs"
)
COUNT_BEFORE_PATH = pattern(
    r"\b(?:echo|printf)\s+(?:-n\s+)?[\"']?([0-9]{1,4})[\"']?[^|&;]{0,200}(?:>|\|)"
)
COUNT_AFTER_PATH = pattern(
    r"sriov_numvfs[\"']?(?:\s*=\s*|\s+-\s+-\s+-\s+(?:-\s+)?)[\"']?([0-9]{1,4})\b"
)
MAX_LINE_CHARS = 4096


class VfRequest(NamedTuple):
    """A write to ``sriov_numvfs``. `name` or `address` are "" when they are not literal in the line
    (variables)."""

    name: str
    address: str
    functions: int | None


def parse_numvfs_line(line: str) -> VfRequest | None:
    """None: the line does not write to sriov_numvfs, or is a comment."""
    line = line[:MAX_LINE_CHARS]
    if "sriov_numvfs" not in line or line.lstrip().startswith(("#", ";")):
        return None
    count = COUNT_AFTER_PATH.search(line) or COUNT_BEFORE_PATH.search(line)
    if count is None and ">" not in line:
        return None  # the file is only read
    name = address = ""
    path = NUMVFS_PATH.search(line)
    if path is not None:
        name, address = path[1] or "", (path[2] or "").lower()
    if "$" in name:
        name = ""
    if count is None:
        return VfRequest(name, address, None)
    return VfRequest(name, address, int(count[1]))


def parse_numvfs(text: str, file: str) -> list[ConfigurationEntry]:
    """Lines of any file that write to sriov_numvfs; a 0 is a reset and is left out."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        request = parse_numvfs_line(line)
        if request is None or request.functions == 0:
            continue
        entries.append(
            ConfigurationEntry(
                owner="sriov",
                file=file,
                line=number,
                names=(request.name,) if request.name else (),
                paths=(request.address,) if request.address else (),
                virtual_functions=request.functions,
            )
        )
    return entries


def parse_modprobe(text: str, file: str) -> list[ConfigurationEntry]:
    """``options DRIVER … max_vfs=4,4``; only the number of the first port is used."""
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
                entries.append(
                    ConfigurationEntry(
                        "sriov", file, number, drivers=(driver,), virtual_functions=count
                    )
                )
    return entries
