"""A real systemd-networkd in a network namespace, on a private bus (that of a
`PrivateNetworkManager` which is not started). There /run is an empty tmpfs, and /sys is read-only,
so that networkd does not wait for udev."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.namespaces import why_no_namespaces
from tests.support.networkmanager import PrivateNetworkManager, why_no_networkmanager
from tests.support.probe import TEST_TIMEOUT, wait_until

DAEMON = "/lib/systemd/systemd-networkd"
MAKE_DIRECTORIES = """
mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /etc/systemd/network
chmod -R a+rwX /run/systemd/netif
"""
"""Makes the directories that systemd makes for the user systemd-network, as which networkd runs."""


@contextmanager
def running_networkd(place: PrivateNetworkManager, *links: str) -> Iterator[None]:
    """Start networkd and wait until these links are configured; their .network files must exist."""
    place.run(["sh", "-ec", MAKE_DIRECTORIES])
    process = subprocess.Popen(
        [*place.prefix, DAEMON],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def are_configured() -> bool:
        assert process.poll() is None, "systemd-networkd ended"
        return all(
            "configured" in place.run(["networkctl", "status", link], check=False) for link in links
        )

    try:
        wait_until(are_configured, pause=0.05)
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(TEST_TIMEOUT)


def why_no_networkd() -> str | None:
    """The reason why systemd-networkd cannot be started here; None when it can."""
    reason = why_no_namespaces() or why_no_networkmanager()
    return reason or (None if os.access(DAEMON, os.X_OK) else f"not installed: {DAEMON}")
