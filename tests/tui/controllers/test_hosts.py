"""What of the watched hosts is published, and when."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from nictop.model.snapshot import Snapshot
from nictop.tui.controllers.hosts import WatchedHosts


@pytest.fixture
def hosts() -> WatchedHosts:
    unused: Any = Mock()
    watched = WatchedHosts({}, unused, unused, unused, unused, interval=1.0)
    watched.chosen = "vm1"
    watched._pending = {"vm1": Snapshot.empty("vm1"), "vm2": Snapshot.empty("vm2")}
    return watched


def test_a_new_screen_has_what_was_read_of_the_chosen_host(hosts: WatchedHosts) -> None:
    """And it is still published for everything else."""
    published = []
    hosts.snapshot_changed.subscribe(lambda: published.append(hosts.snapshot))
    hosts.show_pending()
    assert published == [hosts._pending["vm1"]] and hosts.pending


def test_a_new_screen_of_the_past_has_nothing_of_now(hosts: WatchedHosts) -> None:
    hosts.hold()
    hosts.show_pending()
    assert hosts.snapshot is None
