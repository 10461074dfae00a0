"""Arriving on another machine: frames from stdin, modules from memory, first words before the rest."""

from __future__ import annotations

import marshal
import os
import signal
import sys
import zlib
from collections.abc import Iterator

import pytest

from nictop.probe import bootstrap as journey
from nictop.probe.bootstrap import LARGEST_FRAME, MemoryImporter
from nictop.probe.protocol.hello import say_first_words
from nictop.wire.codec import decode


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where frames are written to."""
    readable, writable = os.pipe()
    monkeypatch.setattr(journey, "DESCRIPTOR", readable)
    monkeypatch.setattr(journey, "OURS", ("travelled",))
    yield writable
    signal.alarm(0)
    os.close(readable)
    if writable >= 0:
        os.close(writable)


def packed(*sources: str) -> bytes:
    data = zlib.compress(marshal.dumps(dict(zip(sources[::2], sources[1::2], strict=True)), 4))
    return len(data).to_bytes(4, "big") + data


def test_modules_come_from_memory_and_frames_are_taken_apart_on_demand(
    stdin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(stdin, packed("travelled/__init__.py", "", "travelled/near.py", "VALUE = 'é'"))
    os.write(
        stdin,
        packed("travelled/far/__init__.py", "from travelled.far.inner import x", "travelled/far/inner.py", "x = 7"),
    )
    os.write(stdin, b"{}\n")
    luggage = MemoryImporter(2)
    monkeypatch.setattr(sys, "meta_path", [luggage, *sys.meta_path])
    luggage.take()
    luggage.take_all()
    assert os.read(journey.DESCRIPTOR, 10) == b"{}\n"  # what follows the frames is for others
    from travelled import near  # type: ignore[import-not-found]

    assert near.VALUE == "é" and near.__spec__.origin == "travelled/near.py"
    assert len(luggage._packed) == 1
    import travelled.far  # type: ignore[import-not-found]

    assert travelled.far.x == 7 and not luggage._packed
    with pytest.raises(ImportError):
        import travelled.nowhere  # type: ignore[import-not-found]
    with pytest.raises(ImportError):
        luggage.get_code("travelled.nowhere")
    assert luggage.find_spec("os") is None
    for name in [name for name in sys.modules if name.startswith("travelled")]:
        monkeypatch.delitem(sys.modules, name)


def test_a_frame_that_has_not_been_read_is_read_when_it_is_asked_for(stdin: int) -> None:
    os.write(stdin, packed("travelled/one.py", "") + packed("travelled/two.py", ""))
    luggage = MemoryImporter(2)
    assert luggage.find_spec("travelled.two") is not None
    assert luggage.find_spec("travelled.three") is None


def test_frames_that_are_none(stdin: int) -> None:
    os.write(stdin, (LARGEST_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="a frame of"):
        MemoryImporter(1).take()
    os.write(stdin, packed("travelled/one.py", "")[:-1])
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stdin)
    with pytest.raises(EOFError):
        MemoryImporter(1).take()


def test_whoever_waits_for_sources_does_not_wait_for_ever(stdin: int) -> None:
    os.write(stdin, packed("travelled/one.py", ""))
    MemoryImporter(1).take()
    assert 0 < signal.alarm(0) <= journey.PATIENCE


def test_the_first_words() -> None:
    readable, writable = os.pipe()
    try:
        reader = say_first_words(writable, 2.0)
        hello, counters = map(decode, os.read(readable, 1 << 20).splitlines())
    finally:
        os.close(readable)
        os.close(writable)
    assert hello.hello is not None and hello.hello.interval == 2.0 and hello.hello.pid == os.getpid()
    assert counters.counters is not None and counters.counters.cpus and counters.counters.links
    assert reader.read().time > counters.counters.time  # it goes on
    reader.close()
