"""A real NetworkManager on a private D-Bus, in a network namespace: isolated from the links and
files of this machine.

In its mount namespace /run, /etc/NetworkManager and /var/lib/NetworkManager are empty tmpfs mounts,
and writes to /etc go to an overlay in memory. The host name is a copy (UTS namespace), resolv.conf
is not modified, and /sys is read-only, so that NetworkManager does not wait for udev. Links whose
names begin with ``far``, the peers of veth pairs, are unmanaged.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jeepney
from jeepney.io.blocking import open_dbus_connection

from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.probe import TEST_TIMEOUT, wait_until

DAEMON = "NetworkManager"
TMPFS_DIRECTORIES = ("/etc/NetworkManager", "/var/lib/NetworkManager", "/run")
POLL_SECONDS = 0.05
"""Interval of `wait_for`: some conditions start a program."""
SERVICE, ROOT = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
PROPERTIES = "org.freedesktop.DBus.Properties"
NM_STATE_ASLEEP = 10
"""The lowest state of a NetworkManager that has started."""
PROGRAM_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

BUS_CONFIGURATION = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    {rules}
    <allow own="*"/>
  </policy>
</busconfig>
"""
ALLOW_ALL = (
    '<allow user="*"/><allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/>'
)

CONFIGURATION = """[main]
plugins=keyfile
dhcp=internal
dns=none
rc-manager=unmanaged
hostname-mode=none
auth-polkit=false
no-auto-default={no_auto_default}
[connectivity]
enabled=false
[keyfile]
unmanaged-devices=interface-name:far*
"""

HOLDER_SCRIPT = """set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 nictop /run
mkdir /run/etc /run/work
if ! mount -t overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work nictop /etc 2>/dev/null; then
  cp -a /etc/. /run/etc/
  mount --bind /run/etc /etc
fi
for place in "$@"; do mount -t tmpfs -o mode=755 nictop "$place"; done
test -n "$WRITABLE_SYS" || mount -o remount,bind,ro /sys
mkdir -p /etc/NetworkManager/conf.d /etc/NetworkManager/system-connections
echo ready
exec cat
"""


class Bus:
    """A private dbus-daemon; `rules` are elements of its default policy."""

    def __init__(self, directory: Path, rules: str = ALLOW_ALL) -> None:
        self.socket = directory / "bus"
        configuration = directory / "bus.conf"
        configuration.write_text(BUS_CONFIGURATION.format(socket=self.socket, rules=rules))
        directory.chmod(0o755)
        self.process = subprocess.Popen(
            [
                "dbus-daemon",
                f"--config-file={configuration}",
                "--nofork",
                "--nopidfile",
                "--print-address=1",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        if (
            not self.process.stdout.readline()
        ):  # dbus-daemon prints its address once it accepts connections
            self.end()
            raise AssertionError("dbus-daemon did not start")

    @property
    def address(self) -> str:
        return f"unix:path={self.socket}"

    def end(self) -> None:
        _end(self.process)


class PrivateNetworkManager:
    """`namespace`: its network namespace. `start` and `stop` can be called repeatedly; `remove`
    ends everything. `writable_sys`: leave /sys writable, when NetworkManager is not started."""

    def __init__(
        self, namespace: Namespace, *, no_auto_default: str = "", writable_sys: bool = False
    ) -> None:
        self.namespace = namespace
        self._directory = tempfile.TemporaryDirectory(prefix="nictop-")
        directory = Path(self._directory.name)
        self.bus = Bus(directory)
        self.daemon: subprocess.Popen[bytes] | None = None
        self._log = directory / "log"
        self._holder = subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                namespace.name,
                "unshare",
                "--mount",
                "--uts",
                "sh",
                "-c",
                HOLDER_SCRIPT,
                "sh",
                *TMPFS_DIRECTORIES,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "WRITABLE_SYS": "1" if writable_sys else ""},
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self.remove()
            raise AssertionError("the mount namespace of NetworkManager could not be set up")
        self.write(
            "/etc/NetworkManager/NetworkManager.conf",
            CONFIGURATION.format(no_auto_default=no_auto_default),
        )

    @property
    def prefix(self) -> list[str]:
        """Arguments before a command that run it in the namespaces and on the bus of this
        NetworkManager."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", "--uts"]
        return [
            *enter,
            "env",
            f"DBUS_SYSTEM_BUS_ADDRESS={self.bus.address}",
            f"PATH={PROGRAM_PATH}",
            "LC_ALL=C.UTF-8",
        ]

    @property
    def pid(self) -> int:
        assert self.daemon is not None
        return self.daemon.pid

    def start(self) -> None:
        """Start NetworkManager and wait until it answers on the bus; it has then begun to set up
        the links."""
        with self._log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, DAEMON, "--no-daemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_for(self.is_running)

    def stop(self) -> None:
        """Kill the daemon: its link configuration stays, state that is only in its memory is
        lost."""
        if self.daemon is not None:
            _end(self.daemon)
            self.daemon = None

    def is_running(self) -> bool:
        assert self.daemon is not None
        if self.daemon.poll() is not None:
            raise AssertionError(
                f"NetworkManager ended: {self._log.read_text(errors='replace')[-2000:]}"
            )
        state = self.property(ROOT, SERVICE, "State")
        return isinstance(state, int) and state >= NM_STATE_ASLEEP

    def call(
        self, path: str, interface: str, method: str, signature: str = "", *body: object
    ) -> tuple[Any, ...]:
        """Body of NetworkManager's D-Bus reply; empty on an error reply or when it does not run.
        For polling: ten times cheaper than nmcli."""
        message = jeepney.new_method_call(
            jeepney.DBusAddress(path, SERVICE, interface), method, signature or None, body
        )
        message.header.flags = jeepney.MessageFlag.no_auto_start
        try:
            with open_dbus_connection(self.bus.address) as connection:
                answer = connection.send_and_get_reply(message, timeout=TEST_TIMEOUT)
        except (ConnectionError, FileNotFoundError):
            return ()
        return () if answer.header.message_type is jeepney.MessageType.error else tuple(answer.body)

    def property(self, path: str, interface: str, name: str) -> Any:
        """One property of a D-Bus object of NetworkManager; None when the object does not exist."""
        body = self.call(path, PROPERTIES, "Get", "ss", interface, name)
        return body[0][1] if body else None

    def run(self, argv: list[str], *, check: bool = True, input: str | None = None) -> str:
        """Standard output of a command run in the namespaces; AssertionError with its error output
        when it fails."""
        whole = [*self.prefix, *argv]
        done = subprocess.run(
            whole, capture_output=True, input=input, text=True, check=False, timeout=60
        )
        if check and done.returncode:
            raise AssertionError(f"{argv}: status {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def shell(self, line: str) -> str:
        """Run one shell line in the namespaces, for example one that nictop printed."""
        return self.run(["sh", "-c", line])

    def nmcli(self, *words: str, check: bool = True) -> str:
        """Output of ``nmcli --terse``."""
        return self.run(["nmcli", "--terse", *words], check=check)

    def write(self, path: str, text: str) -> None:
        """Write a file in the mount namespace with mode 0600, which NetworkManager requires for
        profiles."""
        place = self.outside_path(path)
        place.touch(0o600)
        place.write_text(text)

    def outside_path(self, path: str) -> Path:
        """The path by which processes outside reach a file of the mount namespace."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def add_link(self, name: str, *, peer_up: bool = True) -> None:
        """Add a veth whose peer is named ``far…``; with `peer_up` the link has a carrier as soon as
        it is up itself."""
        peer = f"far{name}"[:15]
        self.namespace.run(
            ["ip", "link", "add", "name", name, "type", "veth", "peer", "name", peer]
        )
        if peer_up:
            self.namespace.run(["ip", "link", "set", "dev", peer, "up"])

    def device_property(self, name: str, what: str) -> Any:
        """A property of a device; None when the device does not exist."""
        path = self.call(ROOT, SERVICE, "GetDeviceByIpIface", "s", name)
        return self.property(path[0], f"{SERVICE}.Device", what) if path else None

    def device_state(self, name: str) -> int:
        """NM_DEVICE_STATE_*; 0 when the device does not exist."""
        return int(self.device_property(name, "State") or 0)

    def active_profile(self, name: str, what: str = "Uuid") -> str:
        """UUID (or Id) of the profile that is active or being activated on a device; empty:
        none."""
        active = self.device_property(name, "ActiveConnection")
        return (
            str(self.property(active, f"{SERVICE}.Connection.Active", what) or "") if active else ""
        )

    def only_describes(self, name: str) -> bool:
        """Whether others have configured the device: NM_ACTIVATION_STATE_FLAG_EXTERNAL."""
        active = self.device_property(name, "ActiveConnection")
        if not active:
            return False
        flags = self.property(active, f"{SERVICE}.Connection.Active", "StateFlags")
        return bool(int(flags or 0) & 0x80)

    def has_started(self) -> bool:
        """Whether NetworkManager has finished its start-up (property Startup)."""
        return self.property(ROOT, SERVICE, "Startup") is False

    def profiles(self) -> list[str]:
        """UUIDs of all profiles except that of lo."""
        found = []
        for path in self.call(f"{ROOT}/Settings", f"{SERVICE}.Settings", "ListConnections")[0]:
            settings = self.call(path, f"{SERVICE}.Settings.Connection", "GetSettings")
            if (
                settings and settings[0]["connection"]["type"][1] != "loopback"
            ):  # empty: deleted since ListConnections
                found.append(settings[0]["connection"]["uuid"][1])
        return found

    def wait_for(self, condition: Callable[[], object], limit: float = TEST_TIMEOUT) -> None:
        """Poll until `condition` is true; AssertionError with the end of the log after `limit`
        seconds."""
        try:
            wait_until(condition, limit, POLL_SECONDS)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {self._log.read_text(errors='replace')[-3000:]}"
            ) from None

    def remove(self) -> None:
        self.stop()
        assert self._holder.stdin is not None
        self._holder.stdin.close()  # the holder runs cat, which ends with its input
        _end(self._holder)
        self.bus.end()
        self._directory.cleanup()


@contextmanager
def private_networkmanager(
    *links: str, no_auto_default: str = ""
) -> Iterator[PrivateNetworkManager]:
    """A running NetworkManager in a new namespace with `links`, whose peers are up."""
    namespace = Namespace()
    try:
        manager = PrivateNetworkManager(namespace, no_auto_default=no_auto_default)
        try:
            for link in links:
                manager.add_link(link)
            manager.start()
            yield manager
        finally:
            manager.remove()
    finally:
        namespace.remove()


@functools.lru_cache
def why_no_networkmanager() -> str | None:
    """The reason why NetworkManager cannot be started here; None when it can."""
    reason = why_no_namespaces()
    if reason is not None:
        return reason
    tools = (DAEMON, "nmcli", "dbus-daemon", "nsenter", "unshare")
    missing = [tool for tool in tools if not shutil.which(tool, path=PROGRAM_PATH)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    absent = [place for place in TMPFS_DIRECTORIES if not os.path.isdir(place)]
    return f"no directory {', '.join(absent)}" if absent else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL also ends a stopped process."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(TEST_TIMEOUT)
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            stream.close()
