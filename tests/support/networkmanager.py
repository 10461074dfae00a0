"""A real NetworkManager on a bus of its own, in a network namespace: it sees no link of this machine and writes nothing
outside.

Inside, /run, /etc/NetworkManager and /var/lib/NetworkManager are empty file systems in memory, what is written to /etc
stays in memory, too, the host name is a copy (UTS namespace), resolv.conf is left alone, and /sys is read-only, so that
NetworkManager does not wait for udev. Links whose names begin with ``far`` are left unmanaged: other ends of veth
pairs.
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

from tests.support.namespaces import Namespace, why_impossible
from tests.support.probe import LIMIT, wait_until

DAEMON = "NetworkManager"
PLACES = ("/etc/NetworkManager", "/var/lib/NetworkManager", "/run")
PAUSE = 0.05
"""Seconds between two looks: some of them start a program."""
SERVICE, ROOT = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
PROPERTIES = "org.freedesktop.DBus.Properties"
STARTED = 10
"""NM_STATE_ASLEEP: the least state of a NetworkManager that runs."""
SEARCH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

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
OPEN = '<allow user="*"/><allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/>'

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

HOLD = """set -e
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

    def __init__(self, directory: Path, rules: str = OPEN) -> None:
        self.socket = directory / "bus"
        configuration = directory / "bus.conf"
        configuration.write_text(BUS_CONFIGURATION.format(socket=self.socket, rules=rules))
        directory.chmod(0o755)
        self.process = subprocess.Popen(
            ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile", "--print-address=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():  # the address is printed when it listens
            self.end()
            raise AssertionError("dbus-daemon did not start")

    @property
    def address(self) -> str:
        return f"unix:path={self.socket}"

    def end(self) -> None:
        _end(self.process)


class PrivateNetworkManager:
    """`namespace`: where it works. `start` and `stop` may be called again and again; `remove` ends everything.
    `writable_sys`: for a place in which it is not started."""

    def __init__(self, namespace: Namespace, *, no_auto_default: str = "", writable_sys: bool = False) -> None:
        self.namespace = namespace
        self._directory = tempfile.TemporaryDirectory(prefix="nictop-")
        directory = Path(self._directory.name)
        self.bus = Bus(directory)
        self.daemon: subprocess.Popen[bytes] | None = None
        self._log = directory / "log"
        self._holder = subprocess.Popen(
            ["ip", "netns", "exec", namespace.name, "unshare", "--mount", "--uts", "sh", "-c", HOLD, "sh", *PLACES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "WRITABLE_SYS": "1" if writable_sys else ""},
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self.remove()
            raise AssertionError("no place of its own could be made for NetworkManager")
        self.write("/etc/NetworkManager/NetworkManager.conf", CONFIGURATION.format(no_auto_default=no_auto_default))

    @property
    def prefix(self) -> list[str]:
        """Words to put before a command that shall see this NetworkManager, its files and its links."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", "--uts"]
        return [*enter, "env", f"DBUS_SYSTEM_BUS_ADDRESS={self.bus.address}", f"PATH={SEARCH}", "LC_ALL=C.UTF-8"]

    @property
    def pid(self) -> int:
        assert self.daemon is not None
        return self.daemon.pid

    def start(self) -> None:
        """Start it and wait until it answers on the bus; links found by then are being set up."""
        with self._log.open("ab") as log:
            self.daemon = subprocess.Popen(
                [*self.prefix, DAEMON, "--no-daemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_for(self.answers)

    def stop(self) -> None:
        """End the daemon as if it had been killed: what it set up stays, what it kept in memory only is lost."""
        if self.daemon is not None:
            _end(self.daemon)
            self.daemon = None

    def answers(self) -> bool:
        assert self.daemon is not None
        if self.daemon.poll() is not None:
            raise AssertionError(f"NetworkManager ended: {self._log.read_text(errors='replace')[-2000:]}")
        state = self.property(ROOT, SERVICE, "State")
        return isinstance(state, int) and state >= STARTED

    def call(self, path: str, interface: str, method: str, signature: str = "", *body: object) -> tuple[Any, ...]:
        """The body of NetworkManager's answer over the bus, empty when it refuses or does not run: for what is looked
        at again and again, since it costs a tenth of a program."""
        message = jeepney.new_method_call(
            jeepney.DBusAddress(path, SERVICE, interface), method, signature or None, body
        )
        message.header.flags = jeepney.MessageFlag.no_auto_start
        try:
            with open_dbus_connection(self.bus.address) as connection:
                answer = connection.send_and_get_reply(message, timeout=LIMIT)
        except (ConnectionError, FileNotFoundError):
            return ()
        return () if answer.header.message_type is jeepney.MessageType.error else tuple(answer.body)

    def property(self, path: str, interface: str, name: str) -> Any:
        """One property of an object of NetworkManager's; None when there is no such object."""
        body = self.call(path, PROPERTIES, "Get", "ss", interface, name)
        return body[0][1] if body else None

    def run(self, argv: list[str], *, check: bool = True, input: str | None = None) -> str:
        """Standard output of a command run inside; AssertionError with its complaint when it fails."""
        whole = [*self.prefix, *argv]
        done = subprocess.run(whole, capture_output=True, input=input, text=True, check=False, timeout=60)
        if check and done.returncode:
            raise AssertionError(f"{argv}: status {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def shell(self, line: str) -> str:
        """A line typed into a shell inside, for example one that nictop printed."""
        return self.run(["sh", "-c", line])

    def nmcli(self, *words: str, check: bool = True) -> str:
        """nmcli, terse."""
        return self.run(["nmcli", "--terse", *words], check=check)

    def write(self, path: str, text: str) -> None:
        """A file inside, readable by its owner only, as NetworkManager wants its profiles."""
        place = self.inside(path)
        place.touch(0o600)
        place.write_text(text)

    def inside(self, path: str) -> Path:
        """Where a file that is inside is for programs outside."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def add_link(self, name: str, *, peer_up: bool = True) -> None:
        """A veth whose other end is ``far…``; with `peer_up` it has a carrier as soon as it is up itself."""
        peer = f"far{name}"[:15]
        self.namespace.run(["ip", "link", "add", "name", name, "type", "veth", "peer", "name", peer])
        if peer_up:
            self.namespace.run(["ip", "link", "set", "dev", peer, "up"])

    def device(self, name: str, what: str) -> Any:
        """A property of a device; None: no such device."""
        path = self.call(ROOT, SERVICE, "GetDeviceByIpIface", "s", name)
        return self.property(path[0], f"{SERVICE}.Device", what) if path else None

    def device_state(self, name: str) -> int:
        """NM_DEVICE_STATE_*; 0: no such device."""
        return int(self.device(name, "State") or 0)

    def active_profile(self, name: str, what: str = "Uuid") -> str:
        """UUID (or Id) of the profile that is up or coming up on a device; empty: none."""
        active = self.device(name, "ActiveConnection")
        return str(self.property(active, f"{SERVICE}.Connection.Active", what) or "") if active else ""

    def is_at_rest(self) -> bool:
        """Whether it has done what there was to do at its start."""
        return self.property(ROOT, SERVICE, "Startup") is False

    def profiles(self) -> list[str]:
        """UUIDs of all profiles but that of lo."""
        found = []
        for path in self.call(f"{ROOT}/Settings", f"{SERVICE}.Settings", "ListConnections")[0]:
            settings = self.call(path, f"{SERVICE}.Settings.Connection", "GetSettings")
            if settings and settings[0]["connection"]["type"][1] != "loopback":  # else deleted meanwhile
                found.append(settings[0]["connection"]["uuid"][1])
        return found

    def wait_for(self, fact: Callable[[], object], limit: float = LIMIT) -> None:
        """Look again and again until `fact` is true; AssertionError with the end of the log after `limit` seconds."""
        try:
            wait_until(fact, limit, PAUSE)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._log.read_text(errors='replace')[-3000:]}") from None

    def remove(self) -> None:
        self.stop()
        assert self._holder.stdin is not None
        self._holder.stdin.close()  # the holder is a cat by then, or has ended
        _end(self._holder)
        self.bus.end()
        self._directory.cleanup()


@contextmanager
def private_networkmanager(*links: str, no_auto_default: str = "") -> Iterator[PrivateNetworkManager]:
    """A running NetworkManager in a namespace of its own with `links`, whose other ends are up."""
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
    """Why no NetworkManager can be started here; None when one can."""
    reason = why_impossible()
    if reason is not None:
        return reason
    tools = (DAEMON, "nmcli", "dbus-daemon", "nsenter", "unshare")
    missing = [tool for tool in tools if not shutil.which(tool, path=SEARCH)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    absent = [place for place in PLACES if not os.path.isdir(place)]
    return f"no directory {', '.join(absent)}" if absent else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL also ends what is stopped; the process leads a session of its own and leaves nothing behind."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(LIMIT)
    for stream in (process.stdin, process.stdout):
        if stream is not None and not stream.closed:
            stream.close()
