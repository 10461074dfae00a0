"""Byte code that children of a probe share: what the first inventory had to compile, the later ones need not.

Used where the probe came as sources (`journey`), because Python there reads another byte code than the watching side
has. Each inventory is taken by a new child, which would compile the same readers again. What it compiled goes to a file
in memory (memfd_create(2)) that the probe has open and its children inherit; nothing is written to any disk.
"""

from __future__ import annotations

import contextlib
import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

LENGTH_BYTES = 8
"""The length of what follows stands in front, and is written last: a child that is killed before leaves nothing."""

_shared: ByteCode | None = None


class ByteCode:
    """Made once, before the first fork. `compile_source` (path, source) makes what is not there yet."""

    def __init__(self, compile_source: Callable[[str, str], CodeType]) -> None:
        global _shared  # noqa: PLW0603
        self._compile = compile_source
        self._file = -1
        with contextlib.suppress(OSError, AttributeError):  # an old C library has no memfd_create
            self._file = os.memfd_create("nictop")
        self._reader = 0
        """Process that has read `_kept`: each one does, because others may have left more meanwhile."""
        self._kept: dict[str, bytes] = {}
        self._new: dict[str, bytes] = {}
        _shared = self

    def code(self, path: str, source: str) -> CodeType:
        """Of the module at `path`: kept by an earlier child, or compiled now."""
        if self._reader != os.getpid():
            self._reader, self._kept = os.getpid(), self._read()
        if path in self._kept:
            kept: CodeType = marshal.loads(self._kept[path])
            return kept
        made = self._compile(path, source)
        if self._file >= 0:
            self._new[path] = marshal.dumps(made)
        return made

    def keep(self) -> None:
        """Leave what this process had to compile to those that are forked after this. Raises OSError."""
        if self._new:
            data = marshal.dumps({**self._kept, **self._new})
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, data, LENGTH_BYTES)
            os.pwrite(self._file, len(data).to_bytes(LENGTH_BYTES, "big"), 0)

    def _read(self) -> dict[str, bytes]:
        size = int.from_bytes(os.pread(self._file, LENGTH_BYTES, 0), "big") if self._file >= 0 else 0
        found: dict[str, bytes] = marshal.loads(os.pread(self._file, size, LENGTH_BYTES)) if size else {}
        return found


def keep_byte_code() -> None:
    """See `ByteCode.keep`; nothing where modules come from files."""
    if _shared is not None:
        with contextlib.suppress(OSError):
            _shared.keep()
