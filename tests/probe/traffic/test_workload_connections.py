"""Bytes of the connections of a workload: each connection counts once, also after its process has
closed it."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.probe.traffic import sock_diag
from nictop.probe.workload.connections import WorkloadConnections

OWN, OTHER = 100, 200
"""PIDs, and the inodes of their sockets."""


class Scripted(WorkloadConnections):
    """`sockets`: what the next reading of the kernel finds."""

    sockets: tuple[dict[str, Any], ...] = ()

    def _dump(self) -> list[dict[str, Any]]:
        return [dict(fields) for fields in self.sockets]

    def read_these(self, *sockets: dict[str, Any]) -> None:
        self.sockets = sockets
        self.read([OWN])

    def summed(self) -> dict[str, int]:
        """Owner → bytes."""
        sums: dict[str, int] = {}
        for record in self.report():
            moved = record["sent"] + record["received"]
            sums[record["owner"]] = sums.get(record["owner"], 0) + moved
        return sums


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(sock_diag, "read_socket_inodes", lambda pid, proc: {pid})
    return Scripted("/nonexistent")


def tcp(inode: int, sent: int, port: int = 40000, received: int = 0) -> dict[str, Any]:
    return {
        "local": "192.0.2.1", "local_port": port, "remote": "192.0.2.2", "remote_port": 873,
        "inode": inode, "bytes_acked": sent, "bytes_received": received, "retransmits": 0,
        "rtt": 100,
    }  # fmt: skip


def test_connection_that_its_process_has_closed_counts_once(connections: Scripted) -> None:
    """The kernel still sends its last bytes: it has no inode then."""
    connections.read_these()
    connections.read_these(tcp(OWN, 5000))
    connections.read_these(tcp(0, 8000))
    connections.read_these(tcp(0, 8500))
    connections.read_these()
    assert connections.summed() == {"own": 8500}


def test_counts_that_are_gone_with_the_socket_are_not_taken(connections: Scripted) -> None:
    connections.read_these()
    connections.read_these(tcp(OWN, 5000, received=70))
    connections.read_these(tcp(0, 0))
    assert connections.summed() == {"own": 5070}


def test_another_connection_with_the_same_ends_is_another_one(connections: Scripted) -> None:
    connections.read_these()
    connections.read_these(tcp(OWN, 5000))
    connections.read_these(tcp(0, 6000))
    connections.read_these(tcp(OTHER, 300))
    connections.read_these(tcp(0, 400))
    assert connections.summed() == {"own": 6000, "unknown": 400}


def test_connection_that_was_never_seen_open_is_of_nobody_known(connections: Scripted) -> None:
    connections.read_these(tcp(0, 100, port=40001))
    connections.read_these(tcp(0, 900), tcp(0, 150, port=40001))
    connections.read_these(tcp(0, 1000))
    assert connections.summed() == {"unknown": 1050}
