"""Parse the words of nmcli into an `Operation`, or reject them with a sentence (ValueError). Pure.

Allowed are the properties of profiles that select a link or set addresses, routes, MTU, ethtool,
SR-IOV, LLDP, VLANs of bridges and bond options other than the mode; adding an Ethernet profile;
activating a profile; and reapplying one to its device. See nmcli(1) and nm-settings-nmcli(5).
"""

from __future__ import annotations

import re

from nictop.probe.plan.grammar.bridges_bonds import BOND_OPTIONS, bond_value
from nictop.probe.plan.grammar.operation import Operation, flattened, link_name

PROFILE_PROPERTY = re.compile(
    r"[+-]?(?:connection\.(?:id|interface-name|autoconnect|autoconnect-priority)"
    r"|ipv[46]\.(?:method|addresses|gateway|dns|never-default|route-metric|may-fail)"
    r"|connection\.lldp|bridge\.vlan-filtering|bridge-port\.vlans|bond\.options"
    r"|802-3-ethernet\.(?:mtu|mac-address)"
    r"|(?:ethtool|sriov)\.[a-z0-9]+(?:-[a-z0-9]+){0,8})",
    re.ASCII,
)
NMCLI_KEYWORDS = frozenset(
    (
        "id",
        "uuid",
        "path",
        "filename",
        "apath",
        "help",
        "type",
        "ifname",
        "ap",
        "nsp",
        "passwd-file",
    )
)
"""Words that nmcli does not take for the name of a profile."""
NMCLI_HELP = "help"
"""nmcli takes any abbreviation for it: ``nmcli con up h`` prints how it is used, with exit code
0."""
MAX_PROFILE_NAME_BYTES = 256
SHORT_FORMS = {"connection": "con", "device": "dev", "modify": "mod"}
NOT_ALLOWED = "nmcli: only con mod, con add, con up and dev reapply are allowed"
UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", re.ASCII)


def parse_nmcli(words: list[str]) -> Operation:
    """``con mod ID PROPERTY VALUE …``, ``con add type ethernet ifname NAME con-name NAME PROPERTY
    VALUE …``, ``con up ID [ifname NAME]`` or ``dev reapply NAME``; also with the long forms of
    ``con``, ``dev`` and ``mod``."""
    area, verb = [*words, "", ""][:2]
    rest = words[2:]
    operation = NMCLI_COMMANDS.get((SHORT_FORMS.get(area, area), SHORT_FORMS.get(verb, verb)))
    if operation is None:
        raise ValueError(NOT_ALLOWED)
    return operation(rest)


def _modify_profile(words: list[str]) -> Operation:
    selector, profile, rest = profile_of(words)
    settings = properties(rest)
    if not settings:
        raise ValueError("nmcli con mod needs at least one property")
    run = ("nmcli", "con", "mod", *selector, *flattened(settings))
    return Operation("profile modify", run, profile, settings, profile=profile)


def _activate_profile(words: list[str]) -> Operation:
    selector, profile, rest = profile_of(words)
    run = ("nmcli", "con", "up", *selector)
    if not rest:
        return Operation("profile up", run, profile, (), profile=profile)
    if len(rest) != 2 or rest[0] != "ifname":
        raise ValueError("nmcli con up: only a profile and ifname NAME are allowed")
    name = link_name(rest[1])
    return Operation("profile up", (*run, "ifname", name), profile, (), name, profile=profile)


def _reapply_profile(words: list[str]) -> Operation:
    if len(words) != 1:
        raise ValueError(NOT_ALLOWED)
    name = link_name(words[0])
    if is_nmcli_keyword(name):
        raise ValueError(f"nmcli would read the interface name {name} as a keyword")
    return Operation("device reapply", ("nmcli", "dev", "reapply", name), name, (), name)


def parse_add(words: list[str]) -> Operation:
    """The words after ``con add``; raises ValueError."""
    keywords = [*words[0:3], *words[4:5]]
    if len(words) < 6 or keywords != ["type", "ethernet", "ifname", "con-name"]:
        raise ValueError(
            "nmcli con add: only type ethernet ifname NAME con-name NAME and properties are allowed"
        )
    interface, profile = link_name(words[3]), profile_name(words[5])
    settings = properties(words[6:])
    if any(key[0] in "+-" for key, _ in settings):
        raise ValueError("nmcli con add: +PROPERTY and -PROPERTY are not allowed")
    run = (
        *("nmcli", "con", "add", "type", "ethernet", "ifname", interface, "con-name", profile),
        *flattened(settings),
    )
    return Operation("profile add", run, profile, settings, interface, profile=profile)


NMCLI_COMMANDS = {
    ("con", "mod"): _modify_profile,
    ("con", "add"): parse_add,
    ("con", "up"): _activate_profile,
    ("dev", "reapply"): _reapply_profile,
}


def profile_of(words: list[str]) -> tuple[tuple[str, ...], str, list[str]]:
    """(words that select the profile, its id or UUID, the words after them). Raises ValueError."""
    if words[:1] in (["id"], ["uuid"]) and len(words) >= 2:
        profile = words[1]
        if words[0] == "uuid" and not UUID.fullmatch(profile):
            raise ValueError(f"{profile!r} is not a UUID")
        if words[0] == "id" and not 0 < len(profile.encode()) <= MAX_PROFILE_NAME_BYTES:
            raise ValueError(f"a profile name must have 1 to {MAX_PROFILE_NAME_BYTES} bytes")
        return (words[0], profile), profile, words[2:]
    if not words:
        raise ValueError("nmcli: profile missing")
    profile = profile_name(words[0])
    return (profile,), profile, words[1:]


def profile_name(word: str) -> str:
    """The word, checked to be one that nmcli takes for the name of a profile. Raises ValueError."""
    if (
        not word
        or is_nmcli_keyword(word)
        or word.startswith("-")
        or len(word.encode()) > MAX_PROFILE_NAME_BYTES
    ):
        raise ValueError(
            f"nmcli would not read {word!r} as a profile name: put id or uuid before it"
        )
    return word


def is_nmcli_keyword(word: str) -> bool:
    return word in NMCLI_KEYWORDS or NMCLI_HELP.startswith(word)


def properties(words: list[str]) -> tuple[tuple[str, str], ...]:
    """(property, value) from alternating words; a property may be repeated (``+ipv4.addresses``).
    Raises ValueError."""
    if len(words) % 2:
        raise ValueError("each property needs one value")
    for name in words[::2]:
        if not PROFILE_PROPERTY.fullmatch(name):
            raise ValueError(f"nictop does not set {name!r}")
    found = tuple(zip(words[::2], words[1::2]))
    for name, value in found:
        if name.endswith("bond.options"):
            check_bond_option(name, value)
    return found


def check_bond_option(name: str, value: str) -> None:
    """``+bond.options KEY=VALUE`` or ``-bond.options KEY`` of an option that a bond takes while it
    is up: another mode would need all ports to be activated again. Raises ValueError."""
    key, equals, setting = value.partition("=")
    if name[0] not in "+-" or bool(equals) != (name[0] == "+") or key not in BOND_OPTIONS:
        raise ValueError(
            f"bond.options: only one of {', '.join(BOND_OPTIONS)} can be added or removed"
        )
    if equals:
        bond_value(key, setting)
