"""Zone files of firewalld (firewalld.zone(5)) → `ConfigurationEntry`. Pure."""

from __future__ import annotations

from nictop.probe.kernel.patterns import pattern
from nictop.probe.records import ConfigurationEntry

INTERFACE = pattern(r"""<interface\s+name\s*=\s*(?:"([^"<>]{1,64})"|'([^'<>]{1,64})')""")
MAX_INTERFACES = 200


def parse_zone(text: str, file: str) -> list[ConfigurationEntry]:
    """One entry with the names of all interfaces of the zone; none: it has no interface."""
    line, names = 0, []
    for number, content in enumerate(without_comments(text).splitlines(), 1):
        for match in INTERFACE.finditer(content):
            line = line or number
            names.append(match[1] or match[2])
    if not names:
        return []
    return [ConfigurationEntry("firewalld", file, line, names=tuple(names[:MAX_INTERFACES]))]


def without_comments(text: str) -> str:
    """XML without comments; their line breaks are kept."""
    parts = []
    rest = text
    while rest:
        before, begin, rest = rest.partition("<!--")
        parts.append(before)
        comment, _, rest = rest.partition("-->") if begin else ("", "", "")
        parts.append("\n" * comment.count("\n"))
    return "".join(parts)
