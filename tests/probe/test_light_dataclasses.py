"""The small `dataclasses` of the probe against the standard module: the same records, the same
errors."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nictop.probe import light_dataclasses

EVERY_RECORD = """
import importlib, json, pkgutil, sys
from nictop.probe import light_dataclasses
if sys.argv[1] == "light":
    light_dataclasses.install()
import dataclasses, nictop.probe
records = {}
for module in pkgutil.walk_packages(nictop.probe.__path__, "nictop.probe."):
    if module.name != "nictop.probe.bootstrap" and not module.name.endswith("__main__"):
        records.update(vars(importlib.import_module(module.name)))
results = {"module": dataclasses.__name__}
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
        other = dataclasses.replace(made, **{first: "another"})
        text = json.dumps(made, default=lambda value: sorted(value) if isinstance(value, frozenset) else vars(value))
        equal, positional = made == record(**given), other == record(*vars(other).values())
        results[name] = [text, repr(made), equal, made == other, positional]
print(json.dumps(results))
"""


def results_of(which: str) -> dict[str, Any]:
    command = [sys.executable, "-c", EVERY_RECORD, which]
    results: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    )
    return results


def test_every_dataclass_of_the_probe_behaves_the_same() -> None:
    light, standard = results_of("light"), results_of("standard")
    assert (light.pop("module"), standard.pop("module")) == (
        "nictop.probe.light_dataclasses",
        "dataclasses",
    )
    assert light == standard
    assert len(light) > 75, "some dataclasses of the probe were not found"
    for name, (_, _, equal, other, positional) in light.items():
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

    return SimpleNamespace(Frozen=Frozen, Open=Open, Wider=Wider, replace=module.replace)


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
    "repr": lambda of: repr(of.Wider("a", (1,))).rpartition(".")[2],
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_behaves_as_with_the_standard_module(case: str) -> None:
    assert failing(lambda: CASES[case](classes(light_dataclasses))) == failing(
        lambda: CASES[case](classes(dataclasses))
    )


def test_a_loaded_standard_module_is_not_replaced() -> None:
    light_dataclasses.install()
    assert sys.modules["dataclasses"] is dataclasses
