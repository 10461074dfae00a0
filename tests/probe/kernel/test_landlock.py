"""Landlock on kernels of every ABI: what is asked for is what that version knows."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from nictop.probe.kernel import landlock


class Kernel:
    """Answers of the three system calls by a kernel with this ABI; 0: none."""

    def __init__(self, abi: int) -> None:
        self.abi = abi
        self.calls: list[tuple[int, tuple[Any, ...]]] = []

    def call(self, number: int, *arguments: Any) -> int:
        self.calls.append((number, arguments))
        if not self.abi:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        if arguments[-1] == landlock.CREATE_RULESET_VERSION and number == landlock.CREATE_RULESET:
            return self.abi
        return os.open(os.devnull, os.O_RDONLY) if number == landlock.CREATE_RULESET else 0


@pytest.mark.parametrize(
    ("abi", "size", "rights"),
    [
        (1, 8, (0x1FF3, 0, 0)),
        (2, 8, (0x3FF3, 0, 0)),
        (3, 8, (0x7FF3, 0, 0)),
        (4, 16, (0x7FF3, 3, 0)),
        (5, 16, (0xFFF3, 3, 0)),
        (6, 24, (0xFFF3, 3, 2)),
        (99, 24, (0xFFF3, 3, 2)),
    ],
)
def test_what_each_version_is_asked_for(
    abi: int, size: int, rights: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel refuses rights and sizes that it does not know (E2BIG, EINVAL)."""
    kernel = Kernel(abi)
    monkeypatch.setattr(landlock, "_call", kernel.call)
    assert landlock.restrict_self() == abi
    (_, created), (_, rule), (last, _) = kernel.calls[1:]
    assert created == (landlock.RULESET.pack(*rights)[:size], size, 0)
    allowed, _ = landlock.PATH_BENEATH.unpack(rule[2])
    assert allowed == landlock.WRITE_FILE | (landlock.TRUNCATE if abi >= 3 else 0)
    assert last == landlock.RESTRICT_SELF


def test_a_kernel_without_landlock_is_not_asked_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(0)
    monkeypatch.setattr(landlock, "_call", kernel.call)
    with pytest.raises(OSError, match="not implemented"):
        landlock.restrict_self()
    assert len(kernel.calls) == 1
