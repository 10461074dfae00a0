"""systemd's .network and .link files → `ConfigurationEntry`. Pure. systemd.network(5),
systemd.link(5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nictop.probe.inventory.configuration.ethtool_settings import parse_link_value
from nictop.probe.inventory.routing.resolvers import is_address
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import ConfigurationEntry

TRUE_VALUES = ("yes", "true", "on", "1", "y", "t")
DHCP_METHODS = {
    "ipv4": ("dhcp4",),
    "ipv6": ("dhcp6",),
    "both": ("dhcp4", "dhcp6"),
    "v4": ("dhcp4",),
    "v6": ("dhcp6",),
}


DEFAULT_DESTINATIONS = ("", "0.0.0.0/0", "::/0", "default")
MAIN_TABLES = ("", "main", "254")


class Assignment(NamedTuple):
    """``Key=value`` in a section, and its line number, counted from one."""

    section: str
    key: str
    value: str
    line: int


def parse_unit(text: str) -> list[Assignment]:
    """Assignments of a unit file, without comments; a backslash at the end continues a line."""
    found = []
    section, before, first = "", "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue  # also inside a continued line
        if not before:
            first = number
        if line.endswith("\\"):
            before += line[:-1] + " "
            continue
        line, before = before + line, ""
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            found.append(Assignment(section, "", "", first))
            continue
        key, separator, value = line.partition("=")
        if separator and section:
            found.append(Assignment(section, key.strip(), value.strip(), first))
    return found


def parse_network(texts: Iterable[str], file: str) -> ConfigurationEntry | None:
    """A .network file and its drop-ins, in their order. None: it has no [Match] section."""
    assignments = all_assignments(texts)
    match = match_section(assignments, "Name")
    if match is None:
        return None
    dhcp = last(assignments, "Network", "DHCP").lower()
    methods = list(DHCP_METHODS.get(dhcp, ()))
    if dhcp in TRUE_VALUES:
        methods = ["dhcp4", "dhcp6"]
    if values(assignments, "Network", "Address") or values(assignments, "Address", "Address"):
        methods.append("static")
    is_unmanaged = last(assignments, "Link", "Unmanaged").lower() in TRUE_VALUES
    match = match._replace(methods=tuple(methods), gateways=tuple(gateways(assignments)))
    return match.entry("networkd", file, ignores=is_unmanaged)


def parse_link(texts: Iterable[str], file: str) -> ConfigurationEntry | None:
    """A .link file and its drop-ins. None: it sets no name, no number of virtual functions and
    nothing of ethtool."""
    assignments = all_assignments(texts)
    match = match_section(assignments, "OriginalName")
    name = last(assignments, "Link", "Name") or None
    functions = parse_integer(last(assignments, "Link", "SR-IOVVirtualFunctions"))
    settings: dict[str, int] = {}
    for assignment in assignments:
        if assignment.section == "Link":
            settings.update(parse_link_value(assignment.key, assignment.value))
    sets_nothing = name is None and functions is None and not settings
    if match is None or sets_nothing:
        return None
    return match.entry("link", file, new_name=name, virtual_functions=functions, ethtool=settings)


class MatchSection(NamedTuple):
    """The [Match] section of one file."""

    line: int
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    drivers: tuple[str, ...]
    paths: tuple[str, ...]
    methods: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()

    def entry(
        self,
        owner: str,
        file: str,
        *,
        new_name: str | None = None,
        virtual_functions: int | None = None,
        ignores: bool = False,
        ethtool: dict[str, int] | None = None,
    ) -> ConfigurationEntry:
        return ConfigurationEntry(
            owner="link" if owner == "link" else "networkd",
            file=file,
            line=self.line,
            names=self.names,
            addresses=self.addresses,
            drivers=self.drivers,
            paths=self.paths,
            methods=self.methods,
            new_name=new_name,
            virtual_functions=virtual_functions,
            ignores=ignores,
            ethtool=ethtool or {},
            gateways=self.gateways,
        )


def gateways(assignments: list[Assignment]) -> Iterator[str]:
    """Gateways of default routes in the table main: [Network] Gateway=, and [Route] sections
    without Destination=. What DHCP or a router gives (_dhcp4, _ipv6ra) is no address."""
    for value in values(assignments, "Network", "Gateway"):
        if is_address(value):
            yield value
    for route in route_sections(assignments):
        if route.get("Destination", "") not in DEFAULT_DESTINATIONS:
            continue
        gateway = route.get("Gateway", "")
        if route.get("Table", "") in MAIN_TABLES and is_address(gateway):
            yield gateway


def route_sections(assignments: Iterable[Assignment]) -> list[dict[str, str]]:
    """Key → value of each section [Route]."""
    sections: list[dict[str, str]] = []
    for assignment in assignments:
        if assignment.section != "Route":
            continue
        if not assignment.key:  # a new section
            sections.append({})
        elif sections:
            sections[-1][assignment.key] = assignment.value
    return sections


def match_section(assignments: list[Assignment], name_key: str) -> MatchSection | None:
    """None: there is no [Match] section, which systemd rejects."""
    lines = [assignment.line for assignment in assignments if assignment.section == "Match"]
    if not lines:
        return None
    addresses = [
        *match_words(assignments, "MACAddress"),
        *match_words(assignments, "PermanentMACAddress"),
    ]
    return MatchSection(
        line=lines[0],
        names=tuple(match_words(assignments, name_key)),
        addresses=tuple(address.lower().replace("-", ":") for address in addresses),
        drivers=tuple(match_words(assignments, "Driver")),
        paths=tuple(match_words(assignments, "Path")),
    )


def all_assignments(texts: Iterable[str]) -> list[Assignment]:
    return [assignment for text in texts for assignment in parse_unit(text)]


def values(assignments: Iterable[Assignment], section: str, key: str) -> list[str]:
    """All values of a key that may occur several times; an empty value removes those before it."""
    found: list[str] = []
    for assignment in assignments:
        if (assignment.section, assignment.key) != (section, key):
            continue
        if assignment.value:
            found.append(assignment.value)
        else:
            found.clear()
    return found


def last(assignments: Iterable[Assignment], section: str, key: str) -> str:
    """The last value, which is the effective one; "" without one."""
    return next(reversed(values(assignments, section, key)), "")


def match_words(assignments: Iterable[Assignment], key: str) -> Iterator[str]:
    """Words of the values of a key in [Match]."""
    for value in values(assignments, "Match", key):
        yield from value.split()
