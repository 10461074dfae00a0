"""The rule for all code of the probe: what is sent to Python 3.6 uses nothing that a newer Python
brought.

Checked in the syntax, in the names, and by the interpreters that are installed here
(`.ci/old-pythons`). Other tests run whole probes with them: `tests/wire/ssh/test_bundle.py`,
`tests/probe/traffic`, `tests/probe/changes`.
"""

from __future__ import annotations

import ast
import json
import marshal
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from nictop.wire.ssh.bundle import bundle, stripped_source
from tests.support.namespaces import ROOT
from tests.support.probe import PYTHONS, interpreter, python_parameters

OLDEST = "python3.6"
OLDEST_GRAMMAR = (3, 7)
"""Oldest grammar that `ast` of every supported Python knows; annotations apart, it is that of
Python 3.6."""
NAMES_FILE = Path(__file__).parent.parent / "data" / "python3.6-names.json"
NEWER_ARGUMENTS = {
    "Popen": ("text", "user", "group", "extra_groups", "umask", "pipesize", "process_group"),
    "run": (
        "capture_output",
        "text",
        "user",
        "group",
        "extra_groups",
        "umask",
        "pipesize",
        "process_group",
    ),
    "check_output": ("text", "user", "group", "extra_groups", "umask", "pipesize", "process_group"),
    "zip": ("strict",),
    "sum": ("start",),
    "pow": ("base", "exp", "mod"),
    "hex": ("sep", "bytes_per_sep"),
    "glob": ("root_dir", "dir_fd", "include_hidden"),
    "iglob": ("root_dir", "dir_fd", "include_hidden"),
    "set_wakeup_fd": ("warn_on_full_buffer",),
    "unlink": ("missing_ok",),
    "sha256": ("usedforsecurity",),
    "namedtuple": ("defaults",),
}
"""Function or method → keyword arguments that Python 3.6 does not have."""

COMPUTED_NAMES = frozenset(("capget", "capset", "prctl", "sha256", "syscall"))
"""Of a library that is opened, and of a module that is imported by a computed name."""

Names = Mapping[str, frozenset[str]]
"""Module → its names in Python 3.6; "": attributes of all built-in types and of the classes of
these modules."""


@lru_cache
def sent_modules() -> dict[str, str]:
    """Path → source as it is sent to Python 3.6."""
    parts = bundle(allow_changes=True, allow_workload=True).stripped.parts
    bootstrap = ROOT / "nictop/probe/bootstrap.py"
    modules = {"nictop/probe/bootstrap.py": stripped_source(bootstrap.read_text())}
    return modules | {path: text for part in parts for path, text in part.items()}


PATHS = sorted(sent_modules())


# --------------------------------------------------------------------------------- syntax and names


@pytest.mark.parametrize("path", PATHS)
def test_the_syntax_is_that_of_python_3_6(path: str) -> None:
    tree = ast.parse(sent_modules()[path], feature_version=OLDEST_GRAMMAR)
    for node in ast.walk(tree):
        assert not isinstance(node, ast.ImportFrom) or node.module != "__future__"
        if isinstance(node, ast.AnnAssign):
            assert isinstance(node.annotation, ast.Constant) and node.annotation.value is None
        elif isinstance(node, ast.arg):
            assert node.annotation is None


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("nictop/")])
def test_every_name_is_one_of_python_3_6(path: str) -> None:
    assert (
        list(newer_names(ast.parse(sent_modules()[path]), names_of_python_3_6(), own_names())) == []
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os\nos.preadv(0, [], 0)", ["2: os.preadv"]),
        ("from os import waitstatus_to_exitcode", ["1: os.waitstatus_to_exitcode"]),
        ("import time\ntime.monotonic_ns()\ntime.monotonic()", ["2: time.monotonic_ns"]),
        ("import contextlib, functools\ncontextlib.nullcontext\nfunctools.cached_property", 2),
        ("import shlex\nshlex.join([])\n''.join([])", ["2: shlex.join"]),
        ("def f(text):\n    return text.isascii() or text.removeprefix('a')", 2),
        ("import subprocess\nsubprocess.run([], capture_output=True)", ["2: run(capture_output=)"]),
        ("from typing import Literal", ["1: typing.Literal"]),
        ("import asyncio", ["1: asyncio"]),
        ("b''.hex(':')", ["1: hex(':')"]),
        ("{} | {'a': 1}", ["1: dict |"]),
        ("a = {}\na |= dict.fromkeys('b')", ["2: dict |"]),
        ("from functools import lru_cache\n@lru_cache\ndef f(): pass", ["3: @lru_cache"]),
    ],
)
def test_newer_names_are_found(source: str, found: list[str] | int) -> None:
    lines = list(newer_names(ast.parse(source), names_of_python_3_6(), frozenset()))
    assert lines == found if isinstance(found, list) else len(lines) == found


@pytest.mark.parametrize(
    "source",
    [
        "(a := 1)",
        "def f(a, /): pass",
        "match a:\n case 1: pass",
        "try: pass\nexcept* OSError: pass",
        "f'{a=}'",
        "with (open('a') as a, open('b') as b): pass",
        "@a[0].b\ndef f(): pass",
        "return_ = lambda: (yield)\ndef f():\n return 1, *a",
    ],
)
def test_newer_syntax_is_found(source: str) -> None:
    """By the grammar here where it can, otherwise by the interpreter."""
    python = interpreter(OLDEST)
    try:
        ast.parse(source, feature_version=OLDEST_GRAMMAR)
    except SyntaxError:
        return
    if not python:
        pytest.skip(f"{OLDEST} is not installed, and ast does not find it")
    assert subprocess.run([python, "-c", source], capture_output=True, check=False).returncode


def newer_names(tree: ast.Module, known: Names, own: frozenset[str]) -> Iterator[str]:
    """``LINE: NAME`` of everything that Python 3.6 does not have. `own`: attributes that nictop
    defines."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
            yield from (
                f"{node.lineno}: {one.name}" for one in node.names if not is_known(one.name, known)
            )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            if node.module.partition(".")[0] in ("nictop", "jeepney"):
                continue
            names = known.get(node.module, frozenset())
            yield from (
                f"{node.lineno}: {node.module}.{one.name}"
                for one in node.names
                if one.name not in names | {"*"}
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = modules.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            if module.partition(".")[0] in ("nictop", "jeepney"):
                continue
            if node.attr not in (known.get(module, frozenset()) if module else known[""] | own):
                yield f"{node.lineno}: {module}.{node.attr}"
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            for keyword in node.keywords:
                if keyword.arg in NEWER_ARGUMENTS.get(name, ()):
                    yield f"{node.lineno}: {name}({keyword.arg}=)"
            if name == "hex" and isinstance(node.func, ast.Attribute) and node.args:
                yield f"{node.lineno}: hex({ast.unparse(node.args[0])})"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            if is_dict(node.left) or is_dict(node.right):
                yield f"{node.lineno}: dict |"
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
            if is_dict(node.value):
                yield f"{node.lineno}: dict |"
        elif isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Name) and decorator.id == "lru_cache":
                    yield f"{node.lineno}: @lru_cache"


def is_dict(node: ast.expr) -> bool:
    """An expression that makes a dict."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("dict", "dict.fromkeys")
    return isinstance(node, ast.Dict | ast.DictComp)


def is_known(module: str, known: Names) -> bool:
    return module in known or module.partition(".")[0] in ("nictop", "jeepney")


@lru_cache
def own_names() -> frozenset[str]:
    """Attributes that the modules themselves define: functions, classes, fields, and what is
    assigned."""
    found: set[str] = set()
    for text in sent_modules().values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return frozenset(found) | COMPUTED_NAMES


@lru_cache
def names_of_python_3_6() -> Names:
    return {
        module: frozenset(names) for module, names in json.loads(NAMES_FILE.read_text()).items()
    }


NAMES_SCRIPT = """
import builtins, importlib, json, sys
found = {name: sorted(dir(importlib.import_module(name))) for name in sys.argv[1:]}
members = set()
for module in [builtins] + [sys.modules[name] for name in sys.argv[1:]]:
    for value in vars(module).values():
        if isinstance(value, type):
            members.update(dir(value))
import os, resource, subprocess
process = subprocess.Popen(["true"])
for value in (open(sys.executable, "rb"), sys.stdout, print, lambda: 0, (one for one in ()), sys._getframe(), os.path,
              process, resource.getrusage(resource.RUSAGE_SELF)):
    members.update(dir(value))
process.wait()
found[""] = sorted(members)
json.dump(found, sys.stdout)
"""


def used_modules() -> list[str]:
    """The standard modules that the probe and its libraries import."""
    found: set[str] = set()
    for text in sent_modules().values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return sorted(name for name in found if name.partition(".")[0] not in ("nictop", "jeepney"))


def test_the_table_of_names_is_that_of_a_real_python_3_6() -> None:
    """As far as the probe uses them: what was built without some library has fewer names.
    `dataclasses` is imported only where records are decoded (`nictop.probe.light_dataclasses`)."""
    python = interpreter(OLDEST)
    if not python:
        pytest.skip(f"{OLDEST} is not installed")
    modules = [name for name in used_modules() if name != "dataclasses"]
    done = subprocess.run(
        [python, "-I", "-S", "-c", NAMES_SCRIPT, *modules], capture_output=True, check=True
    )
    real = {module: frozenset(names) for module, names in json.loads(done.stdout).items()}
    real["dataclasses"] = frozenset(("dataclass", "field", "replace"))
    assert set(real) == set(names_of_python_3_6())
    own = {path: text for path, text in sent_modules().items() if path.startswith("nictop/")}
    assert {
        path: list(newer_names(ast.parse(text), real, own_names())) for path, text in own.items()
    } == {path: [] for path in own}


# --------------------------------------------------------------------------------- the interpreters

IMPORT_SCRIPT = """
import importlib, marshal, sys, traceback, zlib
start, sources = marshal.loads(sys.stdin.buffer.read())
exec(zlib.decompress(start))
importer = MemoryImporter(0)
importer._sources.update(sources)
sys.meta_path.insert(0, importer)
for path in sorted(sources):
    importlib.import_module(path[:-3].replace("/", ".").replace(".__init__", ""))
from nictop.probe.counters.softirqs import parse_softirqs
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Address, Line
print(len(sources), Line(pong=None) == Line(), sorted(field_mapping(Address("ipv4", "192.0.2.1", 24, "global", ())))[:2])
try:
    parse_softirqs(b"garbled")
except ValueError:
    frame = traceback.extract_tb(sys.exc_info()[2])[-1]
    print(frame.filename, frame.lineno)
"""


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_every_module_can_be_imported(python: str) -> None:
    """In the form for old Pythons, which newer ones can read as well; a traceback names the file
    and line."""
    packed = bundle(allow_changes=True)
    modules = {path: text for part in packed.stripped.parts for path, text in part.items()}
    done = subprocess.run(
        [python, "-I", "-S", "-W", "error", "-c", IMPORT_SCRIPT],
        input=marshal.dumps((packed.start, modules), 2),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    first, place = done.stdout.decode().splitlines()
    assert first == f"{len(modules)} True ['address', 'created']", first
    file, line = place.split()
    assert file == "nictop/probe/kernel/cpu_columns.py"
    assert "raise ValueError" in (ROOT / file).read_text().splitlines()[int(line) - 1]
