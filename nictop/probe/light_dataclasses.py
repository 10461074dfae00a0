"""A small `dataclasses`, of which a class costs a hundredth of the processor time.

The standard module compiles six methods for each class: half of a start of nictop, and of an
inventory; on a watched host it loads `inspect`, too. Here a class gets methods that are compiled
already, and its own `__init__` only when it is used often. What `dataclasses.fields`,
`dataclasses.is_dataclass` and msgspec look at is made when it is asked for.

It does what nictop needs of a dataclass: fields in order, defaults, `frozen`, `eq`, `kw_only`,
`slots`, `__post_init__`, ``==``, `hash`, `repr`, `replace`; neither `ClassVar` nor `InitVar`.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, field, replace
    from typing import Any

__all__ = [
    "FrozenInstanceError",
    "dataclass",
    "field",
    "field_mapping",
    "field_values",
    "replace",
    "set_field",
]

COMPILE_AFTER = 50
"""Calls of the common `__init__` of a class: compiling its own takes as long."""
FIELDS_ATTRIBUTE = "__dataclass_fields__"
"""Where the standard module, and msgspec, find the fields of a class."""
CONTINUATION = "__post_init__"
MISSING: Any = object()


class FrozenInstanceError(AttributeError):
    pass


class Default:
    """What `field` returns. `make`: makes the default value anew for each record."""

    def __init__(self, value: Any, make: Callable[[], Any] | None, *, compare: bool = True) -> None:
        self.value, self.make, self.compare = value, make, compare

    @property
    def new(self) -> Any:
        return self.value if self.make is None else self.make()


def make_field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    compare: bool = True,
) -> Any:
    return Default(default, default_factory, compare=compare)


def make_dataclass(
    cls: type | None = None,
    *,
    frozen: bool = False,
    eq: bool = True,
    kw_only: bool = False,
    slots: bool = False,
) -> Any:
    """Class decorator, with or without arguments. Bases that are dataclasses give their fields
    first. `slots`: the class is another one, whose objects have neither a `__dict__`, which takes
    several times the memory of the fields, nor weak references."""
    if cls is None:
        return lambda decorated: make_dataclass(
            decorated, frozen=frozen, eq=eq, kw_only=kw_only, slots=slots
        )
    attributes = vars(cls)
    own = attributes.get("__annotations__", {})
    names: list[str] = []
    by_name: set[str] = set()
    defaults: dict[str, Default] = {}
    for base in reversed(cls.__bases__):
        if base is not object:
            names += [name for name in getattr(base, "_names", ()) if name not in names]
            by_name.update(getattr(base, "_by_name", ()))
            defaults.update(getattr(base, "_defaults", {}))
    names += [name for name in own if name not in names] if names else own
    if kw_only:
        by_name.update(own)
    for name in own:
        if name in attributes:
            defaults[name] = _default(name, attributes[name])
    values = _getter(names)
    made = {
        "_names": tuple(names),
        "_by_name": by_name,
        "_defaults": defaults,
        "_values": values,
        FIELDS_ATTRIBUTE: FIELDS,
    }
    if "__repr__" not in attributes:
        made["__repr__"] = _repr
    if frozen:
        made["__setattr__"] = made["__delattr__"] = _refuse
    if slots:
        made["__reduce__"] = _reduce
        cls = _with_slots(cls, own, made)
        made = {}
    else:
        _set_class_attributes(cls, own, defaults)
    if eq:
        made.update(_comparison(cls, names, defaults, values, frozen=frozen))
    made["__init__"] = _initialiser(cls, names, defaults, by_name, frozen=frozen)
    for name, value in made.items():
        setattr(cls, name, value)
    return cls


def copy_with(record: Any, **changes: Any) -> Any:
    """A copy with other values; raises TypeError for a field that there is not."""
    return type(record)(**{**field_mapping(record), **changes})


def field_mapping(record: Any) -> dict[str, Any]:
    """Name → value of each field, in order, as `vars` has them of an object without slots, and of
    one that is no record. For JSON, too: ``json.dumps(record, default=field_mapping)``."""
    kind = type(record)
    names = getattr(kind, "_names", None)
    if names is None:
        attributes: dict[str, Any] = vars(record)
        return attributes
    return dict(zip(names, kind._values(record)))


def field_values(record: Any) -> tuple[Any, ...]:
    """The values of all fields, in order."""
    values: tuple[Any, ...] = type(record)._values(record)
    return values


set_field = object.__setattr__
"""Takes a frozen record that nobody else has yet, the name of a field, and its value."""


def _default(name: str, given: Any) -> Default:
    if isinstance(given, Default):
        return given
    if type(given).__hash__ is None:
        raise ValueError(f"mutable default {type(given)} for field {name}: use default_factory")
    return Default(given, None)


def _with_slots(cls: type, names: Any, made: dict[str, Any]) -> type:
    """Another class, with the attributes `made`, too: then that is cheaper than later."""
    attributes = {name: value for name, value in vars(cls).items() if name not in names}
    attributes.pop("__dict__", None)
    attributes.pop("__weakref__", None)
    attributes.update(made, __slots__=tuple(names), __qualname__=cls.__qualname__)
    return type(cls)(cls.__name__, cls.__bases__, attributes)


def _set_class_attributes(cls: type, names: Any, defaults: dict[str, Default]) -> None:
    """A default is an attribute of the class, if it is the same for each record."""
    for name in defaults.keys() & names:
        given = vars(cls).get(name)
        if not isinstance(given, Default):
            continue
        if given.value is MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, given.value)


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Function of a record: the values of these fields."""
    if not names:
        return _no_values
    if len(names) > 1:
        return attrgetter(*names)
    first = attrgetter(names[0])
    return lambda record: (first(record),)


def _no_values(record: Any) -> tuple[Any, ...]:
    return ()


def _initialiser(
    cls: Any, names: list[str], defaults: dict[str, Default], by_name: set[str], *, frozen: bool
) -> Callable[..., None]:
    """The `__init__` that needs no compiling; it replaces itself. `by_name`: fields that cannot be
    given by position."""
    positional, ordered = names, tuple(names)
    if by_name:
        positional = [name for name in names if name not in by_name]
        ordered = (*positional, *(name for name in names if name in by_name))
    known = frozenset(names)
    is_continued = hasattr(cls, CONTINUATION)
    calls = 0

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == COMPILE_AFTER:
            cls.__init__ = _compiled_initialiser(
                ordered, defaults, len(positional), frozen=frozen, is_continued=is_continued
            )
        if len(values) > len(positional) or not known.issuperset(named):
            raise TypeError(
                f"{cls.__name__}: {len(values)} values and {sorted(named)} for {ordered}"
            )
        for name, value in zip(ordered, values):
            if name in named:
                raise TypeError(f"{cls.__name__}: {name} is given twice")
            set_field(self, name, value)
        for name in ordered[len(values) :]:
            if name in named:
                set_field(self, name, named[name])
            elif name in defaults:
                set_field(self, name, defaults[name].new)
            else:
                raise TypeError(f"{cls.__name__}: {name} is missing")
        if is_continued:
            getattr(self, CONTINUATION)()

    return __init__


def _compiled_initialiser(
    names: tuple[str, ...],
    defaults: dict[str, Default],
    positional: int,
    *,
    frozen: bool,
    is_continued: bool,
) -> Any:
    """The `__init__` of one class; the names are those of its source, never of a host.
    `positional`: how many of them can be given by position."""
    arguments = ["_self"]
    statements = []
    space: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    for number, name in enumerate(names):
        if number == positional:
            arguments.append("*")
        value = name
        default = defaults.get(name)
        if default is None:
            arguments.append(name)
        elif default.make is None:
            arguments.append(f"{name}=_default_{name}")
            space[f"_default_{name}"] = default.value
        else:
            arguments.append(f"{name}=_missing")
            space[f"_make_{name}"] = default.make
            value = f"_make_{name}() if {name} is _missing else {name}"
        statements.append(
            f" _set(_self, {name!r}, {value})" if frozen else f" _self.{name} = {value}"
        )
    if is_continued:
        statements.append(f" _self.{CONTINUATION}()")
    source = [f"def __init__({', '.join(arguments)}):", *statements, " return None"]
    exec("\n".join(source), space)
    return space["__init__"]


def _comparison(
    cls: type,
    names: list[str],
    defaults: dict[str, Default],
    values: Callable[[Any], tuple[Any, ...]],
    *,
    frozen: bool,
) -> dict[str, Any]:
    """``==``, and the hash of what cannot change. `values`: those of all fields."""
    ignored = [name for name in defaults if not defaults[name].compare]
    if ignored:
        values = _getter([name for name in names if name not in ignored])

    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not cls:
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in field_mapping(self).items())
    return f"{type(self).__qualname__}({fields})"


def _reduce(self: Any) -> Any:
    """For `copy` and `pickle`, which cannot set the fields of a frozen record."""
    return _made_again, (type(self), field_mapping(self))


def _made_again(kind: Any, values: dict[str, Any]) -> Any:
    return kind(**values)


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


class LazyFields:
    """The attribute `FIELDS_ATTRIBUTE`: made by the standard module when it is first asked for."""

    def __init__(self) -> None:
        self._kind: Any = None
        """See `_kind_of_fields`; None: not asked for yet."""

    def __get__(self, record: Any, cls: Any) -> Any:
        owner = next(base for base in cls.__mro__ if vars(base).get(FIELDS_ATTRIBUTE) is self)
        setattr(owner, FIELDS_ATTRIBUTE, _standard_fields(owner, self._kind_of_fields()))
        return getattr(cls, FIELDS_ATTRIBUTE)

    def _kind_of_fields(self) -> Any:
        """That of a field that is no ClassVar: the standard module has no public name for it, only
        each class that it makes."""
        if self._kind is None:
            import dataclasses

            sample: Any = type("Sample", (), {"__annotations__": {"value": int}})
            fields = getattr(dataclasses.dataclass(sample), FIELDS_ATTRIBUTE)
            self._kind = fields["value"]._field_type
        return self._kind


FIELDS = LazyFields()


def _standard_fields(cls: Any, kind: Any) -> Any:
    """The fields as the standard module describes them: it would make a whole class for that."""
    import dataclasses

    annotations: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotations.update(vars(base).get("__annotations__", {}))
    own = vars(cls)
    described = {}
    for name in cls._names:
        made: Any = dataclasses.field(**_standard_default(own["_defaults"].get(name)))
        made.name, made.type, made.kw_only = name, annotations[name], name in own["_by_name"]
        made._field_type = kind
        described[name] = made
    return described


def _standard_default(default: Default | None) -> dict[str, Any]:
    """Arguments of `dataclasses.field`."""
    if default is None:
        return {}
    if default.make is None:
        return {"default": default.value, "compare": default.compare}
    return {"default_factory": default.make, "compare": default.compare}


if not TYPE_CHECKING:
    dataclass, field, replace = make_dataclass, make_field, copy_with
