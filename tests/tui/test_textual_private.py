"""What is used of Textual, Rich and asyncssh beyond their public interface: all of it in two
modules, each listed."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from textual import _callback
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.app import App
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.widget import Widget
from textual.widgets import Input

import nictop
from nictop.tui import textual_private
from nictop.tui.widgets.base import line_compositor, whole_frames

ROOT = Path(nictop.__file__).parent
PRIVATE_MODULES = {
    module.__name__: Path(str(module.__file__))
    for module in (textual_private, whole_frames, line_compositor)
}
"""The second one has the order in which Textual lays out and draws a frame, the third one draws
parts of it."""
LIBRARIES = ("textual", "rich", "asyncssh")
OWN = ("self", "cls", "super()")
OF_THE_STANDARD_LIBRARY = {"_replace"}
"""Of named tuples, documented."""

IMPORTED = {
    "textual._callback",
    "textual._compositor",
    "textual._styles_cache",
    "textual._xterm_parser",
    "textual.keys._character_to_key",
}
"""Private modules, and private names of public ones."""
USED: dict[type, set[str]] = {
    App: {
        "_background_screens",
        "_check_bindings",
        "_close_messages_no_wait",
        "_exception",
        "_exception_event",
        "_filters",
        "_handle_exception",
        "_keymap",
        "_notifications",
        "_refresh_truecolor_filter",
        "_return_code",
        "_screen_stacks",
        "_unnotify",
    },
    LinuxDriver: {
        "_app",
        "_auto_restart",
        "_debug",
        "_file",
        "_get_terminal_size",
        "_must_signal_resume",
        "_run_input_thread",
        "_sigtstp_application",
        "_writer_thread",
    },
    WriterThread: {"_queue"},
    CommandPalette: {
        "_GATHER_COMMANDS_GROUP",
        "_action_command_list",
        "_gather_commands",
        "_select_or_command",
    },
    Input: {"_value"},
    Screen: {
        "_callbacks",
        "_compositor",
        "_compositor_refresh",
        "_dirty_widgets",
        "_get_breakpoint_classes",
        "_layout_widgets",
        "_on_timer_update",
        "_refresh_layout",
        "_screen_resized",
    },
    Widget: {
        "_clear_arrangement_cache",
        "_closing",
        "_layout_required",
        "_layout_updates",
        "_set_dirty",
        "_size",
        "_styles_cache",
    },
    Compositor: {"_dirty_regions", "_regions_to_spans"},
    StylesCache: {"_dirty_lines"},
    DOMNode: {"_attach"},
    ScrollView: {"_scroll_update"},
}
"""Class → its private names that are used."""
DEFINED = {
    "_draw",
    "_draw_views",
    "_drawn",
    "_fill",
    "_filtered_by",
    "_forget_arrangements",
    "_is_frame_due",
    "_has_other_layout",
    "_is_laying_out",
    "_is_layout_due",
    "_ground",
    "_is_framed",
    "_is_plain",
    "_lay_out",
    "_overlaps",
    "_parts",
    "_row",
    "_self",
    "_sizes",
    "_style",
    "_styles",
}
"""Those of the classes that draw frames, and of their modules."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def source_tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


@cache
def private_names(module: str, class_name: str) -> frozenset[str]:
    """Those that a class defines: in its body, or as an attribute of `self` in its methods."""
    found: set[str] = set()
    for kind in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if not isinstance(kind, ast.ClassDef) or kind.name != class_name:
            continue
        for statement in kind.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                found |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for node in ast.walk(kind):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return frozenset(filter(is_private, found))


def library_names(kind: type) -> set[str]:
    """Private names that a class has from the libraries."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in LIBRARIES:
            found |= private_names(base.__module__, base.__name__)
    return found


def private_imports(tree: ast.AST) -> Iterator[str]:
    """``textual._styles_cache``, ``textual.keys._character_to_key``"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            parts = node.module.split(".")
            whole = [node.module] if any(map(is_private, parts)) else []
            names = whole or [f"{node.module}.{one.name}" for one in node.names]
        else:
            continue
        for name in names:
            first, *others = name.split(".")
            if first in LIBRARIES and any(map(is_private, others)):
                yield name


def private_attributes(tree: ast.AST) -> Iterator[str]:
    """Private names of objects other than the own one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        if ast.unparse(node.value) not in OWN and node.attr not in OF_THE_STANDARD_LIBRARY:
            yield node.attr


def own_names(tree: ast.AST) -> set[str]:
    """Private names that a class body uses of itself and of its bases, and that it defines."""
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in OWN
    }
    found |= {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    found |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return set(filter(is_private, found))


def modules_on_the_libraries() -> list[str]:
    """Names of all modules whose source names one of the libraries, imported."""
    found = []
    for one in pkgutil.walk_packages([str(ROOT)], "nictop."):
        path = ROOT.parent.joinpath(*one.name.split("."))
        path = path / "__init__.py" if one.ispkg else path.with_suffix(".py")
        if one.name != "nictop.__main__" and any(
            name in path.read_text("utf-8") for name in LIBRARIES
        ):
            importlib.import_module(one.name)
            found.append(one.name)
    return found


MODULES = modules_on_the_libraries()


def test_the_modules_on_the_libraries_are_looked_at() -> None:
    assert {
        "nictop.tui.app",
        "nictop.tui.driver",
        "nictop.tui.palette",
        "nictop.wire.ssh.connection",
    } <= set(MODULES)


@pytest.mark.parametrize("module", [one for one in MODULES if one not in PRIVATE_MODULES])
def test_no_other_module_uses_a_private_name(module: str) -> None:
    tree = source_tree(str(sys.modules[module].__file__))
    assert list(private_imports(tree)) == []
    assert set(private_attributes(tree)) <= own_names(tree)


@pytest.mark.parametrize("module", [one for one in MODULES if one not in PRIVATE_MODULES])
def test_no_other_class_uses_or_replaces_a_private_name_of_its_bases(module: str) -> None:
    tree = source_tree(str(sys.modules[module].__file__))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            shared = own_names(node) & library_names(getattr(sys.modules[module], node.name))
            assert not shared, f"{node.name}: private in a library"


def test_each_private_name_is_listed() -> None:
    imported, used = set(), set()
    for path in PRIVATE_MODULES.values():
        tree = source_tree(str(path))
        imported |= set(private_imports(tree))
        used |= set(private_attributes(tree)) | own_names(tree)
    assert imported == IMPORTED
    assert used - DEFINED == set.union(*USED.values())


def test_the_signature_of_a_method_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often `call_later` is given the method, of whichever object."""

    class Counter:
        def add(self, one: int, other: int) -> None:
            pass

    made: list[object] = []
    signature = inspect.signature

    def counted(callback: Any) -> inspect.Signature:
        made.append(callback)
        return signature(callback)

    monkeypatch.setattr(_callback, "signature", counted)
    for _ in range(3):
        assert _callback.count_parameters(partial(Counter().add, 1)) == 1
        assert _callback.count_parameters(partial(Counter().add)) == 2
    assert len(made) == 1


def test_names_that_are_defined_here_are_not_those_of_textual() -> None:
    for kind in (Screen, Compositor, StylesCache):
        assert not DEFINED & library_names(kind)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in USED.items() for name in sorted(names)]
)
def test_this_version_has_each_private_name(kind: type, name: str) -> None:
    assert name in library_names(kind)


def test_the_version_is_bounded_and_this_one_is_allowed() -> None:
    declared = re.findall(
        r'^ +"(textual[^"]*)"', (ROOT.parent / "pyproject.toml").read_text("utf-8"), re.MULTILINE
    )
    (textual,) = [Requirement(one) for one in declared if one[7:8] in "<>="]
    bounds = {one.operator for one in textual.specifier}
    assert bounds == {">=", "<"}
    assert version("textual") in textual.specifier
