"""What the controller of traffic tests publishes, and when."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from nictop.tui.controllers.signal import Signal
from nictop.tui.controllers.traffic import TrafficController


@pytest.mark.parametrize("is_running", [True, False])
def test_a_lost_link_is_published_at_once(is_running: bool) -> None:
    """Not with the next interval, or the next second."""
    scheduler, watched = Mock(), SimpleNamespace(changed=Signal())
    unused: Any = Mock()
    given: Any = watched
    traffic = TrafficController(given, scheduler, unused)
    host: Any = SimpleNamespace(link_changes=deque[object]())
    traffic._hosts = {"a": host}
    task: Any = Mock(done=Mock(return_value=not is_running))
    traffic._task = task
    watched.changed.publish()
    assert not scheduler.set_timer.called, "nothing has happened to a link"
    host.link_changes.append(object())
    watched.changed.publish()
    assert scheduler.set_timer.called == is_running
