"""The probe's sources, packed to be sent to another machine.

Reads the sources of nictop.probe and of the libraries that its inventory uses, where they are
installed here. Yields the text that the remote Python executes (`probe.bootstrap`) and four frames
for it: what the first counters need, what the running probe needs, the rest, and what plans and
makes changes, which is unpacked only then. The modules that change a host are included only with
`allow_changes`, those that run a command of the user only with `allow_workload`. Made once per
process. The size of the first frame determines the delay of the first counters: comments,
docstrings and annotations are removed from it, line numbers do not change.

A Python older than `MIN_FULL_PYTHON` cannot evaluate type aliases, and Python 3.6 has neither
`typing.Literal` nor ``from __future__ import annotations``: it gets all frames in this form.
Everything else in the modules is valid in Python 3.6 (`tests/probe/test_old_pythons.py`).

A remote Python with the same byte code as this one, or as another one that is installed here
(``python3.13`` in PATH), gets byte code for what every probe runs: compiling it there would be half
of all the work until the first inventory.
"""

from __future__ import annotations

import ast
import functools
import marshal
import re
import shutil
import struct
import subprocess
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import TypeGuard

from nictop.errors import NictopError
from nictop.probe.inventory.collect import READERS
from nictop.probe.light_dataclasses import dataclass
from nictop.wire.ssh.bootstrap_command import FIRST_LINE

FIRST_MODULE = "nictop.probe.protocol.hello"
RUNNING_MODULES = ("nictop.probe.__main__", "nictop.probe.counters.reader")
CONFIGURATION_PARSERS = ("ethtool_settings", "ifupdown", "netplan", "networkd", "sriov", "udev")
INVENTORY_MODULES = (
    "nictop.probe.inventory.child",
    *(f"nictop.probe.inventory.{module}" for _, module in READERS.values()),
    *(f"nictop.probe.inventory.configuration.{name}" for name in CONFIGURATION_PARSERS),
)
"""Includes the modules that the child imports by a computed name."""
BYTECODE_MAGIC = MAGIC_NUMBER.hex()
"""Magic number of this Python's byte code, hexadecimal."""
MARSHAL_VERSION = 2
"""Version of the marshal format of a frame: every Python can read it."""
BOOTSTRAP_MODULE = "nictop.probe.bootstrap"
RUNTIME_TYPING = frozenset(("NamedTuple", "TypeVar"))
"""Names of `typing` that are more than annotations."""
GENERICS = frozenset(
    ("Callable", "Literal", "Mapping", "Optional", "Sequence", "Union", "dict", "list", "tuple")
)
"""Types of which modules define aliases."""
REACH_PATH = "nictop/probe/reach/"
"""Programs that are sent alone (`wire.guests.programs`)."""
RECORDS_PATH = "nictop/probe/records/"
"""The running probe uses these in annotations only."""
PLAN_PATH, CHANGES_PATH = "nictop/probe/plan/", "nictop/probe/changes/"
WORKLOAD_PATH = "nictop/probe/workload/"
MAX_SENT_RESTS = 16
"""Kinds of Python whose modules are stored."""
MIN_FULL_PYTHON = (3, 9)
"""Oldest Python that gets the modules as they are."""
SENT_LIBRARIES: dict[str, re.Pattern[str]] = {
    "jeepney": re.compile(r"^jeepney/(tests/|io/(tests/|asyncio|trio)|bindgen)"),
}
"""Library → files that are not needed there: bindings to other event loops, tests."""
IMPORT_PATTERN = re.compile(
    r"^( *)(?:from (nictop[\w.]*) import ([\w, ]+|\()|import (nictop[\w.]*))", re.MULTILINE
)

_bundle_lock, _rests_lock = threading.Lock(), threading.Lock()
"""Of the bundles, and of what is made of one for a Python: while that is made, other hosts get the
bundle."""

Sources = dict[str, str]
"""Module path, such as ``nictop/probe/inventory/links/reader.py`` → source."""
Cut = tuple[int, int, bytes]
"""(begin, end, replacement) of a part of a source, as byte offsets of it."""
CUT_NODES = (ast.ImportFrom, ast.Expr, ast.arg, ast.AnnAssign, ast.FunctionDef)
"""Kinds of nodes of which something may be cut."""


@dataclass(frozen=True)
class Bundle:
    """To be sent: `start`, then each of `frames`."""

    start: bytes
    """zlib-compressed source of the bootstrap module; its length is part of the remote command
    line."""
    parts: tuple[Sources, ...]
    """The modules of each frame."""
    always_run: frozenset[str]
    """Paths of the modules that every probe runs."""

    @cached_property
    def rest(self) -> bytes:
        """What follows `first`, as sources."""
        return b"".join(self.frames[1:])

    @cached_property
    def frames(self) -> tuple[bytes, ...]:
        """All frames with sources, not byte code."""
        return (self._first, *self._rest({}))

    @cached_property
    def _first(self) -> bytes:
        return packed_frame(
            {path: stripped_source(text) for path, text in self.parts[0].items()}, 9
        )

    @property
    def first(self) -> bytes:
        """What is sent with the command: `FIRST_LINE`, the bootstrap module and the frame for the
        first counters."""
        return FIRST_LINE + self.start + self._first

    @property
    def first_frame_bytes(self) -> int:
        return len(self._first)

    @cached_property
    def compiled(self) -> bytes:
        """`rest` as byte code of this Python."""
        return b"".join(
            self._rest({path: compiled(path, text) for path, text in self._common.items()})
        )

    @property
    def _common(self) -> Sources:
        """Of the parts after the first, the modules that every probe runs."""
        later: Sources = {}
        for part in self.parts[1:]:
            later |= part
        return {path: text for path, text in later.items() if path in self.always_run}

    def _rest(self, common: Mapping[str, str | bytes]) -> Iterator[bytes]:
        for part in self.parts[1:]:
            yield packed_frame({path: common.get(path, text) for path, text in part.items()})

    @cached_property
    def _sent_rests(self) -> dict[tuple[bool, str], bytes]:
        """By whether the Python is older than `MIN_FULL_PYTHON`, and by its magic number."""
        return {}

    def rest_for(self, version: str, magic: str) -> bytes:
        """`rest` for the remote Python `version` (3.13.5), whose byte code has the hexadecimal
        magic number `magic`; "" when that is not known. Takes some tenths of a second at the first
        call; thread-safe."""
        is_old = tuple(map(int, re.findall(r"\d+", version)[:2])) < MIN_FULL_PYTHON
        if not is_magic_of(version, magic):
            magic = ""  # a host can call its Python anything
        with _rests_lock:
            if (is_old, magic) not in self._sent_rests:
                while len(self._sent_rests) >= MAX_SENT_RESTS:
                    self._sent_rests.pop(next(iter(self._sent_rests)))
                self._sent_rests[is_old, magic] = self._build_rest(version, magic, is_old)
            return self._sent_rests[is_old, magic]

    def _build_rest(self, version: str, magic: str, is_old: bool) -> bytes:
        if magic == BYTECODE_MAGIC:
            return self.compiled
        sent = self.stripped if is_old else self
        if not magic:
            return sent.rest
        codes = bytecode_by_other_python(sent._common, version, magic)
        if not codes:
            return sent.rest
        return b"".join(sent._rest(codes))

    @cached_property
    def stripped(self) -> Bundle:
        """The same modules, all in the form of `stripped_source`."""
        parts = tuple(
            {path: stripped_source(text) for path, text in part.items()} for part in self.parts
        )
        return Bundle(self.start, parts, self.always_run)


def bundle(*, allow_changes: bool = False, allow_workload: bool = False) -> Bundle:
    """The bundle of this nictop. Raises NictopError when its sources cannot be read. Thread-safe:
    calls at the same time wait for the same bundle. `allow_changes`: include the modules that
    change hosts; `allow_workload`: those that run a command of the user."""
    with _bundle_lock:
        packed = _bundle(allow_changes, allow_workload)
        packed.first  # noqa: B018  computed now: it is sent at once
        return packed


@functools.lru_cache(maxsize=4)
def _bundle(allow_changes: bool, allow_workload: bool) -> Bundle:
    try:
        own = _own_sources(allow_changes, allow_workload)
        libraries = _library_sources()
    except (OSError, UnicodeDecodeError) as error:
        raise NictopError(
            f"cannot read the files of nictop: {error}", "reinstall nictop"
        ) from error
    first = imports_of(own, [FIRST_MODULE], everywhere=False)
    running = _running_modules(own)
    of_changes = {path for path in own if path.startswith((PLAN_PATH, CHANGES_PATH))}
    bootstrap = own.pop(path_of(own, BOOTSTRAP_MODULE))
    sources = own | libraries
    parts = (
        sorted(first),
        sorted(running - first),
        [path for path in sources if path not in first | running | of_changes],
        sorted(of_changes),
    )
    always_run = running | imports_of(own, INVENTORY_MODULES, everywhere=True) | set(libraries)
    return Bundle(
        zlib.compress(stripped_source(bootstrap).encode(), 9),
        tuple({path: sources[path] for path in part} for part in parts),
        frozenset(always_run),
    )


def _own_sources(allow_changes: bool, allow_workload: bool) -> Sources:
    """Of nictop, without what is never sent, or not to a host that is not to be changed, or on
    which no command is to be run."""
    unsent: tuple[str, ...] = (REACH_PATH,)
    if not allow_changes:
        unsent += (CHANGES_PATH,)
    if not allow_workload:
        unsent += (WORKLOAD_PATH,)
    own = {path: text for path, text in _package("nictop.probe") if not path.startswith(unsent)}
    root = find_spec("nictop")
    assert root is not None and root.origin is not None
    own["nictop/__init__.py"] = Path(root.origin).read_text("utf-8")
    return own


def _library_sources() -> Sources:
    found: Sources = {}
    for library in SENT_LIBRARIES:
        found.update(_package(library))
    return found


def _running_modules(own: Sources) -> set[str]:
    """Paths of the modules that the running probe needs."""
    running = imports_of(own, RUNNING_MODULES[:1], everywhere=False)
    running |= imports_of(own, RUNNING_MODULES[1:], everywhere=True)
    return {path for path in running if not path.startswith(RECORDS_PATH)}


def packed_frame(modules: Mapping[str, str | bytes], level: int = 6) -> bytes:
    """A frame as `probe.bootstrap` reads it: path → source, or byte code made by `compiled`."""
    packed = zlib.compress(marshal.dumps(dict(modules), MARSHAL_VERSION), level)
    return struct.pack(">I", len(packed)) + packed


def compiled(path: str, source: str) -> bytes:
    """Byte code without docstrings and assertions."""
    return marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=2))


COMPILE_SCRIPT = """
import marshal, sys
from importlib.util import MAGIC_NUMBER
sources = marshal.loads(sys.stdin.buffer.read())
if MAGIC_NUMBER.hex() == sys.argv[1]:
    made = {}
    for path, source in sources.items():
        code = compile(source, path, "exec", dont_inherit=True, optimize=2)
        made[path] = marshal.dumps(code)
    sys.stdout.buffer.write(marshal.dumps(made, 2))
"""
"""What another Python of this machine runs to do the same as `compiled`."""
COMPILE_TIMEOUT = 5.0


MAGIC_SCRIPT = "from importlib.util import MAGIC_NUMBER; print(MAGIC_NUMBER.hex())"


def other_python(version: str) -> str:
    """Path of a Python of this machine of the same minor version; "": there is none."""
    return shutil.which("python" + ".".join(version.split(".")[:2])) or ""


def is_magic_of(version: str, magic: str) -> bool:
    """Byte code with that magic number can be made here for the remote Python `version`."""
    if magic == BYTECODE_MAGIC:
        return True
    return bool(magic) and magic == magic_of(other_python(version))


@functools.lru_cache(maxsize=MAX_SENT_RESTS)
def magic_of(python: str) -> str:
    """Magic number of the byte code of a Python of this machine; "": not known. Each is asked once,
    whatever hosts say about theirs."""
    if not python:
        return ""
    try:
        completed = subprocess.run(
            [python, "-I", "-S", "-c", MAGIC_SCRIPT],
            capture_output=True,
            timeout=COMPILE_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return completed.stdout.decode("ascii", "replace").strip()


def bytecode_by_other_python(sources: Sources, version: str, magic: str) -> dict[str, bytes]:
    """Byte code with that magic number, made by a Python of the same minor version in PATH; {} when
    there is none."""
    python = other_python(version)
    if not python:
        return {}
    try:
        completed = subprocess.run(
            [python, "-I", "-S", "-c", COMPILE_SCRIPT, magic],
            input=marshal.dumps(sources, MARSHAL_VERSION),
            capture_output=True,
            timeout=COMPILE_TIMEOUT,
            check=True,
        )
        if not completed.stdout:  # it has another magic number
            return {}
        made: dict[str, bytes] = marshal.loads(completed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, EOFError, TypeError):
        return {}
    return made


def imports_of(sources: Sources, modules: Iterable[str], *, everywhere: bool) -> set[str]:
    """Paths of `modules`, of everything they import, and of the packages that contain them.

    `everywhere`: including imports inside functions.
    """
    found: set[str] = set()
    pending = list(modules)
    while pending:
        module = pending.pop()
        path = path_of(sources, module)
        if not path or path in found:
            continue
        found.add(path)
        parent = module.rpartition(".")[0]
        if parent:
            pending.append(parent)
        pending += imported_names(sources[path], everywhere=everywhere)
    return found


def imported_names(source: str, *, everywhere: bool) -> Iterator[str]:
    """Names of nictop that `source` imports at its top level, or `everywhere`; some may not be
    modules."""
    for indent, package, names, module in IMPORT_PATTERN.findall(source):
        if indent and not everywhere:
            continue
        if not package:
            yield module
            continue
        yield package
        for name in names.split(","):
            yield f"{package}.{name.strip().partition(' ')[0]}"  # without "as"


def path_of(sources: Sources, module: str) -> str:
    """Path of a module in `sources`; "" when it is not there."""
    stem = module.replace(".", "/")
    for path in (f"{stem}.py", f"{stem}/__init__.py"):
        if path in sources:
            return path
    return ""


def stripped_source(source: str) -> str:
    """`source` without comments, docstrings, annotations and type aliases; line numbers do not
    change. Annotated names, which are the fields of classes, and aliases are None.

    The text is cut, not generated from the syntax tree: an older Python might not parse what a
    newer one generates.
    """
    lines = source.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    data = bytearray(b"\n".join(lines))
    cuts = sorted(_cuts(ast.parse(source), starts, bytes(data)), reverse=True)
    for begin, end, instead in cuts:
        missing_lines = data.count(b"\n", begin, end) - instead.count(b"\n")
        data[begin:end] = instead + b"\n" * missing_lines
    text = re.sub(r"^ *#.*$|  # type: ignore.*$", "", data.decode(), flags=re.MULTILINE)
    return re.sub(r"^ +", lambda indent: " " * (len(indent[0]) // 4), text, flags=re.MULTILINE)


def _cuts(tree: ast.AST, starts: list[int], source: bytes) -> Iterator[Cut]:
    """Everything to be cut; the cuts do not overlap."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if _is_for_type_checking(node):
            begin, end = _span(node.body[0], starts)[0], _span(node.body[-1], starts)[1]
            yield begin, end, b"pass"
            pending += node.orelse
            continue
        if _is_type_alias(node):
            yield *_span(node.value, starts), b"None"
            continue
        if isinstance(node, CUT_NODES):
            yield from _cuts_of(node, starts, source)
        pending += ast.iter_child_nodes(node)


def _cuts_of(node: ast.AST, starts: list[int], source: bytes) -> Iterator[Cut]:
    """What is cut of one of the `CUT_NODES`; its children are looked at, too."""
    match node:
        case ast.ImportFrom(module="__future__" | "typing"):
            yield *_span(node, starts), _runtime_import(node)
        case ast.Expr(value=ast.Constant(value=str())):
            yield *_span(node, starts), b'""'
        case ast.arg(annotation=ast.expr() as annotation):
            name_end = starts[node.lineno - 1] + node.col_offset + len(node.arg.encode())
            yield name_end, _span(annotation, starts)[1], b""
        case ast.AnnAssign(target=ast.Name()):
            yield _annotation_cut(node, b":None", starts, source)
        case ast.AnnAssign(value=ast.expr()):
            yield _annotation_cut(node, b"", starts, source)
        case ast.FunctionDef(returns=ast.expr() as returns):
            begin, end = _span(returns, starts)
            begin = source.rindex(b"->", 0, begin)
            yield begin, end, _continued_lines(source, begin, end)


def _runtime_import(node: ast.ImportFrom) -> bytes:
    """What remains of an import from `typing` or `__future__`."""
    names = [alias.name for alias in node.names if alias.name in RUNTIME_TYPING]
    if not names:
        return b"pass"
    return f"from typing import {', '.join(names)}".encode()


def _annotation_cut(node: ast.AnnAssign, instead: bytes, starts: list[int], source: bytes) -> Cut:
    begin, end = _span(node.target, starts)[1], _span(node.annotation, starts)[1]
    return begin, end, instead + _continued_lines(source, begin, end)


def _continued_lines(source: bytes, begin: int, end: int) -> bytes:
    """As many line ends as are cut out, for a statement that continues after them."""
    return b"\\\n" * source.count(b"\n", begin, end)


def _is_for_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    """``if TYPE_CHECKING:``"""
    if not isinstance(node, ast.If):
        return False
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_type_alias(node: ast.AST) -> TypeGuard[ast.Assign]:
    """``Ids = tuple[int, int]``"""
    match node:
        case ast.Assign(value=ast.Subscript(value=ast.Name(id=name))):
            return name in GENERICS
    return False


def _span(node: ast.expr | ast.stmt, starts: list[int]) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    return begin, end


def _package(name: str) -> Iterator[tuple[str, str]]:
    """(path, source) of every module of an installed package; nothing when it is not installed."""
    specification = find_spec(name)
    if specification is None:
        return
    prefix = name.replace(".", "/")
    unwanted = SENT_LIBRARIES.get(name)
    for place in specification.submodule_search_locations or ():
        base = Path(place)
        for file in sorted(base.rglob("*.py")):
            path = f"{prefix}/{file.relative_to(base).as_posix()}"
            if unwanted is None or not unwanted.match(path):
                yield path, file.read_text("utf-8")
