"""Random records of the probe for fuzzing: any value that the field types allow, in a few fields or
in all of them.

Driven by the annotations of the record classes, so that a new field is included without a change
here. All randomness comes from the `Random` that the caller passes.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import lru_cache
from random import Random
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")

INTEGERS = (
    0,
    1,
    2,
    3,
    4,
    5,
    8,
    16,
    64,
    100,
    254,
    1500,
    9000,
    10000,
    0x8086,
    -1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
)
FLOATS = (0.0, 1e-9, 0.1, 0.5, 1.0, 60.0, 86400.0, 1e12, 1e300, -1.0)
TEXTS = (
    *(
        "",
        "0",
        "1",
        "0-3",
        "0-1,3",
        "f",
        "ff,ffffffff",
        "00000000",
        "up",
        "down",
        "4294967295",
        "on",
        "<MAC>",
    ),
    *(
        "enp1s0",
        "ens192",
        "ens224",
        "eth0",
        "enp59s0f0",
        "vmbr0",
        "lo",
        "a'b; $(c)",
        "x\n\x1b[31m",
        "[bold]",
        "é漢",
    ),
    *(
        "virtio_net",
        "vmxnet3",
        "hv_netvsc",
        "i40e",
        "iavf",
        "igb",
        "e1000e",
        "net_failover",
        "mlx5_core",
        "vfio-pci",
    ),
    *(
        "0000:01:00.0",
        "0000:3b:00.0",
        "0000:3b:02.0",
        "virtio",
        "vmbus",
        "pci",
        "bridge",
        "vlan",
        "bond",
        "vhost",
    ),
    *(
        "192.0.2.10",
        "192.0.2.0/24",
        "2001:db8::1",
        "fe80::1",
        "not an address",
        "52:54:00:00:00:01",
    ),
    *(
        "kvm",
        "vmware",
        "microsoft",
        "proxmox",
        "azure",
        "10000baseT/Full",
        "Autoneg",
        "dadfailed",
        "global",
    ),
    *(
        "NETDEV WATCHDOG: enp1s0 (virtio_net): transmit queue 2 timed out",
        "nf_conntrack: table full, dropping packet",
    ),
    *(
        "vmbr0: received packet on enp59s0f0 with own address as source address",
        "  pkts rx OOB",
        "rx_missed_errors",
    ),
    *(
        "wired connection 1",
        "11111111-1111-4111-8111-111111111111",
        "802-3-ethernet",
        "*",
        "interface-name:en*",
        "!",
    ),
)
MAX_MEMBERS = 3
"""Number of members of a generated tuple or dictionary, exclusive."""


@lru_cache
def fields_of(record: type) -> dict[str, Any]:
    return typing.get_type_hints(record)


def arbitrary(kind: Any, random: Random) -> Any:
    """A random value of any type that occurs in the records."""
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return arbitrary(random.choice(members), random)
    if origin is Literal:
        return random.choice(members)
    if origin is tuple:
        if len(members) == 2 and members[1] is Ellipsis:
            return tuple(
                arbitrary(members[0], random) for _ in range(random.randrange(MAX_MEMBERS))
            )
        return tuple(arbitrary(member, random) for member in members)
    if origin is dict:
        return {
            arbitrary(members[0], random): arbitrary(members[1], random)
            for _ in range(random.randrange(MAX_MEMBERS))
        }
    if dataclasses.is_dataclass(kind):
        record: Any = kind
        return record(**{name: arbitrary(one, random) for name, one in fields_of(record).items()})
    if kind is bool:
        return random.random() < 0.5
    if kind is type(None):
        return None
    pools: dict[Any, tuple[Any, ...]] = {int: INTEGERS, float: FLOATS, str: TEXTS}
    return random.choice(pools[kind])


def mutated(value: T, kind: Any, random: Random, share: float) -> T:
    """`value` with a share (0 to 1) of its parts replaced by arbitrary ones, removed or
    duplicated."""
    if random.random() < share:
        return arbitrary(kind, random)  # type: ignore[no-any-return]
    origin, members = typing.get_origin(kind), typing.get_args(kind)
    changed: Any = value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = fields_of(type(value))
        changed = dataclasses.replace(
            value,
            **{
                name: mutated(getattr(value, name), one, random, share)
                for name, one in hints.items()
            },
        )
    elif isinstance(value, tuple):
        is_variadic = origin is tuple and len(members) == 2 and members[1] is Ellipsis
        inner = [members[0]] * len(value) if is_variadic else members
        if len(inner) == len(value):
            parts = [mutated(one, of, random, share) for one, of in zip(value, inner, strict=True)]
            if is_variadic and parts and random.random() < share:
                parts.append(random.choice(parts)) if random.random() < 0.5 else parts.pop()
            changed = tuple(parts)
    elif isinstance(value, dict) and origin is dict:
        changed = {
            key: mutated(one, members[1], random, share)
            for key, one in value.items()
            if random.random() >= share
        }
    elif origin in (Union, types.UnionType):
        fitting = next((one for one in members if is_of_type(value, one)), None)
        changed = (
            mutated(value, fitting, random, share)
            if fitting is not None and value is not None
            else value
        )
    return changed  # type: ignore[no-any-return]


def is_of_type(value: Any, kind: Any) -> bool:
    """Whether the value belongs to this member of a union."""
    origin = typing.get_origin(kind)
    if origin is Literal:
        return value in typing.get_args(kind)
    return isinstance(value, origin or kind)
