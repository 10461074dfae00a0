"""Byte code that children of a probe share: what the first inventory had to compile, the later ones need not.

Used where the probe came as sources (`journey`), because Python there reads another byte code than the watching side
has. Each inventory is taken by a new child, which would compile the same readers again. What it compiled goes to memory
that the probe and its children share (an anonymous mmap(2)): there is no descriptor that a child could have closed, and
nothing is written to any disk.
"""

from __future__ import annotations

import marshal
import mmap
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

SHARED_BYTES = 4 * 1024 * 1024
"""Four times what all readers need; the kernel gives the pages that are written to."""
LENGTH_BYTES = 8
"""The length of what follows stands in front, and is written last: a child that is killed before leaves nothing."""

_shared: ByteCode | None = None


class ByteCode:
    """Made once, before the first fork. `compile_source` (path, source) makes what is not there yet."""

    def __init__(self, compile_source: Callable[[str, str], CodeType]) -> None:
        global _shared  # noqa: PLW0603
        self._compile = compile_source
        try:
            self._memory: mmap.mmap | None = mmap.mmap(-1, SHARED_BYTES)
        except OSError:
            self._memory = None
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
        if self._memory is not None:
            self._new[path] = marshal.dumps(made)
        return made

    def keep(self) -> None:
        """Leave what this process had to compile to those that are forked after this."""
        data = marshal.dumps({**self._kept, **self._new})
        end = LENGTH_BYTES + len(data)
        if self._memory is not None and self._new and end <= SHARED_BYTES:
            self._memory[:LENGTH_BYTES] = bytes(LENGTH_BYTES)
            self._memory[LENGTH_BYTES:end] = data
            self._memory[:LENGTH_BYTES] = len(data).to_bytes(LENGTH_BYTES, "big")

    def _read(self) -> dict[str, bytes]:
        size = 0 if self._memory is None else int.from_bytes(self._memory[:LENGTH_BYTES], "big")
        if self._memory is None or not size:
            return {}
        found: dict[str, bytes] = marshal.loads(self._memory[LENGTH_BYTES : LENGTH_BYTES + size])
        return found


def keep_byte_code() -> None:
    """See `ByteCode.keep`; nothing where modules come from files."""
    if _shared is not None:
        _shared.keep()
