"""Zone files of firewalld (firewalld.zone(5)) → `ConfigurationEntry`. Pure."""

from __future__ import annotations

from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import ConfigurationEntry

INTERFACE = pattern(r"""<interface\s+name\s*=\s*(?:"([^"<>]{1,64})"|'([^'<>]{1,64})')""")
COMMENT = pattern(r"<!--.*?-->")
MAX_INTERFACES = 200


def parse_zone(text: str, file: str) -> list[ConfigurationEntry]:
    """One entry with the names of all interfaces of the zone; none: it has no interface."""
    line, names = 0, []
    for number, content in enumerate(text.splitlines(), 1):
        for match in INTERFACE.finditer(COMMENT.sub("", content)):
            line = line or number
            names.append(match[1] or match[2])
    if not names:
        return []
    return [ConfigurationEntry("firewalld", file, line, names=tuple(names[:MAX_INTERFACES]))]
