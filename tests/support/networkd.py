"""A real systemd-networkd in a network namespace, on a bus of its own (that of a `PrivateNetworkManager` which is not
started). Inside, /run is empty and in memory, /sys is read-only, so that networkd does not wait for udev."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.namespaces import why_impossible
from tests.support.networkmanager import PrivateNetworkManager, why_no_networkmanager
from tests.support.probe import LIMIT, wait_until

DAEMON = "/lib/systemd/systemd-networkd"
PLACES = """
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /etc/systemd/network
chmod -R a+rwX /run/systemd/netif
"""
"""It works as the user systemd-network, for whom systemd makes these."""


@contextmanager
def running_networkd(place: PrivateNetworkManager, *links: str) -> Iterator[None]:
    """Until these links are set up; their .network files are there already."""
    place.run(["sh", "-ec", PLACES])
    process = subprocess.Popen(
        [*place.prefix, DAEMON], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def is_set_up() -> bool:
        assert process.poll() is None, "systemd-networkd ended"
        return all("configured" in place.run(["networkctl", "status", link], check=False) for link in links)

    try:
        wait_until(is_set_up, pause=0.05)
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT)


def why_no_networkd() -> str | None:
    """Why none can be started here; None when one can."""
    reason = why_impossible() or why_no_networkmanager()
    return reason or (None if os.access(DAEMON, os.X_OK) else f"not installed: {DAEMON}")
