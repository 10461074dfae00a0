"""The other side of the journey: imports nictop and its libraries from memory, on a machine that has neither.

Reads frames from stdin (four bytes of length, then that many of zlib-compressed data: a marshalled mapping of path to
source or byte code of each module). The first one is read at once and holds what `first_words` needs; the others arrive
meanwhile and are taken apart only when a module is asked for that is not in those before them, in the process that
asks: the inventory's part stays compressed in the probe itself. Nothing is written to any disk. This text is itself
executed from memory (see `wire.bundle`).
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
import zlib
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

LARGEST_FRAME = 4 * 1024 * 1024
"""Bytes: what announces more is not ours."""
DESCRIPTOR = 0
PATIENCE = 15
"""Seconds for one frame to arrive; then the process ends by SIGALRM: the connection has gone half-way."""


class MemoryImporter:
    """A finder and loader of modules whose sources are in `frames`, oldest first."""

    def __init__(self, frames: int) -> None:
        self._outstanding = frames
        self._packed: list[bytes] = []
        self._sources: dict[str, str | bytes] = {}
        self.compile = compile_source

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> object:
        """importlib's question; None for what is not in any frame."""
        if name.partition(".")[0] not in OURS:
            return None
        file = name.replace(".", "/")
        for candidate, is_package in ((f"{file}.py", False), (f"{file}/__init__.py", True)):
            if candidate in self._sources:
                return ModuleSpec(name, self, origin=candidate, is_package=is_package)  # type: ignore[arg-type]
        return self.find_spec(name) if self._unpack() else None

    def create_module(self, spec: ModuleSpec) -> None:
        """As importlib does it."""

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), vars(module))

    def get_code(self, name: str) -> CodeType:
        """runpy asks for it too."""
        specification = self.find_spec(name)
        if not isinstance(specification, ModuleSpec) or specification.origin is None:
            raise ImportError(f"no source of {name}")
        module = self._sources[specification.origin]
        if isinstance(module, str):
            return self.compile(specification.origin, module)
        code: CodeType = marshal.loads(module)
        return code

    def take(self) -> None:
        """Read one frame, and keep it as it is. Raises EOFError and ValueError."""
        signal.alarm(PATIENCE)
        self._outstanding -= 1
        size = int.from_bytes(read_exactly(4), "big")
        if size > LARGEST_FRAME:
            raise ValueError(f"a frame of {size} bytes")
        self._packed.append(read_exactly(size))

    def take_all(self) -> None:
        """Read the frames that are still to come: what follows them on stdin are requests."""
        while self._outstanding:
            self.take()

    def _unpack(self) -> bool:
        """Take the next frame apart; False when there is none."""
        if not self._packed:
            if not self._outstanding:
                return False
            self.take()
        self._sources.update(marshal.loads(zlib.decompress(self._packed.pop(0))))
        return True


OURS = ("nictop", "jeepney")


def compile_source(path: str, source: str) -> CodeType:
    """Without docstrings and assertions, as `wire.bundle` does it."""
    code: CodeType = compile(source, path, "exec", dont_inherit=True, optimize=2)
    return code


def read_exactly(size: int) -> bytes:
    """Of stdin, without a buffer that would swallow what is for others. EOFError when it ends before."""
    parts = []
    while size:
        part = os.read(DESCRIPTOR, min(size, 1 << 20))
        if not part:
            raise EOFError("stdin ended before the sources had come")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def arrive(frames: int, arguments: list[str]) -> int:
    """Be the probe, with `arguments` (the first two are ``--interval S``), until its end; returns its exit status."""
    luggage = MemoryImporter(frames)
    sys.meta_path.insert(0, luggage)  # type: ignore[arg-type]
    try:
        luggage.take()
        from nictop.probe.protocol.hello import say_first_words

        counters = say_first_words(1, float(arguments[1]))
        luggage.take_all()
        from nictop.probe.__main__ import main
        from nictop.probe.protocol.byte_code import ByteCode

        luggage.compile = ByteCode(compile_source).code
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 0
    signal.alarm(0)
    return main(arguments, counters)
