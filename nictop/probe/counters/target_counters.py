"""What the last inventory has named, at every pass: interrupts of the NICs, threads that move packets, vmbus channels.

Yields the fields `interrupts`, `threads` and `channels` of a sample. All their files share one room for descriptors.
"""

from __future__ import annotations

from nictop.probe.counters.interrupts import InterruptCounterReader
from nictop.probe.counters.threads import ThreadCounterReader
from nictop.probe.counters.vmbus_channels import ChannelCounterReader
from nictop.probe.kernel.open_files import OpenFileCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.counters.reader import Sample
    from nictop.probe.counters.targets import Targets


class TargetCounterReader:
    """Reads nothing until it has been told what. `sys` and `proc` are where sysfs and procfs stand."""

    def __init__(self, *, sys: str = "/sys", proc: str = "/proc") -> None:
        self._files = OpenFileCache()
        self._interrupts = InterruptCounterReader(self._files, sys=sys, proc=proc)
        self._threads = ThreadCounterReader(self._files, proc=proc)
        self._channels = ChannelCounterReader(self._files, sys=sys)

    def learn(self, targets: Targets) -> None:
        """These from now on. Every file is opened anew: a number may mean another interrupt or thread by now."""
        self._files.close()
        self._interrupts.learn(targets["interrupts"])
        self._threads.learn(targets["threads"], targets["born"])
        self._channels.learn(targets["channels"])

    def read(self, sample: Sample) -> None:
        """Fill in the three fields; what could not be read is named in the sample."""
        sample.interrupts = self._interrupts.read(lambda error, where: sample.fail("interrupts", error, where))
        sample.threads = self._threads.read(lambda error, where: sample.fail("threads", error, where))
        sample.channels = self._channels.read(lambda error, where: sample.fail("channels", error, where))

    def close(self) -> None:
        self._files.close()
        self._interrupts.close()
