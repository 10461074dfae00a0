"""A generator that dies is named with its cause, and the built-in one takes over where that
helps."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from nictop.probe.traffic import deaths
from nictop.wire.local import LocalSource
from nictop.wire.probe_process import probe_command
from tests.traffic.pair import (
    RETRY,
    Pair,
    add_veth,
    followed,
    missing_requirement,
    namespaces,
    pair,
    source,
)
from tests.traffic.real_runs import complete_run

REASON = missing_requirement()
real = pytest.mark.skipif(REASON is not None, reason=REASON or "")

WRAPPER = """#!/bin/sh
case "$*" in *--version*|*--help*) exec {iperf3} "$@";; esac
{ending}
"""
ENDINGS = {
    "crash": ("kill -SEGV $$", "iperf3 on b ended by signal 11 (SIGSEGV)", True),
    "library": (
        "echo 'iperf3: error while loading shared libraries: libiperf.so.0: cannot open it' >&2; "
        "exit 127",
        "iperf3 on b ended with status 127: iperf3: error while loading shared libraries: "
        "libiperf.so.0: cannot open",
        True,
    ),
    "killed": (
        "kill -KILL $$",
        "iperf3 on b ended by signal 9 (SIGKILL): killed by another process, or for lack",
        False,
    ),
}
"""Name → (last command, beginning of the sentence, the built-in generator takes over)"""


def strange_iperf3(folder: Path, ending: str) -> str:
    program = folder / "iperf3"
    program.write_text(WRAPPER.format(iperf3=shutil.which("iperf3"), ending=ending))
    program.chmod(0o755)
    return str(folder)


@real
@pytest.mark.asyncio
@pytest.mark.parametrize("name", ENDINGS)
async def test_server_that_dies(tmp_path: Path, name: str) -> None:
    ending, sentence, is_replaced = ENDINGS[name]
    async with pair("100mbit", tools=("", strange_iperf3(tmp_path, ending))) as both:
        result, _ = await complete_run(both)
        assert both.generators() == []
    if not is_replaced:
        assert result.failure is not None and result.failure.kind == "died"
        assert result.failure.sentence.startswith(sentence), result.failure
        return
    assert result.failure is None, result.failure
    assert result.plan.generator == "builtin" and result.goodput
    assert result.notes[0].startswith(sentence) and result.notes[0].endswith(
        "; the built-in generator is used instead"
    )


async def with_temporary_folder(both: Pair) -> str:
    result, _ = await complete_run(both)
    assert result.failure is None and result.plan.generator == "builtin", result.failure
    return result.notes[0]


@real
@pytest.mark.asyncio
async def test_temporary_directory_is_full() -> None:
    """The real iperf3, with a TMPDIR without free space, in a mount namespace that ends with the
    probe."""
    with namespaces() as (client, server):
        add_veth(client, server)
        inside = (
            "mount -t tmpfs -o size=8k,mode=1777 none /mnt && head -c 100000 /dev/zero > "
            '/mnt/x; exec "$0" "$@"'
        )
        probe = probe_command(sys.executable, "--interval", "0.2")
        command = [
            "ip",
            "netns",
            "exec",
            server.name,
            "env",
            "TMPDIR=/mnt",
            "sh",
            "-c",
            inside,
            *probe,
        ]
        second = LocalSource(0.2, name="b", command=command, retry=RETRY)
        async with followed(client, server, [source(client, "a"), second]) as both:
            note = await with_temporary_folder(both)
    assert note.startswith("iperf3 on b ") and "/mnt is full" in note, note


@pytest.mark.parametrize(
    "line",
    [
        "iperf3: error - unable to create a new stream: No such file or directory",  # esnet/iperf#1201
        "iperf3: error - failed to read /dev/urandom: Bad address",  # esnet/iperf#987
    ],
)
def test_temporary_directory_that_does_not_exist(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    assert deaths.why_it_died(None, [line], None) == f"{tmp_path}/missing does not exist"
    assert deaths.why_it_died(None, ["iperf3: error - unable to connect"], None) == "", (
        "it need not be the cause"
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert deaths.why_it_died(None, [line], None) == ""


def test_causes() -> None:
    assert (
        deaths.start_error_text(os.strerror(8))
        == "Exec format error: made for another machine, or no program"
    )
    assert deaths.start_error_text("anything else") == "anything else"
    assert (
        deaths.parse_kills("nr_free_pages 5\noom_kill 7\n") == 7
        and deaths.parse_kills("oom_kill x\n") is None
    )
    assert deaths.why_it_died(31, (), None) == "system call refused by a seccomp filter"
    assert (
        deaths.why_it_died(0, (), None) == "" and deaths.why_it_died(None, ("nonsense",), 3) == ""
    )


def test_killed_for_lack_of_memory(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("oom_kill 3\n")
    assert deaths.why_it_died(9, (), 2, str(tmp_path)) == "killed by the kernel: out of memory"
    assert deaths.why_it_died(9, (), 3, str(tmp_path)).startswith("killed by another process")
