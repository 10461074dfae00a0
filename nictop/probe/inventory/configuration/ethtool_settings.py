"""Lines of configuration files and scripts that run ``ethtool`` → the settings that they store.
Pure.

Names and numbers are those of NetworkManager's profiles (nm-settings-nmcli(5), ethtool setting):
``feature-tso`` 0, ``ring-rx`` 4096, ``channels-combined`` 4, ``eee-enabled`` 0. ethtool(8);
interfaces(5) of Debian's ethtool package (``offload-tso off``) and of ifupdown2 (``tso-offload
off``); systemd.link(5).
"""

from __future__ import annotations

from nictop.probe.inventory.configuration.lines import joined_lines
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import ConfigurationEntry

OPTIONS = {
    "-K": "feature", "--features": "feature", "--offload": "feature",
    "-G": "ring", "--set-ring": "ring",
    "-L": "channels", "--set-channels": "channels",
    "-C": "coalesce", "--coalesce": "coalesce",
    "-A": "pause", "--pause": "pause",
    "--set-eee": "eee",
}  # fmt: skip
LONG_FEATURES = {
    "rx-checksumming": "rx", "tx-checksumming": "tx", "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso", "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro", "large-receive-offload": "lro",
}  # fmt: skip
"""Names of ``ethtool -k``, which ``-K`` accepts, too (ethtool.c, off_flag_def)."""
SWITCHES = {"on": 1, "off": 0, "yes": 1, "no": 0, "true": 1, "false": 0}
CALL = pattern(r"(?<![\w-])ethtool\s+([^|&;#]{1,1000})")
STANZA_OPTION = pattern(r"offload-([a-z]{2,3})\s+(on|off)|([a-z]{2,3})-offload\s+(on|off)")
LINK_KEYS = {
    "ReceiveChecksumOffload": "feature-rx",
    "TransmitChecksumOffload": "feature-tx",
    "TCPSegmentationOffload": "feature-tso",
    "GenericSegmentationOffload": "feature-gso",
    "GenericReceiveOffload": "feature-gro",
    "LargeReceiveOffload": "feature-lro",
    "RxBufferSize": "ring-rx",
    "TxBufferSize": "ring-tx",
    "CombinedChannels": "channels-combined",
    "RxChannels": "channels-rx",
    "TxChannels": "channels-tx",
}
MAX_LINE_CHARS = 4096


Calls = dict[str, dict[str, int]]
"""Interface, "" when it is not literal (``$IFACE``) → settings."""


def parse_ethtool_line(line: str) -> Calls:
    """All calls of ethtool in a line that change settings to values that are literal."""
    if "ethtool" not in line or line.lstrip().startswith(("#", ";")):
        return {}
    found: Calls = {}
    for call in CALL.finditer(line[:MAX_LINE_CHARS].partition(" #")[0]):
        option, *rest = [word.strip("\"'") for word in call[1].split()] or [""]
        if option not in OPTIONS:
            continue
        settings = parse_pairs(OPTIONS[option], rest[1:])
        if settings:
            found.setdefault(literal_name(rest[0]), {}).update(settings)
    return found


def literal_name(word: str) -> str:
    """The name of a link; "": it is in a variable."""
    if set("$%{") & set(word):
        return ""
    return word


def parse_pairs(prefix: str, words: list[str]) -> dict[str, int]:
    """``tso off gso off`` → feature-tso 0, feature-gso 0; up to the first pair that is none."""
    settings = {}
    for name, value in zip(words[::2], words[1::2]):
        number = SWITCHES.get(value, parse_integer(value))
        if number is None:
            break
        settings[setting_name(prefix, name)] = number
    return settings


def setting_name(prefix: str, name: str) -> str:
    if prefix == "feature":
        return f"feature-{LONG_FEATURES.get(name, name)}"
    if (prefix, name) == ("eee", "eee"):
        return "eee-enabled"
    return f"{prefix}-{name}"


def parse_stanza_line(line: str) -> Calls:
    """A line of an ``iface`` stanza: an option for offloads, or calls of ethtool."""
    match = STANZA_OPTION.match(line)
    if match:
        return {"": {f"feature-{match[1] or match[3]}": SWITCHES[match[2] or match[4]]}}
    return parse_ethtool_line(line)


def parse_link_value(key: str, value: str) -> dict[str, int]:
    """A line of the [Link] section of a .link file."""
    name = LINK_KEYS.get(key)
    number = SWITCHES.get(value.lower(), parse_integer(value))
    if name is None or number is None:
        return {}
    return {name: number}


def parse_script(text: str, file: str) -> list[ConfigurationEntry]:
    """Calls of ethtool in a script or unit. Those with a variable for the interface may be for
    any."""
    return [
        ConfigurationEntry("other", file, number, names=(name or "*",), ethtool=settings)
        for number, line in joined_lines(text)
        for name, settings in parse_ethtool_line(line).items()
    ]
