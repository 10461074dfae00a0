"""A small `dataclasses` for a process that is only a probe.

The standard module loads `inspect` and compiles methods for each of 80 classes: more than half of
the processor time of an inventory. This one does for the probe's records what the probe needs of
it: fields in order, defaults, ``frozen``, ``==``, `hash`, `repr`, `replace`; fields are in `vars`.
Readers of records, which decode them, use the standard one.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FrozenInstanceError(AttributeError):
    pass


class Default:
    """What `field` returns: the default value of one field, made anew for each record."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def install() -> None:
    """Serve ``import dataclasses`` in this process from now on, unless the standard one is loaded
    already."""
    sys.modules.setdefault("dataclasses", sys.modules[__name__])


def field(*, default_factory: Callable[[], Any]) -> Any:
    return Default(default_factory)


def dataclass(cls: type | None = None, *, frozen: bool = False) -> Any:
    """Class decorator, with or without arguments. Bases that are dataclasses give their fields
    first."""
    if cls is None:
        return lambda decorated: dataclass(decorated, frozen=frozen)
    names: list[str] = []
    defaults: dict[str, Any] = {}
    for base in reversed(cls.__bases__):
        names += [name for name in getattr(base, "_names", ()) if name not in names]
        defaults.update(getattr(base, "_defaults", {}))
    for name in getattr(cls, "__annotations__", {}):
        if name not in names:
            names.append(name)
        if name in cls.__dict__:
            defaults[name] = cls.__dict__[name]
            if isinstance(defaults[name], Default):
                delattr(cls, name)
    made = {
        "_names": tuple(names),
        "_defaults": defaults,
        "__init__": _initialiser(cls.__name__, tuple(names), defaults),
        "__eq__": lambda self, other: (
            vars(self) == vars(other) if other.__class__ is cls else NotImplemented
        ),
        "__hash__": (lambda self: hash(tuple(vars(self).values()))) if frozen else None,
    }
    if "__repr__" not in cls.__dict__:
        made["__repr__"] = _repr
    if frozen:
        made["__setattr__"] = made["__delattr__"] = _refuse
    for name, value in made.items():
        setattr(cls, name, value)
    return cls


def replace(record: Any, **changes: Any) -> Any:
    """A copy with other values; raises TypeError for a field that there is not."""
    return type(record)(**{**vars(record), **changes})


def _initialiser(
    title: str, names: tuple[str, ...], defaults: dict[str, Any]
) -> Callable[..., None]:
    known = frozenset(names)

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        if len(values) > len(names) or not known.issuperset(named):
            raise TypeError(f"{title}: {len(values)} values and {sorted(named)} for {names}")
        own = vars(self)
        own.update(zip(names, values))
        if not own.keys().isdisjoint(named):
            raise TypeError(f"{title}: {sorted(own.keys() & named)} are given twice")
        for name in names[len(values) :]:
            if name in named:
                own[name] = named[name]
            elif name in defaults:
                value = defaults[name]
                own[name] = value.make() if isinstance(value, Default) else value
            else:
                raise TypeError(f"{title}: {name} is missing")

    return __init__


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
    return f"{type(self).__qualname__}({fields})"


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
