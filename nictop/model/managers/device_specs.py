"""Device lists of NetworkManager.conf.

Reads nothing. NetworkManager.conf(5), "Device List Format", and `match_device_eval` of nm-core-utils.c: ``*``,
``interface-name:eth*`` (also ``=`` exact and ``~`` pattern), ``mac:…``, ``driver:…`` and ``type:…``; devices that match
a spec with ``except:`` are excluded, whatever the other specs are.
"""

from __future__ import annotations

from collections.abc import Iterable

from nictop.model.text import wildcards

TYPES = {1: "ethernet", 2: "wifi", 9: "infiniband", 10: "bond", 11: "vlan", 13: "bridge", 14: "generic", 15: "team"}
"""NM_DEVICE_TYPE_* → value of ``type:``, as shown by ``nmcli device``."""
TYPES.update({16: "tun", 18: "macvlan", 19: "vxlan", 20: "ethernet", 22: "dummy", 31: "vrf", 32: "loopback"})
EXCEPT_PREFIX = "except:"


def matches_device(specs: Iterable[str], *, name: str, address: str | None, driver: str | None, kind: int) -> bool:
    """Whether the list contains the device. `address`: the permanent one, lower case. `kind`: NM_DEVICE_TYPE_*."""
    only_exceptions, found = True, False
    any_spec = False
    for spec in specs:
        any_spec = True
        exception = spec.startswith(EXCEPT_PREFIX)
        only_exceptions = only_exceptions and exception
        hit = spec_matches_device(spec[len(EXCEPT_PREFIX) :] if exception else spec, name, address, driver, kind)
        if hit and exception:
            return False
        found = found or hit
    return found or (any_spec and only_exceptions)


def spec_matches_device(spec: str, name: str, address: str | None, driver: str | None, kind: int) -> bool:
    """Whether one spec without ``except:`` matches the device."""
    if spec == "*":
        return True
    tag, colon, value = spec.partition(":")
    if colon and tag == "interface-name":
        if value.startswith("="):
            return value[1:] == name
        return wildcards.matches(name, value[1:] if value.startswith("~") else value, sets=False)
    if colon and tag == "mac":
        return address is not None and value.lower() == address
    if colon and tag == "driver":
        return driver is not None and value.partition("/")[0] == driver
    if colon and tag == "type":
        return TYPES.get(kind) == value
    return spec == name or (address is not None and spec.lower() == address)
