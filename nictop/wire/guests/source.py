"""Lines of a guest or container of this machine: as over SSH, by a process of this machine."""

from __future__ import annotations

from nictop.wire.local_channel import LocalCarrier
from nictop.wire.ssh.connection import Connection
from nictop.wire.ssh.source import SshSource


class LocalGuestSource(SshSource):
    """See `SshSource`; its target is this machine."""

    async def _first_connection(self) -> Connection:
        return Connection(LocalCarrier(self._budget))
