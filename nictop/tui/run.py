"""Runs the application, on hosts or on a recording, until it ends.

Reads the environment, for whether the terminal has a clipboard, and the keys and the theme of the
configuration file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.hosts.specification import Host
from nictop.tui.app import NictopApp
from nictop.tui.keys import checked_keymap
from nictop.tui.themes import checked_theme, terminal_colours

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.recording.reader import Recording
    from nictop.traffic.plan.request import RunRequest
    from nictop.tui.controllers.traffic import FinishedExperiment
    from nictop.wire.probe_process import StartedProbe
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Ask


def run(
    hosts: Sequence[Host],
    *,
    interval: float,
    glyphs: Glyphs,
    sudo: bool = False,
    allow_changes: bool = False,
    accept_new_host_keys: bool = False,
    request: RunRequest | None = None,
    self_test: bool = False,
    started: StartedProbe | None = None,
) -> tuple[int, FinishedExperiment]:
    """Watch some hosts. `request`: a run between two of them (by their labels), or (`self_test`) on
    this machine alone, which is started at once. `started`: see `hosts.connect.connect`. Returns
    the exit code and what came of the request. Raises NictopError."""
    keys, theme = _keys_and_theme()

    def connect(host: Host, ask: Ask) -> Source:
        from nictop.hosts.connect import connect as source_of

        return source_of(
            host,
            app.nictop.hosts.interval,
            eager=True,
            parts=True,
            sudo=sudo,
            allow_changes=allow_changes,
            allow_workload=host.label in app.nictop.traffic.may_run,
            accept_new_host_keys=accept_new_host_keys,
            ask=ask,
            started=started,
        )

    app = NictopApp(
        connect,
        hosts,
        interval=interval,
        glyphs=glyphs,
        environment=os.environ,
        allow_changes=allow_changes,
        request=request,
        self_test=self_test,
        theme=theme,
        colours=terminal_colours(),
        keeps_past=True,
    )
    if request is not None and request.test == "workload":
        app.nictop.traffic.may_run.add(request.client)
    _run(app, keys)
    return app.return_code or 0, app.requested_experiment


def show(
    recording: Recording,
    *,
    start: float,
    speed: float = 1.0,
    glyphs: Glyphs,
    loop: bool = False,
    nic: str = "",
    notice: str = "",
    notice_title: str = "Demo",
) -> int:
    """The same with a recording, from `start` on (seconds as in the recording). Returns the exit
    code. The rest as in `Replay`."""
    from nictop.recording.playback import Playback
    from nictop.tui.controllers.replay import REPLAY_WINDOW_SECONDS

    keys, theme = _keys_and_theme()
    app = NictopApp(
        _refuse,
        (),
        glyphs=glyphs,
        environment=os.environ,
        theme=theme,
        colours=terminal_colours(),
    )
    playback = Playback(recording, window=REPLAY_WINDOW_SECONDS)
    playback.speed = speed
    app.nictop.show_recording(
        playback, start=start, loop=loop, nic=nic, notice=notice, notice_title=notice_title
    )
    _run(app, keys)
    return app.return_code or 0


def _keys_and_theme() -> tuple[dict[str, str], str]:
    """Of the configuration file. Raises NictopError if it is not valid."""
    from nictop.hosts.specification import configuration_path, read_configuration

    path = configuration_path(os.environ)
    configuration = read_configuration(path)
    return checked_keymap(configuration.keys, path), checked_theme(configuration.theme, path)


def _run(app: NictopApp, keys: dict[str, str]) -> None:
    """Until it ends. Raises the exception that ended it, if that was a fault of nictop itself."""
    app.set_keymap(keys)
    with app.garbage:
        app.run()
    if app.failure is not None:
        raise app.failure


def _refuse(host: Host, ask: Ask) -> Source:
    raise RuntimeError("nothing is connected to in a recording")
