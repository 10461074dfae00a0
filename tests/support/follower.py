"""``python -m tests.support.follower OPTIONS``: SSH sources in a separate process, which tests can
stop and kill.

OPTIONS is JSON: the fields of `SshTarget`, the number of sources, and constants to set. Prints one
JSON list per hello and per state: number of the source, "hello" or the state, and the probe's pid
or the message.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict

import msgspec

from nictop.probe.records import Line
from nictop.wire.ssh import remote_probe
from nictop.wire.ssh import source as ssh
from nictop.wire.ssh.source import SshSource, SshTarget
from tests.support.namespaces import ROOT, Namespace
from tests.support.probe import TEST_TIMEOUT

Event = tuple[int, str, object]


async def follow(number: int, source: SshSource) -> None:
    async with aclosing(source.items()) as items:
        async for item in items:
            if not isinstance(item, Line):
                print_event(number, item.state, item.message)
            elif item.hello is not None:
                print_event(number, "hello", item.hello.pid)


def print_event(number: int, what: str, detail: object) -> None:
    os.write(1, json.dumps([number, what, detail]).encode() + b"\n")


async def main(options: str) -> None:
    given = json.loads(options)
    for name, value in given["constants"].items():
        for module in (remote_probe, ssh):
            if hasattr(module, name):
                setattr(module, name, value)
    target = msgspec.convert(given["target"], SshTarget)
    sources = [SshSource(target, 0.2, retry=(0.1, 0.3)) for _ in range(given["count"])]
    await asyncio.gather(*(follow(number, source) for number, source in enumerate(sources)))


class Follower:
    """Runs this module as a process; a context manager that kills it. `events`: the lines that were
    read so far."""

    def __init__(
        self,
        target: SshTarget,
        count: int = 1,
        *,
        namespace: Namespace | None = None,
        **constants: float,
    ) -> None:
        options = json.dumps({"target": asdict(target), "count": count, "constants": constants})
        inside = ["ip", "netns", "exec", namespace.name] if namespace is not None else []
        environment = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-m", "tests.support.follower", options],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.events: list[Event] = []
        self._rest = b""

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(TEST_TIMEOUT)

    def wait_until(self, condition: Callable[[], object], limit: float = TEST_TIMEOUT) -> None:
        """Read until `condition` is true; AssertionError after `limit` seconds."""
        assert self.process.stdout is not None
        descriptor, end = self.process.stdout.fileno(), time.monotonic() + limit
        while not condition():
            assert time.monotonic() < end, f"condition not reached; last events: {self.events[-5:]}"
            if select.select([descriptor], [], [], 0.02)[0]:
                part = os.read(descriptor, 65536)
                assert part, f"the follower ended; last events: {self.events[-5:]}"
                *lines, self._rest = (self._rest + part).split(b"\n")
                self.events += [
                    (number, what, detail) for number, what, detail in map(json.loads, lines)
                ]

    def details(self, what: str) -> Sequence[object]:
        """Details of every event of this kind so far."""
        return [detail for _, event, detail in self.events if event == what]

    def sources_with(self, what: str) -> set[int]:
        """Numbers of the sources that have printed this kind of event."""
        return {number for number, event, _ in self.events if event == what}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
