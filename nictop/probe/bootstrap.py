"""Run the probe on the other end of an SSH connection: imports nictop and its libraries from
memory.

Reads frames from stdin: four bytes of length, then zlib-compressed data, a marshalled mapping of
path to source or byte code of each module. The first frame is read at once and has what
`protocol.hello` needs; the others are received meanwhile, and unpacked only when a module is
imported that earlier frames do not have, in the process that imports it: the modules of the
inventory stay compressed in the probe itself. Nothing is written to disk. This text is itself
executed from memory (see `wire.ssh.bundle`).

A slow network needs minutes for the frames: how much of them has come is written to stderr every
second, in a line that begins with the mark of the command, so that the other end knows that this
one is not silent.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time
import zlib
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""Bytes; a larger frame is refused."""
STDIN_DESCRIPTOR = 0
FRAME_TIMEOUT = 15
"""Seconds without any byte of a frame; then SIGALRM ends the process, because the connection is
broken."""
REPORT_SECONDS = 1.0
"""Between two reports of what has come."""


class MemoryImporter:
    """Finder and loader of the modules in `frames` frames, oldest first. `mark`: begins the lines
    that say how much has come."""

    def __init__(self, frames: int, mark: str = "") -> None:
        self._outstanding, self._mark = frames, mark
        self._received = 0
        """Bytes of all frames."""
        self._reported = time.monotonic()
        self._packed: list[bytes] = []
        self._sources: dict[str, str | bytes] = {}
        self.compile = compile_source

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> object:
        """None for a module that is in no frame."""
        if name.partition(".")[0] not in PACKAGES:
            return None
        base = name.replace(".", "/")
        for source_path, is_package in ((f"{base}.py", False), (f"{base}/__init__.py", True)):
            if source_path in self._sources:
                return ModuleSpec(name, self, origin=source_path, is_package=is_package)  # type: ignore[arg-type]
        return self.find_spec(name) if self._unpack() else None

    def create_module(self, spec: ModuleSpec) -> None:
        """None: importlib creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), vars(module))

    def get_code(self, name: str) -> CodeType:
        """Code of a module; also called by runpy. Raises ImportError."""
        spec = self.find_spec(name)
        if not isinstance(spec, ModuleSpec) or spec.origin is None:
            raise ImportError(f"no source of {name}")
        module = self._sources[spec.origin]
        if isinstance(module, str):
            return self.compile(spec.origin, module)
        code: CodeType = marshal.loads(module)
        return code

    def read_frame(self) -> None:
        """Read one frame and store it compressed. Raises EOFError and ValueError."""
        self._outstanding -= 1
        size = int.from_bytes(self._read_exactly(4), "big")
        if size > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {size} bytes")
        self._packed.append(self._read_exactly(size))

    def read_remaining_frames(self) -> None:
        """Read the remaining frames; after them, stdin has requests."""
        while self._outstanding:
            self.read_frame()

    def _read_exactly(self, size: int) -> bytes:
        """Read `size` bytes from stdin, unbuffered, because requests follow. Raises EOFError."""
        parts = []
        while size:
            signal.alarm(FRAME_TIMEOUT)
            data = os.read(STDIN_DESCRIPTOR, min(size, 1 << 20))
            signal.alarm(0)  # what follows takes long on a busy CPU, and waits for nothing
            if not data:
                raise EOFError("end of stdin")
            parts.append(data)
            size -= len(data)
            self._received += len(data)
            now = time.monotonic()
            if now - self._reported > REPORT_SECONDS:
                self._reported = now
                os.write(2, f"{self._mark} received {self._received}\n".encode())
        return b"".join(parts)

    def _unpack(self) -> bool:
        """Unpack the next frame; False when there is none."""
        if not self._packed:
            if not self._outstanding:
                return False
            self.read_frame()
        self._sources.update(marshal.loads(zlib.decompress(self._packed.pop(0))))
        return True


PACKAGES = ("nictop", "jeepney")


def compile_source(path: str, source: str) -> CodeType:
    """Without docstrings and assertions, like `wire.ssh.bundle`."""
    code: CodeType = compile(source, path, "exec", dont_inherit=True, optimize=2)
    return code


def run_probe(frames: int, arguments: list[str], mark: str) -> int:
    """Run the probe with `arguments` (the first two are ``--interval S``) until it ends; returns
    its exit status."""
    importer = MemoryImporter(frames, mark)
    sys.meta_path.insert(0, importer)  # type: ignore[arg-type]
    try:
        importer.read_frame()
        from nictop.probe.protocol.hello import send_hello

        counters = send_hello(1, float(arguments[1]))
        importer.read_remaining_frames()
        from nictop.probe.__main__ import main
        from nictop.probe.protocol.byte_code import ByteCode

        importer.compile = ByteCode(compile_source).code
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return 0
    return main(arguments, counters)
