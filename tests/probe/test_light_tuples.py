"""The small `NamedTuple` of nictop against the one of `typing`: the same tuples, the same
errors."""

from __future__ import annotations

import copy
import pickle
import re
import sys
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from nictop.probe import light_tuples
from tests.support.namespaces import ROOT

SOURCE = '''
class Pair(NamedTuple):
    """Two."""

    name: str
    number: int = 7
    """Of it."""

    @property
    def text(self) -> str:
        return f"{self.name} {self.number}"


class Empty(NamedTuple):
    pass


class Named(Pair):
    """With another text."""

    @property
    def text(self) -> str:
        return "named " + super().text
'''


def classes(module: Any) -> Any:
    made = ModuleType(f"tuples_of_{module.__name__.rpartition('.')[2]}")
    sys.modules[made.__name__] = made
    vars(made)["NamedTuple"] = module.NamedTuple
    exec(SOURCE, vars(made))
    return made


def failing(what: Callable[[], Any]) -> Any:
    """The result, or the kind of exception."""
    try:
        return what()
    except Exception as error:
        return type(error)


CASES: dict[str, Callable[[Any], Any]] = {
    "positional": lambda of: tuple(of.Pair("a", 1)),
    "default": lambda of: tuple(of.Pair("a")),
    "named": lambda of: tuple(of.Pair(number=2, name="a")),
    "mixed": lambda of: tuple(of.Pair("a", number=2)),
    "too many": lambda of: of.Pair("a", 1, 2),
    "too few": lambda of: of.Pair(),
    "twice": lambda of: of.Pair("a", name="b"),
    "unknown": lambda of: of.Pair("a", other=1),
    "attributes": lambda of: (of.Pair("a").name, of.Pair("a").number, of.Pair("a").text),
    "frozen": lambda of: setattr(of.Pair("a"), "name", "b"),
    "no other attributes": lambda of: setattr(of.Pair("a"), "other", "b"),
    "equal": lambda of: of.Pair("a", 1) == ("a", 1) == of.Pair("a", 1) != of.Pair("b", 1),
    "hash": lambda of: hash(of.Pair("a", 1)) == hash(("a", 1)),
    "order": lambda of: of.Pair("a", 1) < of.Pair("a", 2),
    "repr": lambda of: repr(of.Pair("a", 1)),
    "fields": lambda of: (of.Pair._fields, of.Pair._field_defaults, of.Empty._fields),
    "types": lambda of: typing.get_type_hints(of.Pair),
    "doc": lambda of: of.Pair.__doc__,
    "module": lambda of: of.Pair.__qualname__,
    "replace": lambda of: tuple(of.Pair("a")._replace(number=3)),
    "replace an unknown one": lambda of: failing(lambda: of.Pair("a")._replace(x=3)) is not None,
    "asdict": lambda of: of.Pair("a")._asdict(),
    "make": lambda of: repr(of.Pair._make(["a", 2])),
    "empty": lambda of: (tuple(of.Empty()), repr(of.Empty())),
    "subclass": lambda of: (of.Named("a").text, of.Named("a", 2)._replace(name="b").text),
    "copy": lambda of: (copy.copy(of.Pair("a", 1)), copy.deepcopy(of.Pair("a", [1]))),
    "pickle": lambda of: type(pickle.loads(pickle.dumps(of.Pair("a", 1)))).__name__,
    "unpacking": lambda of: [(name, number) for name, number in [of.Pair("a", 1)]],
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_behaves_as_with_typing(case: str) -> None:
    assert failing(lambda: CASES[case](classes(light_tuples))) == failing(
        lambda: CASES[case](classes(typing))
    )


def test_fields_match_by_position() -> None:
    match classes(light_tuples).Pair("a", 1):
        case (name, number):
            assert (name, number) == ("a", 1)
    assert classes(light_tuples).Pair.__match_args__ == ("name", "number")


def test_every_module_of_nictop_uses_it() -> None:
    """The one of typing costs a tenth of a millisecond for each class."""
    standard = re.compile(r"^from typing import (\([^)]*|[^\n(]*)\bNamedTuple\b", re.MULTILINE)
    others = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("nictop/**/*.py")
        if standard.search(path.read_text())
    ]
    assert others == [], "from nictop.probe.light_tuples import NamedTuple"
