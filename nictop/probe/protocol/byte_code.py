"""Byte code shared between children of a probe, so that later inventories need not compile what the
first one did.

Used where the probe was sent as sources (`bootstrap`), because Python there has another byte code
than the sender. Each inventory runs in a new child, which would compile the same modules again.
Compiled code is stored in memory that the probe and its children share (anonymous mmap(2)): no
descriptor that a child could have closed, and nothing is written to disk.
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
"""Four times what all modules need; the kernel allocates only pages that are written."""
LENGTH_BYTES = 8
"""The length precedes the data and is written last: a child that is killed earlier leaves
nothing."""

_shared: ByteCode | None = None


class ByteCode:
    """Created once, before the first fork. `compile_source` (path, source) compiles what is not
    stored yet."""

    def __init__(self, compile_source: Callable[[str, str], CodeType]) -> None:
        global _shared  # noqa: PLW0603
        self._compile = compile_source
        try:
            self._memory: mmap.mmap | None = mmap.mmap(-1, SHARED_BYTES)
        except OSError:
            self._memory = None
        self._reader_pid = 0
        """Process that has read `_stored`; each process reads it once, because others may have
        added more."""
        self._stored: dict[str, bytes] = {}
        self._compiled: dict[str, bytes] = {}
        _shared = self

    def code(self, path: str, source: str) -> CodeType:
        """Code of the module at `path`: stored by an earlier child, or compiled now."""
        if self._reader_pid != os.getpid():
            self._reader_pid, self._stored = os.getpid(), self._read()
        if path in self._stored:
            code: CodeType = marshal.loads(self._stored[path])
            return code
        code = self._compile(path, source)
        if self._memory is not None:
            self._compiled[path] = marshal.dumps(code)
        return code

    def store(self) -> None:
        """Store what this process has compiled, for children forked later."""
        data = marshal.dumps({**self._stored, **self._compiled})
        end = LENGTH_BYTES + len(data)
        if self._memory is not None and self._compiled and end <= SHARED_BYTES:
            self._memory[:LENGTH_BYTES] = bytes(LENGTH_BYTES)
            self._memory[LENGTH_BYTES:end] = data
            self._memory[:LENGTH_BYTES] = len(data).to_bytes(LENGTH_BYTES, "big")

    def _read(self) -> dict[str, bytes]:
        size = 0 if self._memory is None else int.from_bytes(self._memory[:LENGTH_BYTES], "big")
        if self._memory is None or not size:
            return {}
        modules: dict[str, bytes] = marshal.loads(self._memory[LENGTH_BYTES : LENGTH_BYTES + size])
        return modules


def store_byte_code() -> None:
    """See `ByteCode.store`; does nothing where modules come from files."""
    if _shared is not None:
        _shared.store()
