"""Device lists of NetworkManager.conf.

Reads nothing. NetworkManager.conf(5), "Device List Format", and `match_device_eval` of
nm-core-utils.c: ``*``, ``interface-name:eth*`` (also ``=`` exact and ``~`` pattern), ``mac:…``,
``driver:…`` and ``type:…``; devices that match a spec with ``except:`` are excluded, whatever the
other specs are.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.text import wildcards

TYPES = {
    1: "ethernet",
    2: "wifi",
    9: "infiniband",
    10: "bond",
    11: "vlan",
    13: "bridge",
    14: "generic",
    15: "team",
}
"""NM_DEVICE_TYPE_* → value of ``type:``, as shown by ``nmcli device``."""
TYPES.update(
    {16: "tun", 18: "macvlan", 19: "vxlan", 20: "ethernet", 22: "dummy", 31: "vrf", 32: "loopback"}
)
EXCEPT_PREFIX = "except:"


def matches_device(
    specs: Iterable[str], *, name: str, address: str | None, driver: str | None, kind: int
) -> bool:
    """Whether the list contains the device. `address`: the permanent one, lower case. `kind`:
    NM_DEVICE_TYPE_*."""
    has_exceptions = has_others = is_listed = False
    for spec in specs:
        is_match = spec_matches_device(
            spec.removeprefix(EXCEPT_PREFIX), name, address, driver, kind
        )
        if spec.startswith(EXCEPT_PREFIX):
            has_exceptions = True
            if is_match:
                return False
        else:
            has_others = True
            is_listed = is_listed or is_match
    # a list of exceptions alone is all other devices
    return is_listed or (has_exceptions and not has_others)


def spec_matches_device(
    spec: str, name: str, address: str | None, driver: str | None, kind: int
) -> bool:
    """Whether one spec without ``except:`` matches the device."""
    if spec == "*":
        return True
    tag, colon, value = spec.partition(":")
    match tag + colon:
        case "interface-name:":
            return _is_named(name, value)
        case "mac:":
            return value.lower() == address
        case "driver:":
            return value.partition("/")[0] == driver
        case "type:":
            return TYPES.get(kind) == value
    return spec == name or spec.lower() == address


def _is_named(name: str, value: str) -> bool:
    """``=eth0``: this name; ``eth*``, ``~eth*``: a pattern."""
    if value.startswith("="):
        return value[1:] == name
    return wildcards.matches(name, value.removeprefix("~"), sets=False)
