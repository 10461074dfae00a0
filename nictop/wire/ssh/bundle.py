"""The probe's sources packed for the journey to another machine.

Reads the sources of nictop.probe and of the libraries that its inventory uses, where they are installed here; yields
the text that the remote Python executes (`probe.journey`) and three frames for it: what the first counters need, what
the running probe needs, and the rest. What changes a host is among them only for a host that allows it. Made once per
process. The first frame decides how soon the first numbers come: comments, docstrings and annotations are left out of
it, and line numbers stay what they are. A Python there that
reads the same byte code as this one, or as another one that is installed here (``python3.13`` in PATH), gets that in
place of sources for what every probe runs: compiling it would be half of all the work until the first inventory.
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
from dataclasses import dataclass
from functools import cached_property
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path

from nictop.errors import NictopError
from nictop.probe.inventory.collect import READERS

FIRST = "nictop.probe.protocol.hello"
RUNNING = ("nictop.probe.__main__", "nictop.probe.counters.reader")
INVENTORY = (
    "nictop.probe.inventory.child",
    *(f"nictop.probe.inventory.{module}" for _, module in READERS.values()),
    *(f"nictop.probe.inventory.configuration.{name}" for name in ("ifupdown", "netplan", "networkd", "sriov", "udev")),
)
"""What it imports by a name that it puts together stands here, too."""
MAGIC = MAGIC_NUMBER.hex()
"""Of the byte code that this Python writes and reads."""
MARSHAL = 2
"""Version of the format of a frame: every Python reads it."""
JOURNEY = "nictop.probe.bootstrap"
VOCABULARY = "nictop/probe/records/"
"""The running probe names these in annotations only."""
CHANGES = "nictop/probe/changes/"
LIBRARIES: dict[str, re.Pattern[str]] = {
    "jeepney": re.compile(r"^jeepney/(tests/|io/(tests/|asyncio|trio)|bindgen)"),
}
"""Library → files that nobody needs there: bindings to other event loops, tests."""
IMPORT = re.compile(r"^( *)(?:from (nictop[\w.]*) import ([\w, ]+|\()|import (nictop[\w.]*))", re.MULTILINE)

_packing = threading.Lock()

Sources = dict[str, str]
"""Module path, ``nictop/probe/inventory/links/reader.py`` → source."""


@dataclass(frozen=True)
class Bundle:
    """Ready to be sent: `start`, then each of `frames`."""

    start: bytes
    """zlib-compressed source of the journey, whose length the remote command line names."""
    parts: tuple[Sources, ...]
    """What is in each frame."""
    often: frozenset[str]
    """Paths of what every probe runs."""

    @cached_property
    def frames(self) -> tuple[bytes, ...]:
        """All as sources."""
        return (self._first, *self._rest({}))

    @cached_property
    def _first(self) -> bytes:
        return frame({path: bare(text) for path, text in self.parts[0].items()}, 9)

    @property
    def first(self) -> bytes:
        """All that the first counters need."""
        return self.start + self._first

    @property
    def rest(self) -> bytes:
        return b"".join(self.frames[1:])

    @cached_property
    def compiled(self) -> bytes:
        """`rest` for a Python that reads the same byte code as this one."""
        return b"".join(self._rest({path: compiled(path, text) for path, text in self._common.items()}))

    @property
    def _common(self) -> Sources:
        return {path: text for part in self.parts[1:] for path, text in part.items() if path in self.often}

    def _rest(self, common: Mapping[str, str | bytes]) -> Iterator[bytes]:
        for part in self.parts[1:]:
            yield frame({path: common.get(path, text) for path, text in part.items()})

    @cached_property
    def _by_magic(self) -> dict[str, bytes]:
        return {}

    def rest_for(self, version: str, magic: str) -> bytes:
        """`rest` for Python `version` (3.13.5), whose byte code has the magic number `magic` in hexadecimal; "" when it
        is not known. Takes some tenths of a second the first time; threads may ask at the same time."""
        with _packing:
            if magic not in self._by_magic:
                self._by_magic[magic] = self._made_for(version, magic)
            return self._by_magic[magic]

    def _made_for(self, version: str, magic: str) -> bytes:
        if magic == MAGIC:
            return self.compiled
        codes = compiled_elsewhere(self._common, version, magic) if magic else {}
        return b"".join(self._rest(codes)) if codes else self.rest


def bundle(*, allow_changes: bool = False) -> Bundle:
    """Of this very nictop. Raises NictopError when its sources cannot be read. Threads that ask at the same time wait
    for the same one. `allow_changes`: with the part that changes hosts."""
    with _packing:
        packed = _bundle(allow_changes)
        packed.first  # noqa: B018  made now: this much is sent at once
        return packed


@functools.lru_cache(maxsize=2)
def _bundle(allow_changes: bool) -> Bundle:
    try:
        own = {path: text for path, text in _package("nictop.probe") if allow_changes or not path.startswith(CHANGES)}
        root = find_spec("nictop")
        assert root is not None and root.origin is not None
        own["nictop/__init__.py"] = Path(root.origin).read_text("utf-8")
        libraries = {path: text for library in LIBRARIES for path, text in _package(library)}
    except (OSError, UnicodeDecodeError) as error:
        raise NictopError(f"the probe's own sources cannot be read: {error}", "install nictop anew") from error
    first = closure(own, [FIRST], everywhere=False)
    running = closure(own, RUNNING[:1], everywhere=False) | closure(own, RUNNING[1:], everywhere=True)
    running = {path for path in running if not path.startswith(VOCABULARY)}
    journey = own.pop(path_of(own, JOURNEY))
    return Bundle(
        zlib.compress(bare(journey).encode(), 9),
        (
            {path: own[path] for path in sorted(first)},
            {path: own[path] for path in sorted(running - first)},
            {path: text for path, text in (own | libraries).items() if path not in first | running},
        ),
        frozenset(running | closure(own, INVENTORY, everywhere=True) | set(libraries)),
    )


def frame(modules: Mapping[str, str | bytes], level: int = 6) -> bytes:
    """As `probe.journey` reads it: path → source, or byte code as `compiled` makes it."""
    packed = zlib.compress(marshal.dumps(dict(modules), MARSHAL), level)
    return struct.pack(">I", len(packed)) + packed


def compiled(path: str, source: str) -> bytes:
    """Byte code without docstrings and assertions."""
    return marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=2))


ELSEWHERE = """
import marshal, sys
from importlib.util import MAGIC_NUMBER
sources = marshal.loads(sys.stdin.buffer.read())
if MAGIC_NUMBER.hex() == sys.argv[1]:
    made = {p: marshal.dumps(compile(s, p, "exec", dont_inherit=True, optimize=2)) for p, s in sources.items()}
    sys.stdout.buffer.write(marshal.dumps(made, 2))
"""
"""What another Python of this machine runs to do the same as `compiled`."""
COMPILE_SECONDS = 5.0


def compiled_elsewhere(sources: Sources, version: str, magic: str) -> dict[str, bytes]:
    """Byte code with that magic number, made by a Python of the same minor version in PATH; {} without one."""
    python = shutil.which("python" + ".".join(version.split(".")[:2]))
    if python is None:
        return {}
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", ELSEWHERE, magic],
            input=marshal.dumps(sources, MARSHAL),
            capture_output=True,
            timeout=COMPILE_SECONDS,
            check=True,
        )
        made: dict[str, bytes] = marshal.loads(done.stdout) if done.stdout else {}
    except (OSError, subprocess.SubprocessError, ValueError, EOFError, TypeError):
        return {}
    return made


def closure(sources: Sources, modules: Iterable[str], *, everywhere: bool) -> set[str]:
    """Paths of `modules`, of what importing them imports, and of the packages around those.

    `everywhere`: imports inside functions count as well.
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = path_of(sources, module)
        if not path or path in found:
            continue
        found.add(path)
        waiting += [module.rpartition(".")[0]] if "." in module else []
        waiting += imported(sources[path], everywhere=everywhere)
    return found


def imported(source: str, *, everywhere: bool) -> Iterator[str]:
    """Names of nictop that `source` imports at its top level, or `everywhere`; some may be no modules."""
    for indent, package, names, module in IMPORT.findall(source):
        if everywhere or not indent:
            yield package or module
            for name in names.split(",") if package else ():
                yield f"{package}.{name.strip().partition(' ')[0]}"  # without "as"


def path_of(sources: Sources, module: str) -> str:
    """The file of a module, "" when it has none among `sources`."""
    stem = module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in sources), "")


def bare(source: str) -> str:
    """`source` without comments, docstrings and the annotations of functions; each line keeps its number.

    The text is cut, not written anew: what a newer Python would write, an older one might not read.
    """
    lines = source.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    data = bytearray(b"\n".join(lines))
    cuts = sorted(_superfluous(ast.parse(source), starts, bytes(data)), reverse=True)
    for begin, end, instead in cuts:
        data[begin:end] = instead + b"\n" * data.count(b"\n", begin, end)
    text = re.sub(r"^ *#.*$", "", data.decode(), flags=re.MULTILINE)
    return re.sub(r"^ +", lambda indent: " " * (len(indent[0]) // 4), text, flags=re.MULTILINE)


def _superfluous(tree: ast.AST, starts: list[int], source: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(begin, end, what to put there), in bytes of the source; none within another."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield _span(node.body[0], starts)[0], _span(node.body[-1], starts)[1], b"pass"
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield *_span(node, starts), b'""'
        elif isinstance(node, ast.arg) and node.annotation is not None:
            name_end = starts[node.lineno - 1] + node.col_offset + len(node.arg.encode())
            yield name_end, _span(node.annotation, starts)[1], b""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.value is not None:
            yield _span(node.target, starts)[1], _span(node.annotation, starts)[1], b""
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            begin, end = _span(node.returns, starts)
            yield source.rindex(b"->", 0, begin), end, b""


def _span(node: ast.expr | ast.stmt, starts: list[int]) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _package(name: str) -> Iterator[tuple[str, str]]:
    """(path, source) of every module of an installed package; nothing when it is not installed."""
    specification = find_spec(name)
    for place in (specification.submodule_search_locations or ()) if specification is not None else ():
        base = Path(place)
        prefix = name.replace(".", "/")
        unwanted = LIBRARIES.get(name)
        for file in sorted(base.rglob("*.py")):
            path = f"{prefix}/{file.relative_to(base).as_posix()}"
            if unwanted is None or not unwanted.match(path):
                yield path, file.read_text("utf-8")
