"""``nictop lab``: real namespaces with every option, and nothing that remains however it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from nictop.lab.request import FAULTS
from tests.cli.test_faults import NICTOP
from tests.conftest import why_no_namespace
from tests.support.namespaces import ROOT
from tests.support.probe import TEST_TIMEOUT, wait_until
from tests.support.terminal import TerminalProgram

pytestmark = pytest.mark.skipif(why_no_namespace() is not None, reason=why_no_namespace() or "")

SIZE = (120, 36)
NOBODY = 65534
REACH = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as probe:
    probe.settimeout(20)
    print(probe.connect_ex((sys.argv[1], 9)))
"""
"""A closed port refuses: the packets arrive, and so do the answers."""
REFUSED = "111"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Environment of nictop with a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(tmp_path), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


def run(
    words: Sequence[str], home: dict[str, str], cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """A program that ends by itself, without stdin."""
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
        cwd=cwd,
        env=home,
        check=False,
    )


def lab(home: dict[str, str], *options: str, line: str) -> str:
    """What a line of a shell prints in the lab. Skips the test if the kernel lacks a part."""
    done = run([*NICTOP, "lab", *options, "--", "sh", "-c", line], home)
    lacking = re.match(r"nictop: (this kernel has no .*)", done.stderr)
    if lacking is not None:
        assert "it needs CONFIG_" in done.stderr
        pytest.skip(lacking[1])
    assert done.returncode == 0, done.stderr
    return done.stdout


def reach(host: str, address: str) -> str:
    """A line of a shell that prints `REFUSED`."""
    return f"ip netns exec {host} {sys.executable} -c '{REACH}' {address}; "


def links(home: dict[str, str], *options: str, host: str, fault: str = "") -> dict[str, Any]:
    """Name → link with addresses and qdisc, as ip(8) has it."""
    faults = ["--fault", fault] if fault else []
    printed = lab(home, *options, *faults, line=f"ip -d -j -n {host} address show")
    return {one["ifname"]: one for one in json.loads(printed)}


# ------------------------------------------------------------------------------------------ network


@pytest.mark.parametrize(
    ("options", "far"),
    [
        (("--join", "veth"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--join", "bridge"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--join", "veth", "--hosts", "3"), ("c", "198.18.1.3", "fd6e:6963:746f:1::3")),
        (("--join", "bridge", "--hosts", "3"), ("c", "198.18.0.3", "fd6e:6963:746f:0::3")),
        (("--rate", "100"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--mtu", "9000"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--delay", "3", "--loss", "0.1"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--vlan", "5"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
        (("--vlan", "5", "--join", "bridge"), ("b", "198.18.0.2", "fd6e:6963:746f:0::2")),
    ],
    ids=" ".join,
)
def test_the_hosts_reach_each_other(
    home: dict[str, str], options: tuple[str, ...], far: tuple[str, str, str]
) -> None:
    host, *addresses = far
    line = "".join(reach("a", address) for address in addresses)
    assert lab(home, *options, line=line + reach(host, "198.18.0.1")).split() == [REFUSED] * 3


@pytest.mark.parametrize("join", ["veth", "bridge"])
def test_mtu(home: dict[str, str], join: str) -> None:
    for host, name in (("a", "lab0"), *([("switch", "br0")] if join == "bridge" else [])):
        assert links(home, "--mtu", "4000", "--join", join, host=host)[name]["mtu"] == 4000


def test_rate(home: dict[str, str]) -> None:
    printed = lab(home, "--rate", "2.5", line="tc -j -n a qdisc show dev lab0")
    (qdisc,) = json.loads(printed)
    assert (qdisc["kind"], qdisc["options"]["rate"]) == ("tbf", 312_500)


def test_delay_loss_and_rate(home: dict[str, str]) -> None:
    options = ("--delay", "20", "--loss", "1", "--rate", "10")
    netem, tbf = json.loads(lab(home, *options, line="tc -j -n b qdisc show dev lab0"))
    assert (netem["kind"], tbf["kind"], tbf["parent"]) == ("netem", "tbf", "1:1")
    assert netem["options"]["delay"]["delay"] == pytest.approx(0.02, rel=1e-4)
    assert netem["options"]["loss-random"]["loss"] == pytest.approx(0.01, rel=1e-4)
    assert tbf["options"]["rate"] == 1_250_000


def test_vlan(home: dict[str, str]) -> None:
    found = links(home, "--vlan", "7", host="a")
    assert found["lab0.7"]["linkinfo"]["info_data"]["id"] == 7
    assert found["lab0.7"]["addr_info"] and found["lab0"]["operstate"] == "UP"


# ------------------------------------------------------------------------------------------- faults

FAULT_RULES = {
    "mtu": "veth_ends_have_different_mtus",
    "prefix-length": "prefix_length_differs",
    "duplicate-address": "ip_address_is_on_two_hosts",
    "arp": "arp_is_off",
    "route": "route_refuses_a_watched_host",
    "down": "configured_link_is_down",
    "no-address": "nothing_configures_the_nic",
}
"""Fault → rule that finds it."""


def check(*more: str) -> str:
    hosts = " ".join(f"local/netns:{name}" for name in ("a", "b", *more))
    return f"{' '.join(NICTOP)} check --format json --fail-on critical {hosts} || test $? = 1"


def rules_found(printed: str) -> set[str]:
    return {finding["rule"] for finding in json.loads(printed)["findings"]}


@pytest.mark.parametrize("fault", FAULT_RULES)
@pytest.mark.parametrize(("join", "more"), [("veth", ()), ("bridge", ("switch",))])
def test_a_fault_is_found(
    home: dict[str, str], join: str, more: tuple[str, ...], fault: str
) -> None:
    """On a bridge, too, if it is watched: until the hosts have exchanged packets only it tells that
    both are on it."""
    options = ("--join", join, "--fault", fault)
    expected = {FAULT_RULES[fault]}
    if (join, fault) == ("bridge", "down"):
        expected.add("bridge_port_to_a_watched_host_is_down")
    assert rules_found(lab(home, *options, line=check(*more))) == expected


def test_the_gateway_of_a_chain_that_has_lost_its_address_is_found(home: dict[str, str]) -> None:
    """By the host with the route, although nobody has asked for it yet."""
    printed = lab(home, "--hosts", "3", "--fault", "no-address", line=check("c"))
    found = [
        (one["host"], one["subject"], one["title"])
        for one in json.loads(printed)["findings"]
        if one["rule"] == "gateway_is_on_no_watched_host"
    ]
    (first, *_) = found
    assert first == (
        "local/netns:a",
        "lab0",
        "gateway 198.18.0.2 of 198.18.1.0/24: no watched host has this address",
    )
    assert {host for host, _, _ in found} == {"local/netns:a"}


@pytest.mark.parametrize(
    ("place", "nic", "title"),
    [
        ("switch", "b", "administratively down, and local/netns:b lab0 is behind it"),
        (
            "b",
            "lab0",
            "no carrier: local/netns:b lab0, which is behind it, is administratively down",
        ),
    ],
)
def test_a_port_of_the_switch_says_why_it_passes_nothing(
    home: dict[str, str], place: str, nic: str, title: str
) -> None:
    down, up = (f"ip netns exec {place} ip link set dev {nic} {word}" for word in ("down", "up"))
    both = f"{down}; {check('switch')}; {up}; {check('switch')}"
    before, after = documents(lab(home, "--join", "bridge", line=both))
    found = {one["rule"]: one for one in before["findings"]}
    port = found["bridge_port_to_a_watched_host_is_down"]
    assert (port["host"], port["subject"], port["title"]) == ("local/netns:switch", "b", title)
    assert "bridge_port_to_a_watched_host_is_down" not in {one["rule"] for one in after["findings"]}


@pytest.mark.parametrize(
    ("rule", "settings", "ended"),
    [
        (
            "isolated_ports_separate_watched_hosts",
            ("dev a isolated on", "dev b isolated on"),
            ("dev a isolated off",),
        ),
        (
            "bridge_port_holds_back_frames",
            ("dev a learning off flood off locked on",),
            ("dev a learning on", "dev a locked off"),
        ),
        ("bridge_port_holds_back_frames", ("dev a bcast_flood off",), ("dev a bcast_flood on",)),
    ],
)
def test_settings_of_a_port_that_separate_hosts_are_found(
    home: dict[str, str], rule: str, settings: Sequence[str], ended: Sequence[str]
) -> None:
    forget = "ip link set dev a type bridge_slave fdb_flush"
    set_up, set_back = (
        "; ".join(f"bridge link set {one}" for one in several) for several in (settings, ended)
    )
    typed = f"ip netns exec switch sh -c '{set_up}; {forget}'; {check('switch')}; "
    typed += f"ip netns exec switch sh -c '{set_back}'; {check('switch')}"
    before, after = documents(lab(home, "--join", "bridge", line=typed))
    assert rule in {one["rule"] for one in before["findings"]}
    assert rule not in {one["rule"] for one in after["findings"]}


def test_a_port_that_was_taken_from_the_bridge_is_found_in_a_recording(
    home: dict[str, str], tmp_path: Path
) -> None:
    program, file = " ".join(NICTOP), tmp_path / "recording.nictop"
    hosts = " ".join(f"local/netns:{name}" for name in ("a", "b", "switch"))
    checked = f"{program} check --format json --fail-on critical {file}"
    line = f"{program} record {file} {hosts} >/dev/null & recorder=$!; "
    line += f"until {program} show {file} >/dev/null 2>&1; do :; done; "
    line += "ip netns exec switch ip link set dev a nomaster; "
    line += f"until {checked} | grep -q taken_from_a_bridge; do :; done; "
    line += f"kill $recorder; wait; {checked} || test $? = 1"
    (found,) = [
        one
        for one in json.loads(lab(home, "--join", "bridge", line=line))["findings"]
        if one["rule"] == "port_was_taken_from_a_bridge"
    ]
    assert (found["host"], found["subject"]) == ("local/netns:switch", "a")
    assert found["title"] == "taken from br0, and local/netns:a lab0 is behind it"


def documents(printed: str) -> list[dict[str, Any]]:
    """JSON documents that follow each other."""
    decoder, found = json.JSONDecoder(), []
    while printed.strip():
        document, end = decoder.raw_decode(printed.lstrip())
        found.append(document)
        printed = printed.lstrip()[end:]
    return found


def test_an_unwatched_bridge_is_said_to_leave_duplicates_unchecked(home: dict[str, str]) -> None:
    options = ("--join", "bridge", "--fault", "duplicate-address")
    document = json.loads(lab(home, *options, line=check()))
    (skipped, *_) = document["skipped"]
    assert (skipped["rule"], skipped["subject"]) == ("ip_address_is_on_two_hosts", "lab0")
    assert "is also on local/netns:b lab0: not known whether both are in one" in skipped["reason"]


@pytest.mark.parametrize("order", [1, -1])
def test_two_faults_of_addresses_are_made_in_either_order(home: dict[str, str], order: int) -> None:
    faults = ("duplicate-address", "prefix-length")[::order]
    options = [word for fault in faults for word in ("--fault", fault)]
    addresses = links(home, *options, host="b")["lab0"]["addr_info"]
    found = {(one["local"], one["prefixlen"]) for one in addresses if one["family"] == "inet"}
    assert found == {("198.18.0.1", 24), ("198.18.0.2", 25)}


def test_the_difference_of_two_hosts_has_what_is_between_them(home: dict[str, str]) -> None:
    line = f"{' '.join(NICTOP)} diff --format json local/netns:a local/netns:b || test $? = 1"
    found = json.loads(lab(home, "--fault", "route", line=line))["diff"]["findings"]
    (refused,) = [one for one in found if one["rule"] == FAULT_RULES["route"]]
    assert (refused["side"], refused["needs_both"]) == ("right", True)


def test_nothing_is_found_without_a_fault(home: dict[str, str]) -> None:
    options = ("--join", "bridge", "--hosts", "3")
    assert rules_found(lab(home, *options, line=check("c", "switch"))) == set()


def test_a_wrong_vlan_is_found(home: dict[str, str]) -> None:
    options = ("--join", "bridge", "--vlan", "5", "--fault", "vlan")
    found = rules_found(lab(home, *options, line=check("switch")))
    assert "vlan_is_not_on_the_bridge_port" in found


def test_down_and_no_address(home: dict[str, str]) -> None:
    assert links(home, host="b", fault="down")["lab0"]["operstate"] == "DOWN"
    assert links(home, host="b", fault="no-address")["lab0"]["addr_info"] == []
    assert FAULTS.keys() - FAULT_RULES.keys() == {"vlan"}


def test_a_fault_is_repaired(home: dict[str, str]) -> None:
    rule = FAULT_RULES["mtu"]
    fix = f"{' '.join(NICTOP)} fix local/netns:b {rule} --yes --allow-changes >&2"
    printed = lab(home, "--fault", "mtu", line=f"{fix} && {check()}")
    assert rules_found(printed) == set()


def test_faults_can_be_combined(home: dict[str, str]) -> None:
    found = links(home, "--fault", "mtu", host="b", fault="arp")["lab0"]
    assert found["mtu"] == 1400 and "NOARP" in found["flags"]


# ---------------------------------------------------------------------------------------- isolation


def test_names_exist_in_the_lab_only(home: dict[str, str]) -> None:
    printed = lab(home, "--join", "bridge", line="ls -A /run /run/netns; ls /sys/class/net")
    assert printed.splitlines()[:6] == ["/run:", "netns", "", "/run/netns:", "a", "b"]
    assert set(os.listdir("/sys/class/net")) <= set(printed.split()), "it has the machine's links"
    for folder, names in (
        ("/run/netns", {"a", "b", "switch"}),
        ("/sys/class/net", {"br0", "lab0"}),
    ):
        assert names.isdisjoint(os.listdir(folder)), folder


@contextmanager
def mounts_of(pid: int) -> Iterator[int]:
    """The mount namespace of a process, as the number of its inode. It is held open: the kernel
    gives the number of one that is gone to the next one, which may be that of another test."""
    with open(f"/proc/{pid}/ns/mnt") as held:
        yield os.fstat(held.fileno()).st_ino


def processes_in(mounts: int) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it has ended
            if os.stat(f"/proc/{name}/ns/mnt").st_ino == mounts:
                found.append(int(name))
    return found


EXIT_CODES = {signal.SIGINT: 0, signal.SIGKILL: -signal.SIGKILL}
"""SIGINT quits the screen, as q does."""
ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
def test_it_is_watched_and_nothing_remains_of_it(
    home: dict[str, str], ending: signal.Signals
) -> None:
    command = [*NICTOP, "lab", "--fault", "arp"]
    with TerminalProgram(command, ROOT, home, SIZE) as screen:
        screen.wait_for_text("ARP is off")
        assert "netns:a" in screen.text and "netns:b" in screen.text
        with mounts_of(screen.pid) as mounts:
            in_the_lab = processes_in(mounts)
            assert screen.pid in in_the_lab and os.getpid() not in in_the_lab
            os.kill(screen.pid, ending)
            code = screen.wait_for_end()
            wait_until(lambda: not processes_in(mounts))
    assert code == EXIT_CODES.get(ending, 128 + ending)


def test_a_command_is_the_process_itself(home: dict[str, str]) -> None:
    """Its exit code, its signals, and with it the lab ends."""
    process = subprocess.Popen(
        [*NICTOP, "lab", "--", "sh", "-c", "echo started; read line; exit 7"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=home,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    with mounts_of(process.pid) as mounts:
        assert processes_in(mounts) == [process.pid]
        process.communicate("\n", timeout=TEST_TIMEOUT)
        assert processes_in(mounts) == []
    assert process.returncode == 7


# ------------------------------------------------------------------------------------------- rights

AS_NOBODY = f"""
import ctypes, os, sys
sys.path.insert(0, {str(ROOT)!r})
from nictop.errors import NictopError
from nictop.lab.build import build_lab
from nictop.lab.mounts import enter_own_mounts
from nictop.lab.request import LabRequest
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: its /proc/self is its own again
try:
    enter_own_mounts()
except NictopError as error:
    sys.exit(error.with_hint)
build_lab(LabRequest(join="bridge"))
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Not as a command: nobody may not read this Python's library, and a command imports more."""


def test_a_user_needs_no_root_where_user_namespaces_are_allowed(home: dict[str, str]) -> None:
    line = "id -u; ip -n b -o address show dev lab0 | grep -c 198.18.0.2/24"
    done = run([sys.executable, "-c", AS_NOBODY, "sh", "-c", line], home, Path("/"))
    if "namespaces cannot be made here" in done.stderr:
        assert "sudo nictop lab" in done.stderr and "user.max_user_namespaces" in done.stderr
        pytest.skip("this kernel has no user namespaces for users")
    assert (done.stdout.split(), done.returncode) == (["0", "1"], 0), done.stderr


def test_without_the_rights_it_says_what_is_needed(home: dict[str, str]) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    words = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
    done = run([*words, *NICTOP, "lab", "--", "true"], home)
    assert done.returncode == 2
    assert done.stderr.startswith("nictop: namespaces cannot be made here: Operation not permitted")
    assert "CAP_SYS_ADMIN" in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "nictop: stdout is not a terminal\n  without a terminal, run a command in the lab"),
        (("--fault", "vlan"), "nictop: --fault vlan needs the VLAN"),
        (("--mtu", "1279"), "'1279' is not an MTU (1280 to 65535)"),
        (("--mtu", "65536"), "'65536' is not an MTU (1280 to 65535)"),
        (("--rate", "nan"), "'nan' is not a number of Mb/s (0.1 to 30000)"),
        (("--loss", "101"), "'101' is not a number of percent (0.001 to 100)"),
        (("--delay", "x"), "'x' is not a number of milliseconds (0.001 to 10000)"),
        (("--vlan", "4095"), "'4095' is not a VLAN (1 to 4094)"),
        (("--", "/no/such"), "nictop: cannot start /no/such: No such file or directory"),
    ],
)
def test_what_is_not_possible_is_one_sentence(
    home: dict[str, str], words: tuple[str, ...], sentence: str
) -> None:
    done = run([*NICTOP, "lab", *words], home)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr and "Traceback" not in done.stderr
