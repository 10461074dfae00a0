"""What the screens show: the newest snapshots and findings, or, while the display is paused, those
of that time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.rules import Diagnosis
    from nictop.rules.recent import RecentFindings
    from nictop.tui.controllers.diagnosis import DiagnosisScheduler
    from nictop.tui.controllers.hosts import WatchedHosts


class Display:
    """Pauses and resumes; hosts are read and recorded all the same."""

    def __init__(self, hosts: WatchedHosts, diagnosis: DiagnosisScheduler) -> None:
        self._hosts, self._scheduler = hosts, diagnosis
        self.paused = False
        self.recent: RecentFindings | None = None
        """The findings that are listed; None: no screen has a list yet."""
        self.changed = Signal()
        """`paused` is another one."""
        self._snapshots: dict[str, Snapshot] = {}
        self._diagnosis: Diagnosis | None = None

    def toggle(self) -> None:
        """Pause, or resume."""
        self.paused = not self.paused
        self._snapshots, self._diagnosis = {}, None
        if self.paused:
            self._snapshots = {host.name: host.snapshot for host in self._hosts.sessions}
            self._diagnosis = self._scheduler.result
        self.changed.publish()

    def snapshot(self, host: HostSession) -> Snapshot:
        """Of a watched host."""
        return self._snapshots.get(host.name, host.snapshot)

    @property
    def diagnosis(self) -> Diagnosis | None:
        if self.paused:
            return self._diagnosis
        return self._scheduler.result
