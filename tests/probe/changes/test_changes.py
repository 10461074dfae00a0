"""Changing a host and taking it back, with real probes in network namespaces; what is there is read by other tools."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nictop.probe.changes.requests import ChangeCommand
from nictop.probe.records import ChangeRequest, Request
from nictop.wire.codec import encode_request
from tests.support.changes import (
    ADDRESS,
    CHANNELS,
    KINDS,
    LINK,
    MTU,
    PEER,
    QUEUES,
    SEVERAL,
    Changing,
    ProbeBySsh,
    changing,
    make_links_anew,
    other_tools,
    prepare_host,
    processes_in,
    ssh_command,
    state_of,
    wait_for_no_process_left,
)
from tests.support.namespaces import Namespace
from tests.support.probe import LIMIT, Probe, interpreters, wait_until
from tests.support.sshd import Sshd, skip_without_sshd

RTMGRP_IPV4_IFADDR, RTM_NEWADDR, RTM_DELADDR = 0x10, 20, 21


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    prepare_host(namespace)
    return namespace


def refused(change: Changing, step: str, **fields: object) -> str:
    change.ask(step, **fields)
    return change.said("refused").text


# ------------------------------------------------------------------------------------------- the gate


def test_a_probe_that_only_reads(host: Namespace) -> None:
    """Whatever it is asked. Over SSH it has nothing that could change anything (tests/wire/ssh/test_bundle.py)."""
    old = state_of(host)
    with Probe("--interval", "60", namespace=host) as probe:
        change = Changing(probe)
        for step in ("prepare", "apply", "keep", "undo", "nonsense"):
            assert "only reads" in refused(change, step, actions=MTU, fingerprint="f", keep_within=5, twice=True)
        wait_for_no_process_left(host, probe.process.pid)
    assert state_of(host) == old


def test_what_crosses_the_wire_is_what_the_probe_takes() -> None:
    wish = ChangeRequest("a", "apply", (("ip", "link", "set", "dev", "x", "up"),), 7.5, "f" * 32, True)
    taken = ChangeCommand(json.loads(encode_request(Request(change=wish)))["change"])
    assert vars(taken) == vars(wish)


def test_only_root_changes_anything(host: Namespace) -> None:
    for python in ("/usr/bin/python3", sys.executable):
        try:
            with Probe("--interval", "60", "--allow-changes", python=python, user=65534) as probe:
                assert "does not run as root" in refused(Changing(probe), "prepare", actions=MTU)
            break
        except (OSError, AssertionError):
            continue
    else:
        pytest.skip("a plain user can read no Python here, or not the sources")


# ------------------------------------------------------------------------------------------- one change


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_shown_made_and_kept_or_taken_back(host: Namespace, kind: str) -> None:
    """Nothing is changed by showing it; what was shown is what ip, ethtool and cat see then."""
    actions = KINDS[kind]
    old = state_of(host)
    other_tools(host, actions)
    new = state_of(host)
    make_links_anew(host)
    with changing(host) as change:
        shown = change.prepared(actions)
        assert state_of(host) == old
        assert [list(one.words) for one in shown.plan] == actions
        assert all(one.before and one.after and one.before != one.after and one.undo for one in shown.plan)
        assert not shown.needs_second_yes and not any(one.persistent for one in shown.plan)
        for step, end, state in (("undo", "undone", old), ("keep", "kept", new)):
            change.ask("apply", actions=actions, fingerprint=shown.fingerprint, keep_within=60)
            applied = change.said("applied")
            assert applied.deadline is not None and applied.deadline > applied.time + 59 and applied.plan == shown.plan
            assert state_of(host) == new
            change.ask(step)
            assert change.said("kept", "undone").kind == end
            assert state_of(host) == state
        kinds = [line.kind for line in change.heard]
        assert kinds == ["prepared", "applying", "applied", "undoing", "undone", "applying", "applied", "kept"]
        again = change.prepared(actions)
        assert all(one.before == one.after and not one.undo for one in again.plan), "nothing is left to do"
        wait_for_no_process_left(host, change.probe.process.pid)


def test_nobody_confirms(host: Namespace) -> None:
    """The host takes it back by itself when its time is over; a wish that comes too late changes nothing."""
    old = state_of(host)
    with changing(host) as change:
        change.apply(SEVERAL, keep_within=5)
        deadline = change.said("applied").deadline
        undone = change.said("undone")
        assert deadline is not None and undone.time >= deadline and "in time" in undone.text
        assert state_of(host) == old
        assert "no change of this name" in refused(change, "keep")
        assert state_of(host) == old


def test_something_fails_in_the_middle(host: Namespace) -> None:
    """What had been done before is taken back; the kernel's refusal is said."""
    old = state_of(host)
    beyond = "1" + 100 * ",00000000"  # a CPU that there is not, which shows only when it is tried
    with changing(host) as change:
        change.apply([*MTU, ["write", f"{QUEUES}/rx-0/rps_cpus", beyond], *ADDRESS])
        failed = change.said("failed")
        assert "rx-0/rps_cpus: Value too large" in failed.text
        assert change.end() == "undone"
        assert state_of(host) == old
        assert "applied" not in [line.kind for line in change.heard]


def test_steering_of_queues_that_go_comes_back_with_them(host: Namespace) -> None:
    """The kernel forgets the masks of queues that it removes."""
    old = state_of(host)
    assert "rx-2/rps_cpus\n3" in old
    with changing(host) as change:
        assert len(change.prepared(CHANNELS).plan[0].undo) > 1
        change.apply(CHANNELS)
        change.said("applied")
        assert "rx-2" not in state_of(host)
        change.ask("undo")
        assert change.end() == "undone"
    assert state_of(host) == old


def test_a_queue_that_comes_with_its_channels_can_be_steered(host: Namespace) -> None:
    host.run(["ethtool", "-L", LINK, "rx", "1", "tx", "1"])
    old = state_of(host)
    actions = [["ethtool", "-L", LINK, "rx", "4"], ["write", f"{QUEUES}/rx-3/rps_cpus", "1"]]
    with changing(host) as change:
        plan = change.prepared(actions).plan
        assert (plan[1].before, plan[1].after, plan[1].undo) == ("not there yet", "rx-3/rps_cpus 1", ())
        assert "no rps_cpus" in refused(change, "prepare", actions=actions[1:])
        change.apply(actions)
        change.said("applied")
        assert host.run(["cat", f"{QUEUES}/rx-3/rps_cpus"]).strip() == "1"
        change.ask("undo")
        assert change.end() == "undone"
    assert state_of(host) == old


# ------------------------------------------------------------------------------------------- refusals


def test_the_host_has_changed_since(host: Namespace) -> None:
    with changing(host) as change:
        fingerprint = change.prepared(MTU).fingerprint
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        assert "has changed since" in refused(
            change, "apply", actions=MTU, fingerprint=fingerprint, keep_within=5, twice=True
        )
        other = change.prepared(ADDRESS).fingerprint
        assert "has changed since" in refused(change, "apply", actions=MTU, fingerprint=other, keep_within=5)
    assert json.loads(host.run(["ip", "-j", "link", "show", "dev", LINK]))[0]["mtu"] == 1400


def test_two_probes_and_one_link(host: Namespace) -> None:
    """The second one is refused, shown before or not, and told who was first; another link is nobody's business."""
    old = state_of(host)
    with changing(host) as first, changing(host) as second:
        shown = second.prepared(ADDRESS)
        first.apply(MTU)
        first.said("applied")
        holders = set(processes_in(host)) - {first.probe.process.pid, second.probe.process.pid}
        for step in ("prepare", "apply"):
            said = refused(second, step, actions=ADDRESS, fingerprint=shown.fingerprint, keep_within=5)
            assert any(f"another change of {LINK} is under way: process {pid} of " in said for pid in holders), said
        assert "another change under way" in refused(first, "prepare", actions=ADDRESS)
        elsewhere = [["ip", "link", "set", "dev", PEER, "mtu", "1400"]]
        second.apply(elsewhere)
        second.said("applied")
        second.ask("keep")
        assert second.end() == "kept"
        first.ask("undo")
        assert first.end() == "undone"
        second.apply(ADDRESS)
        second.said("applied")
    wait_for_no_process_left(host)
    assert state_of(host) == old


def test_what_makes_no_sense_here(host: Namespace) -> None:
    host.run(["ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.1", "dev", LINK])
    with changing(host) as change:
        for words, why in (
            ("ip link set dev nic9 mtu 1400", "no interface nic9"),
            (f"ip link set dev {LINK} mtu 67", "from 68 to"),
            (f"ethtool -L {LINK} combined 2", "no combined"),
            (f"ethtool -L {LINK} rx 5", "at most 4"),
            (f"ethtool -G {LINK} rx 512", "rings"),
            (f"ethtool -C {LINK} rx-usecs 10", "coalescing"),
            (f"ethtool -K {LINK} lro on", "no feature lro"),
            (f"ip link set dev {LINK} vf 0 trust on", "no VF 0"),
            (f"write {QUEUES}/rx-7/rps_cpus 1", "no rps_cpus"),
            (f"write /sys/class/net/{LINK}/device/sriov_numvfs 2", "no sriov_numvfs"),
            (f"ip address del 192.0.2.7/24 dev {LINK}", "take a route"),
            ("reboot now", "nothing else"),
        ):
            assert why in refused(change, "prepare", actions=[words.split()]), words
        assert "two actions set mtu" in refused(change, "prepare", actions=[*MTU, *MTU])
        assert "no change of this name" in refused(change, "keep")
        assert "step" in refused(change, "nonsense")
        change.name = "another id"
        change.probe.ask({"change": {"id": "another id", "step": "prepare", "actions": MTU}})
        answer = change.probe.until(lambda line: line.change).change
        assert answer is not None and answer.kind == "refused" and "id" in answer.text and not answer.id


def test_the_default_route_asks_twice(host: Namespace) -> None:
    host.run(["ip", "route", "add", "default", "via", "192.0.2.1", "dev", LINK])
    old = state_of(host)
    with changing(host) as change:
        shown = change.prepared(MTU)
        assert shown.needs_second_yes and f"the default route goes over {LINK}" in shown.plan[0].disturbs
        wish = {"actions": MTU, "fingerprint": shown.fingerprint, "keep_within": 5}
        assert "only once" in refused(change, "apply", **wish)
        assert state_of(host) == old
        assert not change.prepared([["write", f"{QUEUES}/rx-0/rps_cpus", "1"]]).needs_second_yes
        change.ask("apply", twice=True, **wish)
        change.said("applied")
    wait_for_no_process_left(host)
    assert state_of(host) == old


# ------------------------------------------------------------------------------------------- over the very link


@pytest.fixture
def door(namespace: Namespace, tmp_path: Path) -> Iterator[tuple[Namespace, Sshd]]:
    """Another namespace, and an sshd in `namespace` that it reaches over a veth pair."""
    skip_without_sshd()
    if shutil.which("ssh") is None:
        pytest.skip("openssh-client is not installed")
    client = Namespace()
    server = None
    try:
        for place in (client, namespace):
            place.silence()
        client.run(["ip", "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", namespace.name])
        for place, name, address in ((client, "near", "192.0.2.1/24"), (namespace, "far", "192.0.2.2/24")):
            place.run(["ip", "address", "add", address, "dev", name])
            place.run(["ip", "link", "set", "dev", name, "up"])
        server = Sshd(tmp_path, address="192.0.2.2", namespace=namespace)
        server.python(sys.executable)
        yield client, server
    finally:
        if server is not None:
            server.stop()
        client.remove()


def addresses(namespace: Namespace, name: str) -> list[str]:
    (link,) = json.loads(namespace.run(["ip", "-j", "address", "show", "dev", name]))
    return [one["local"] for one in link["addr_info"]]


@pytest.fixture
def address_events(namespace: Namespace) -> Iterator[socket.socket]:
    """What the kernel says of IPv4 addresses in the namespace, as `until_address` takes it."""
    heard = namespace.inside(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE))
    with heard:
        heard.settimeout(LIMIT)
        heard.bind((0, RTMGRP_IPV4_IFADDR))
        yield heard


def until_address(heard: socket.socket, kind: int, address: str) -> None:
    """Wait for a message of this kind about the address."""
    while True:
        message = heard.recv(65536)
        if int.from_bytes(message[4:6], sys.byteorder) == kind and socket.inet_aton(address) in message:
            return


@contextmanager
def pinging(probe: Probe) -> Iterator[None]:
    """The probe hears something all the time, as long as there is a way to it."""
    over = threading.Event()

    def ping() -> None:
        with suppress(OSError):
            while not over.wait(0.1):
                probe.ask({"ping": 1})

    pinger = threading.Thread(target=ping)
    pinger.start()
    try:
        yield
    finally:
        over.set()
        pinger.join()


@pytest.mark.parametrize(
    ("heartbeat", "keep_within"), [("4", 300), ("60", 5)], ids=["the probe gives up", "the deadline comes"]
)
def test_the_address_that_the_connection_uses(
    door: tuple[Namespace, Sshd],
    namespace: Namespace,
    address_events: socket.socket,
    heartbeat: str,
    keep_within: float,
) -> None:
    """It is gone, the connection with it, and back by itself: at the deadline, or as soon as the probe has given up."""
    client, server = door
    ssh = ["ip", "netns", "exec", client.name]
    ssh += ssh_command(server.address, server.port, server.user, server.key, server.known_hosts)
    wrong = [
        ["ip", "address", "add", "198.51.100.2/24", "dev", "far"],
        ["ip", "address", "del", "192.0.2.2/24", "dev", "far"],
    ]
    arguments = ["--interval", "60", "--heartbeat", heartbeat, "--allow-changes"]
    with ProbeBySsh(ssh, arguments) as probe:
        change = Changing(probe)
        with pinging(probe):
            shown = change.prepared(wrong)
            assert shown.needs_second_yes and "this very SSH connection goes over far" in shown.plan[1].disturbs
            change.ask("apply", actions=wrong, fingerprint=shown.fingerprint, keep_within=keep_within, twice=True)
            until_address(address_events, RTM_DELADDR, "192.0.2.2")
            until_address(address_events, RTM_NEWADDR, "192.0.2.2")
            until_address(address_events, RTM_DELADDR, "198.51.100.2")
        assert addresses(namespace, "far") == ["192.0.2.2"]
        if heartbeat == "60":
            assert change.end() == "undone", "the connection has outlived it, and says so"
    wait_until(lambda: not server.sessions())


@pytest.mark.parametrize(
    "python", interpreters(("python3.9", "python3.13")) or [pytest.param("", marks=pytest.mark.skip("no such Python"))]
)
def test_every_python_changes_and_takes_back(host: Namespace, python: str) -> None:
    old = state_of(host)
    with changing(host, python=python) as change:
        change.apply(SEVERAL)
        change.said("applied")
        assert state_of(host) != old
    wait_for_no_process_left(host)
    assert state_of(host) == old


def test_the_guard_has_left_the_session(host: Namespace) -> None:
    """None of the probe's descriptors, another session, and init or a reaper as its parent."""
    with changing(host) as change:
        change.apply(MTU)
        change.said("applied")
        probe = change.probe.process.pid
        session = os.getsid(probe)  # in which it makes inventories, too
        (guard,) = (pid for pid, its_session in processes_in(host).items() if its_session != session)
        own, others = (
            {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")} for pid in (guard, probe)
        )
        standard = {os.readlink(f"/proc/{probe}/fd/{number}") for number in (0, 1, 2)}
        assert not own & standard
        assert len({one for one in own & others if one.startswith("pipe:")}) == 2
        with open(f"/proc/{guard}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        assert parent != probe


def test_links_on_top_grow_again(host: Namespace) -> None:
    """The kernel shrinks them with the link below, and leaves them small."""
    if not host.try_link("link", LINK, "name", "top0", "type", "macvlan", "mode", "bridge"):
        pytest.skip("this kernel has no macvlan")

    def mtu() -> str:
        return host.run(["cat", "/sys/class/net/top0/mtu"]).strip()

    with changing(host) as change:
        change.apply([["ip", "link", "set", "dev", LINK, "mtu", "1300"]])
        change.said("applied")
        assert mtu() == "1300"
        change.ask("undo")
        assert change.end() == "undone"
    assert mtu() == "1500"


def test_what_could_not_be_taken_back_is_not_done(host: Namespace) -> None:
    """IPv6 addresses go with an MTU below 1280, secondary addresses with the first, and lent ones have their time."""
    host.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
    host.run(["ip", "address", "add", "2001:db8::7/64", "dev", LINK, "nodad"])
    host.run(["ip", "address", "add", "192.0.2.8/24", "dev", LINK])
    lent = ["valid_lft", "600", "preferred_lft", "600"]
    host.run(["ip", "address", "add", "203.0.113.7/24", "dev", LINK, *lent])
    with changing(host) as change:
        for words, why in (
            (f"ip link set dev {LINK} mtu 1279", "IPv6 addresses"),
            (f"ip address del 192.0.2.7/24 dev {LINK}", "192.0.2.8 along, which is secondary"),
            (f"ip address del 203.0.113.7/24 dev {LINK}", "was lent"),
        ):
            assert why in refused(change, "prepare", actions=[words.split()]), words
        assert change.prepared([["ip", "link", "set", "dev", LINK, "mtu", "1280"]])
        assert change.prepared([["ip", "address", "del", "192.0.2.8/24", "dev", LINK]])
