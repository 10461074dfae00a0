"""The small `dataclasses` of nictop against the standard module: the same records, the same
errors."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nictop.probe import light_dataclasses
from nictop.probe.records import BridgeVlan, Unreadable
from tests.support.namespaces import ROOT

EVERY_RECORD = """
import dataclasses, importlib, json, pkgutil, sys
import nictop.probe
from nictop.probe import light_dataclasses
if sys.argv[1] == "standard":
    for name in ("dataclass", "field", "replace"):
        setattr(light_dataclasses, name, getattr(dataclasses, name))
light_dataclasses.COMPILE_AFTER = int(sys.argv[2])
def values(record):
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
records = {}
for module in pkgutil.walk_packages(nictop.probe.__path__, "nictop.probe."):
    if module.name != "nictop.probe.bootstrap" and not module.name.endswith("__main__"):
        records.update(vars(importlib.import_module(module.name)))
def fields(record):
    return [[field.name, field.type, field.default is dataclasses.MISSING, field.compare] for field in dataclasses.fields(record)]
results = {}
for name, record in sorted(records.items()):
    if isinstance(record, type) and record.__module__.startswith("nictop.probe.") and "__eq__" in vars(record):
        given = {}
        while True:
            try:
                made = record(**given)
                break
            except TypeError as error:
                missing = [word for word in record.__annotations__ if word not in given and word in str(error)]
                if not missing:
                    raise
                given[missing[0]] = f"the {missing[0]}"
        first = next(iter(record.__annotations__))
        other = light_dataclasses.replace(made, **{first: "another"})
        text = json.dumps(made, default=lambda value: sorted(value) if isinstance(value, frozenset) else values(value))
        equal, positional = made == record(**given), other == record(*values(other).values())
        results[name] = [text, repr(made), equal, made == other, positional, fields(record)]
print(json.dumps(results))
"""


def results_of(which: str, compile_after: int = 1) -> dict[str, Any]:
    command = [sys.executable, "-c", EVERY_RECORD, which, str(compile_after)]
    results: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    )
    return results


@pytest.fixture(scope="module")
def standard() -> dict[str, Any]:
    return results_of("standard")


@pytest.mark.parametrize("compile_after", [1, 1000])
def test_every_dataclass_of_the_probe_behaves_the_same(
    compile_after: int, standard: dict[str, Any]
) -> None:
    light = results_of("light", compile_after)
    assert light == standard
    assert len(light) > 75, "some dataclasses of the probe were not found"
    for name, (_, _, equal, other, positional, _) in light.items():
        assert (equal, other, positional) == (True, False, True), name


def classes(module: Any) -> SimpleNamespace:
    @module.dataclass(frozen=True)
    class Frozen:
        name: str
        numbers: tuple[int, ...] = ()
        more: dict[str, int] = module.field(default_factory=dict)

    @module.dataclass
    class Open:
        name: str = ""

    @module.dataclass(frozen=True)
    class Wider(Frozen):
        width: int = 3

    @module.dataclass(frozen=True, slots=True)
    class Slots:
        name: str
        width: int = 3
        more: dict[str, int] = module.field(default_factory=dict)

    @module.dataclass(frozen=True, kw_only=True)
    class Named:
        width: int = 3
        name: str = module.field(default="", compare=False)

    @module.dataclass(frozen=True)
    class Mixed(Named):
        first: str
        second: int = 2

    @module.dataclass(eq=False)
    class Continued:
        name: str

        def __post_init__(self) -> None:
            self.name += "!"

    return SimpleNamespace(
        Frozen=Frozen, Open=Open, Wider=Wider, Slots=Slots, Named=Named, Mixed=Mixed,
        Continued=Continued, replace=module.replace, module=module,
    )  # fmt: skip


def mutable_default(module: Any) -> Any:
    class Wrong:
        names: list[str] = []  # noqa: RUF012

    return module.dataclass(Wrong)


def failing(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return [base.__name__ for base in type(error).__mro__]


def _renamed(one: Any) -> Any:
    one.name = "b"
    return one


CASES: dict[str, Callable[[SimpleNamespace], Any]] = {
    "a missing value": lambda of: of.Frozen(),
    "one value too many": lambda of: of.Open("a", "b"),
    "an unknown name": lambda of: of.Open(colour="red"),
    "a value given twice": lambda of: of.Open("a", name="b"),
    "set": lambda of: setattr(of.Frozen("a"), "name", "b"),
    "set an unknown name": lambda of: setattr(of.Frozen("a"), "colour", "b"),
    "delete": lambda of: delattr(of.Frozen("a"), "name"),
    "set in an open one": lambda of: vars(_renamed(of.Open("a"))),
    "replace an unknown name": lambda of: of.replace(of.Frozen("a"), colour="red"),
    "replace": lambda of: vars(of.replace(of.Wider("a"), width=4, name="b")),
    "a default made anew": lambda of: of.Frozen("a").more is not of.Frozen("a").more,
    "hash": lambda of: hash(of.replace(of.Wider("a"), more=0)) == hash(of.Wider("a", (), 0, 3)),
    "in a set": lambda of: len(
        {of.replace(of.Wider("a"), more=0), of.Wider("a", (), 0), of.Wider("b", (), 0)}
    ),
    "hash of an open one": lambda of: hash(of.Open("a")),
    "hash of a list": lambda of: hash(of.Open(["a"])),
    "equal to a subclass": lambda of: of.Frozen("a") == of.Wider("a"),
    "equal to something else": lambda of: of.Frozen("a") == "a",
    "inherited fields come first": lambda of: list(vars(of.Wider("a"))),
    "a class attribute": lambda of: [of.Frozen.numbers, hasattr(of.Frozen, "more"), of.Wider.width],
    "slots": lambda of: [hasattr(of.Slots("a"), "__dict__"), of.Slots.__slots__],
    "set in slots": lambda of: setattr(of.Slots("a"), "name", "b"),
    "name of a class with slots": lambda of: [of.Slots.__name__, of.Slots.__module__],
    "replace in slots": lambda of: of.replace(of.Slots("a"), width=4) == of.Slots("a", 4),
    "hash of slots": lambda of: hash(of.Slots("a", more=0)) == hash(of.Slots("a", 3, 0)),
    "msgspec": lambda of: msgspec.json.decode(b'{"name":"a"}', type=of.Slots) == of.Slots("a"),
    "msgspec without a value": lambda of: msgspec.json.decode(b"{}", type=of.Slots),
    "to JSON": lambda of: msgspec.json.encode([of.Slots("a"), of.Wider("a"), of.Named(width=1)]),
    "only by name": lambda of: of.Named(4),
    "only by name in a base": lambda of: [
        vars(of.Mixed("a", 5)),
        repr(of.Mixed("a", width=9))[-50:],
    ],
    "too many by position": lambda of: of.Mixed("a", 5, 6),
    "not compared": lambda of: [
        of.Named(name="a") == of.Named(name="b"),
        hash(of.Named(name="a")) == hash(of.Named()),
        of.Named() == of.Named(width=1),
    ],
    "standard functions": lambda of: [
        dataclasses.is_dataclass(of.Slots),
        dataclasses.is_dataclass(of.Wider("a")),
        dataclasses.asdict(of.Wider("a")),
        dataclasses.replace(of.Slots("a"), width=4) == of.Slots("a", 4),
        [field.name for field in dataclasses.fields(of.Wider)],
        [(field.name, field.type, field.default) for field in dataclasses.fields(of.Frozen)],
    ],
    "continued": lambda of: of.Continued("a").name,
    "equal by identity": lambda of: of.Continued("a") == of.Continued("a"),
    "a mutable default": lambda of: mutable_default(of.module),
    "repr": lambda of: repr(of.Wider("a", (1,))).rpartition(".")[2],
}


@pytest.mark.parametrize("compile_after", [1, 1000])
@pytest.mark.parametrize("case", CASES)
def test_each_case_behaves_as_with_the_standard_module(
    case: str, compile_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(light_dataclasses, "COMPILE_AFTER", compile_after)
    assert failing(lambda: CASES[case](classes(light_dataclasses))) == failing(
        lambda: CASES[case](classes(dataclasses))
    )


def test_values_of_a_record_with_slots() -> None:
    vlan = BridgeVlan(1, 9)
    assert not hasattr(vlan, "__dict__")
    assert light_dataclasses.field_mapping(vlan) == dataclasses.asdict(vlan)
    assert light_dataclasses.field_values(vlan) == dataclasses.astuple(vlan)
    plain = SimpleNamespace(first=1)
    assert json.loads(json.dumps([plain], default=light_dataclasses.field_mapping)) == [
        {"first": 1}
    ]


def test_a_record_with_slots_can_be_copied() -> None:
    reason = Unreadable("failed", "x")
    assert copy.deepcopy({"a": [reason]}) == pickle.loads(pickle.dumps({"a": [reason]}))


def test_a_class_that_is_used_often_gets_its_own_initialiser() -> None:
    frozen = classes(light_dataclasses).Frozen
    common = frozen.__init__
    for _ in range(light_dataclasses.COMPILE_AFTER):
        assert vars(frozen("a", more={})) == {"name": "a", "numbers": (), "more": {}}
    assert frozen.__init__ is not common
    assert frozen("a", more={}) == frozen("a", (), {})


def test_every_module_of_nictop_uses_it() -> None:
    """The standard one costs half a millisecond for each class."""
    others = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("nictop/**/*.py")
        if re.search(r"^ *(import dataclasses|from dataclasses import .*\bdataclass\b)",
                     path.read_text(), re.MULTILINE)
    ]  # fmt: skip
    assert others == ["nictop/probe/light_dataclasses.py"], "import nictop.probe.light_dataclasses"
