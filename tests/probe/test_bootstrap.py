"""Start on another machine: frames from stdin, modules from memory, hello and first counters before
the rest."""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time
import zlib
from collections.abc import Iterator

import pytest

from nictop.probe import bootstrap
from nictop.probe.bootstrap import MAX_FRAME_BYTES, MemoryImporter
from nictop.probe.protocol.hello import send_hello
from nictop.wire.codec import decode


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a pipe in place of stdin to which frames are written."""
    readable, writable = os.pipe()
    monkeypatch.setattr(bootstrap, "STDIN_DESCRIPTOR", readable)
    monkeypatch.setattr(bootstrap, "PACKAGES", ("sent",))
    yield writable
    signal.alarm(0)
    os.close(readable)
    if writable >= 0:
        os.close(writable)


def packed(*sources: str) -> bytes:
    data = zlib.compress(marshal.dumps(dict(zip(sources[::2], sources[1::2], strict=True)), 4))
    return len(data).to_bytes(4, "big") + data


def test_modules_are_loaded_from_memory_and_frames_unpacked_on_demand(
    stdin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(stdin, packed("sent/__init__.py", "", "sent/near.py", "VALUE = 'é'"))
    os.write(
        stdin,
        packed(
            "sent/far/__init__.py", "from sent.far.inner import x", "sent/far/inner.py", "x = 7"
        ),
    )
    os.write(stdin, b"{}\n")
    importer = MemoryImporter(2)
    monkeypatch.setattr(sys, "meta_path", [importer, *sys.meta_path])
    importer.read_frame()
    importer.read_remaining_frames()
    assert os.read(bootstrap.STDIN_DESCRIPTOR, 10) == b"{}\n"  # data after the frames are not read
    from sent import near  # type: ignore[import-not-found]

    assert near.VALUE == "é" and near.__spec__.origin == "sent/near.py"
    assert len(importer._packed) == 1
    import sent.far  # type: ignore[import-not-found]

    assert sent.far.x == 7 and not importer._packed
    with pytest.raises(ImportError):
        import sent.nowhere  # type: ignore[import-not-found]
    with pytest.raises(ImportError):
        importer.get_code("sent.nowhere")
    assert importer.find_spec("os") is None
    for name in [name for name in sys.modules if name.startswith("sent")]:
        monkeypatch.delitem(sys.modules, name)


def test_a_frame_is_read_when_its_module_is_needed(stdin: int) -> None:
    os.write(stdin, packed("sent/one.py", "") + packed("sent/two.py", ""))
    importer = MemoryImporter(2)
    assert importer.find_spec("sent.two") is not None
    assert importer.find_spec("sent.three") is None


def test_invalid_frames(stdin: int) -> None:
    os.write(stdin, (MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="a frame of"):
        MemoryImporter(1).read_frame()
    os.write(stdin, packed("sent/one.py", "")[:-1])
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), stdin)
    with pytest.raises(EOFError):
        MemoryImporter(1).read_frame()


def test_waiting_for_bytes_has_a_timeout_and_nothing_else(
    stdin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done with a frame takes longer on a host whose CPUs are busy."""
    left: list[bool] = []
    read = os.read

    def counted(descriptor: int, size: int) -> bytes:
        left.append(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", counted)
    os.write(stdin, packed("sent/one.py", ""))
    MemoryImporter(1).read_frame()
    assert left and all(left)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_every_part_of_a_frame_has_the_whole_time_again(
    stdin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow network a frame takes longer, and is not given up as long as bytes come."""
    alarms: list[int] = []
    monkeypatch.setattr(signal, "alarm", alarms.append)
    frame = packed("sent/one.py", "")
    parts = [frame[:4], frame[4:9], frame[9:]]
    monkeypatch.setattr(os, "read", lambda descriptor, size: parts.pop(0))
    MemoryImporter(1).read_frame()
    assert alarms == 3 * [bootstrap.FRAME_TIMEOUT, 0]


def test_it_says_how_much_has_come(stdin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a second, and to stderr: stdout has the lines of the probe."""
    said: list[tuple[int, bytes]] = []
    monkeypatch.setattr(os, "write", lambda *written: said.append(written))
    times = iter([0.0, 0.5, 1.5, 2.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    frame = packed("sent/one.py", "")
    parts = [frame[:4], frame[4:9], frame[9:]]
    monkeypatch.setattr(os, "read", lambda descriptor, size: parts.pop(0))
    MemoryImporter(1, "b-a").read_frame()
    assert said == [(2, b"b-a received 9\n")]


def test_hello_and_first_counters() -> None:
    readable, writable = os.pipe()
    try:
        reader = send_hello(writable, 2.0)
        hello, counters = map(decode, os.read(readable, 1 << 20).splitlines())
    finally:
        os.close(readable)
        os.close(writable)
    assert (
        hello.hello is not None and hello.hello.interval == 2.0 and hello.hello.pid == os.getpid()
    )
    assert counters.counters is not None and counters.counters.cpus and counters.counters.links
    assert reader.read().time > counters.counters.time  # the reader can be used further
    reader.close()
