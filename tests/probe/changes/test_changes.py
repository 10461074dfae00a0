"""Changes and their undo with real probes in network namespaces; results are read by other
tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.plan.grammar.operation import IDENTIFIED_TEXT
from nictop.probe.plan.requests import ChangeCommand
from nictop.probe.records import ChangeRequest, Request
from nictop.wire.codec import encode_request
from tests.support.changes import (
    ADDRESS,
    CHANNELS,
    FEATURES,
    KINDS,
    LINK,
    MTU,
    PEER,
    QUEUES,
    SEVERAL_ACTIONS,
    Actions,
    ChangeClient,
    SshProbe,
    change_client,
    guards_in,
    prepare_host,
    processes_in,
    read_state,
    replace_links,
    run_without_nictop,
    ssh_command,
    wait_for_no_process_left,
    watchers_in,
)
from tests.support.namespaces import Namespace
from tests.support.probe import (
    TEST_TIMEOUT,
    Probe,
    SentProbe,
    is_alive,
    python_parameters,
    wait_until,
)
from tests.support.sshd import Sshd, skip_without_sshd

RTMGRP_IPV4_IFADDR, RTM_NEWADDR, RTM_DELADDR = 0x10, 20, 21


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    prepare_host(namespace)
    return namespace


def refused(change: ChangeClient, step: str, **fields: object) -> str:
    change.request(step, **fields)
    return change.wait_for("refused").text


# -------------------------------------------------------------------------------------- permissions


def test_encoded_request_equals_the_parsed_command() -> None:
    request = ChangeRequest(
        "a", "apply", (("ip", "link", "set", "dev", "x", "up"),), 7.5, "f" * 32, True
    )
    command = ChangeCommand(json.loads(encode_request(Request(change=request)))["change"])
    assert vars(command) == field_mapping(request)


def test_changes_need_root(host: Namespace) -> None:
    for python in ("/usr/bin/python3", sys.executable):
        try:
            with Probe("--interval", "60", "--allow-changes", python=python, user=65534) as probe:
                answer = refused(ChangeClient(probe), "prepare", actions=MTU)
            break
        except (OSError, AssertionError):
            continue
    else:
        pytest.skip("a plain user can read no Python here, or not the sources")
    assert "changes need root on the host: use --sudo" in answer


# --------------------------------------------------------------------------------------- one change


@pytest.mark.parametrize("kind", KINDS)
def test_prepare_apply_then_keep_or_undo(host: Namespace, kind: str) -> None:
    """ "prepare" changes nothing; the plan matches what ip, ethtool and cat read after "apply"."""
    actions = KINDS[kind]
    old = read_state(host)
    run_without_nictop(host, actions)
    new = read_state(host)
    replace_links(host)
    with change_client(host) as change:
        shown = change.prepare(actions)
        assert read_state(host) == old
        assert [list(one.words) for one in shown.plan] == actions
        assert all(
            one.before and one.after and one.before != one.after and one.undo for one in shown.plan
        )
        assert not shown.needs_second_yes and not any(one.persistent for one in shown.plan)
        for step, end, state in (("undo", "undone", old), ("keep", "kept", new)):
            change.request("apply", actions=actions, fingerprint=shown.fingerprint, keep_within=60)
            applied = change.wait_for("applied")
            assert (
                applied.deadline is not None
                and applied.deadline > applied.time + 59
                and applied.plan == shown.plan
            )
            assert read_state(host) == new
            change.request(step)
            assert change.wait_for("kept", "undone").kind == end
            assert read_state(host) == state
        kinds = [line.kind for line in change.received]
        assert kinds == [
            "prepared",
            "applying",
            "applied",
            "undoing",
            "undone",
            "applying",
            "applied",
            "kept",
        ]
        again = change.prepare(actions)
        assert all(one.before == one.after and not one.undo for one in again.plan), (
            "all settings have their values already"
        )
        wait_for_no_process_left(host, *change.probe.pids())


def test_change_is_undone_at_the_deadline(host: Namespace) -> None:
    """The host rolls back by itself; a later "keep" is refused and changes nothing."""
    old = read_state(host)
    with change_client(host) as change:
        change.apply(SEVERAL_ACTIONS, keep_within=5)
        deadline = change.wait_for("applied").deadline
        undone = change.wait_for("undone")
        assert deadline is not None and undone.time >= deadline and "in time" in undone.text
        assert read_state(host) == old
        assert "no such change in progress" in refused(change, "keep")
        assert read_state(host) == old


def test_failed_action_undoes_earlier_actions(host: Namespace) -> None:
    """The kernel's error is reported."""
    old = read_state(host)
    beyond = "1" + 100 * ",00000000"  # a CPU that does not exist: fails only when written
    with change_client(host) as change:
        change.apply([*MTU, ["write", f"{QUEUES}/rx-0/rps_cpus", beyond], *ADDRESS])
        failed = change.wait_for("failed")
        assert "rx-0/rps_cpus: Value too large" in failed.text
        assert change.wait_for_end() == "undone"
        assert read_state(host) == old
        assert "applied" not in [line.kind for line in change.received]


def test_steering_of_removed_queues_is_restored(host: Namespace) -> None:
    """The kernel drops the masks of queues that it removes."""
    old = read_state(host)
    assert "rx-2/rps_cpus\n3" in old
    with change_client(host) as change:
        assert len(change.prepare(CHANNELS).plan[0].undo) > 1
        change.apply(CHANNELS)
        change.wait_for("applied")
        assert "rx-2" not in read_state(host)
        change.request("undo")
        assert change.wait_for_end() == "undone"
    assert read_state(host) == old


def test_queue_created_by_the_same_change_can_be_steered(host: Namespace) -> None:
    host.run(["ethtool", "-L", LINK, "rx", "1", "tx", "1"])
    old = read_state(host)
    actions = [["ethtool", "-L", LINK, "rx", "4"], ["write", f"{QUEUES}/rx-3/rps_cpus", "1"]]
    with change_client(host) as change:
        plan = change.prepare(actions).plan
        assert (plan[1].before, plan[1].after, plan[1].undo) == ("none", "rx-3/rps_cpus 1", ())
        assert "no rps_cpus" in refused(change, "prepare", actions=actions[1:])
        change.apply(actions)
        change.wait_for("applied")
        assert host.run(["cat", f"{QUEUES}/rx-3/rps_cpus"]).strip() == "1"
        change.request("undo")
        assert change.wait_for_end() == "undone"
    assert read_state(host) == old


# ----------------------------------------------------------------------------------------- refusals


def test_apply_is_refused_after_the_host_has_changed(host: Namespace) -> None:
    with change_client(host) as change:
        fingerprint = change.prepare(MTU).fingerprint
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1400"])
        assert "has changed since" in refused(
            change, "apply", actions=MTU, fingerprint=fingerprint, keep_within=5, twice=True
        )
        other = change.prepare(ADDRESS).fingerprint
        assert "has changed since" in refused(
            change, "apply", actions=MTU, fingerprint=other, keep_within=5
        )
    assert json.loads(host.run(["ip", "-j", "link", "show", "dev", LINK]))[0]["mtu"] == 1400


def test_two_probes_cannot_change_one_link(host: Namespace) -> None:
    """The second is refused, prepared before or not, and receives the process of the first; other
    links are not locked."""
    old = read_state(host)
    with change_client(host) as first, change_client(host) as second:
        shown = second.prepare(ADDRESS)
        first.apply(MTU)
        first.wait_for("applied")
        guards = set(processes_in(host)) - {*first.probe.pids(), *second.probe.pids()}
        for step in ("prepare", "apply"):
            text = refused(
                second, step, actions=ADDRESS, fingerprint=shown.fingerprint, keep_within=5
            )
            assert any(
                f"another change of {LINK} is in progress: process {pid} of " in text
                for pid in guards
            ), text
        assert "another change is in progress" in refused(first, "prepare", actions=ADDRESS)
        other_link = [["ip", "link", "set", "dev", PEER, "mtu", "1400"]]
        second.apply(other_link)
        second.wait_for("applied")
        second.request("keep")
        assert second.wait_for_end() == "kept"
        first.request("undo")
        assert first.wait_for_end() == "undone"
        second.apply(ADDRESS)
        second.wait_for("applied")
    wait_for_no_process_left(host)
    assert read_state(host) == old


def test_impossible_actions_are_refused(host: Namespace) -> None:
    host.run(["ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.1", "dev", LINK])
    with change_client(host) as change:
        for words, reason in (
            ("ip link set dev nic9 mtu 1400", "no interface nic9"),
            (f"ip link set dev {LINK} mtu 67", "the MTU is not a number from 68 to"),
            (f"ethtool -L {LINK} combined 2", "no combined"),
            (f"ethtool -L {LINK} rx 5", "at most 4"),
            (f"ethtool -G {LINK} rx 512", "rings"),
            (f"ethtool -C {LINK} rx-usecs 10", "coalescing"),
            (f"ethtool -K {LINK} lro on", "no changeable feature lro"),
            (f"ip link set dev {LINK} vf 0 trust on", "no VF 0"),
            (f"write {QUEUES}/rx-7/rps_cpus 1", "no rps_cpus"),
            (f"write /sys/class/net/{LINK}/device/sriov_numvfs 2", "no sriov_numvfs"),
            (f"ip address del 192.0.2.7/24 dev {LINK}", "would also remove a route of"),
            (
                "reboot now",
                "only nmcli, ethtool, ip, bridge and writes to some kernel files are allowed",
            ),
        ):
            assert reason in refused(change, "prepare", actions=[words.split()]), words
        assert "two actions set mtu" in refused(change, "prepare", actions=[*MTU, *MTU])
        assert "no such change in progress" in refused(change, "keep")
        assert "step" in refused(change, "nonsense")
        change.name = "another id"
        change.probe.send({"change": {"id": "another id", "step": "prepare", "actions": MTU}})
        answer = change.probe.wait_for(lambda line: line.change).change
        assert (
            answer is not None
            and answer.kind == "refused"
            and "id" in answer.text
            and not answer.id
        )


def test_default_route_needs_second_confirmation(host: Namespace) -> None:
    host.run(["ip", "route", "add", "default", "via", "192.0.2.1", "dev", LINK])
    old = read_state(host)
    with change_client(host) as change:
        shown = change.prepare(MTU)
        assert shown.needs_second_yes and f"the default route uses {LINK}" in shown.plan[0].disturbs
        fields = {"actions": MTU, "fingerprint": shown.fingerprint, "keep_within": 5}
        assert "needs a second confirmation" in refused(change, "apply", **fields)
        assert read_state(host) == old
        assert not change.prepare([["write", f"{QUEUES}/rx-0/rps_cpus", "1"]]).needs_second_yes
        change.request("apply", twice=True, **fields)
        change.wait_for("applied")
    wait_for_no_process_left(host)
    assert read_state(host) == old


# ----------------------------------------------------------------------------------------- over SSH


@pytest.fixture
def ssh_server(namespace: Namespace, tmp_path: Path) -> Iterator[tuple[Namespace, Sshd]]:
    """A client namespace, and an sshd in `namespace` that it reaches over a veth pair."""
    skip_without_sshd()
    if shutil.which("ssh") is None:
        pytest.skip("openssh-client is not installed")
    client = Namespace()
    server = None
    try:
        for end in (client, namespace):
            end.disable_ipv6()
        client.run(
            [
                "ip",
                "link",
                "add",
                "near",
                "type",
                "veth",
                "peer",
                "name",
                "far",
                "netns",
                namespace.name,
            ]
        )
        for end, name, address in (
            (client, "near", "192.0.2.1/24"),
            (namespace, "far", "192.0.2.2/24"),
        ):
            end.run(["ip", "address", "add", address, "dev", name])
            end.run(["ip", "link", "set", "dev", name, "up"])
        server = Sshd(tmp_path, address="192.0.2.2", namespace=namespace)
        server.set_python(sys.executable)
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
    """A netlink socket with the IPv4 address events of the namespace, for
    `wait_for_address_message`."""
    messages = namespace.call(
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    )
    with messages:
        messages.settimeout(TEST_TIMEOUT)
        messages.bind((0, RTMGRP_IPV4_IFADDR))
        yield messages


def wait_for_address_message(messages: socket.socket, kind: int, address: str) -> None:
    """Wait for a message of the type `kind` about the address."""
    while True:
        message = messages.recv(65536)
        if (
            int.from_bytes(message[4:6], sys.byteorder) == kind
            and socket.inet_aton(address) in message
        ):
            return


@contextmanager
def pinging(probe: Probe) -> Iterator[None]:
    """The probe receives requests all the time, as long as it is reachable."""
    stop = threading.Event()

    def ping() -> None:
        with suppress(OSError):
            while not stop.wait(0.1):
                probe.send({"ping": 1})

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("heartbeat", "keep_within"), [("4", 300), ("60", 5)], ids=["heartbeat", "deadline"]
)
def test_deleting_the_address_of_the_ssh_connection(
    ssh_server: tuple[Namespace, Sshd],
    namespace: Namespace,
    address_events: socket.socket,
    heartbeat: str,
    keep_within: float,
) -> None:
    """The address is restored at the deadline, or as soon as the probe ends by its heartbeat."""
    client, server = ssh_server
    ssh = ["ip", "netns", "exec", client.name]
    ssh += ssh_command(server.address, server.port, server.user, server.key, server.known_hosts)
    actions = [
        ["ip", "address", "add", "198.51.100.2/24", "dev", "far"],
        ["ip", "address", "del", "192.0.2.2/24", "dev", "far"],
    ]
    arguments = ["--interval", "60", "--heartbeat", heartbeat, "--allow-changes"]
    with SshProbe(ssh, arguments) as probe:
        change = ChangeClient(probe)
        with pinging(probe):
            shown = change.prepare(actions)
            assert (
                shown.needs_second_yes and "this SSH connection uses far" in shown.plan[1].disturbs
            )
            change.request(
                "apply",
                actions=actions,
                fingerprint=shown.fingerprint,
                keep_within=keep_within,
                twice=True,
            )
            wait_for_address_message(address_events, RTM_DELADDR, "192.0.2.2")
            wait_for_address_message(address_events, RTM_NEWADDR, "192.0.2.2")
            wait_for_address_message(address_events, RTM_DELADDR, "198.51.100.2")
        assert addresses(namespace, "far") == ["192.0.2.2"]
        if heartbeat == "60":
            assert change.wait_for_end() == "undone", "the connection still works and reports it"
    wait_until(lambda: not server.sessions())


@pytest.mark.parametrize("python", python_parameters(("python3.6", "python3.13")))
def test_every_python_applies_and_undoes(host: Namespace, python: str, tmp_path: Path) -> None:
    old = read_state(host)
    with SentProbe(
        python, tmp_path, "--interval", "60", "--allow-changes", namespace=host
    ) as probe:
        change = ChangeClient(probe)
        change.apply(SEVERAL_ACTIONS)
        change.wait_for("applied")
        assert read_state(host) != old
    wait_for_no_process_left(host)
    assert read_state(host) == old


def test_guard_is_detached_from_the_session(host: Namespace) -> None:
    """None of the probe's descriptors, another session, and not a child of the probe."""
    with change_client(host) as change:
        change.apply(MTU)
        change.wait_for("applied")
        probe, helper = change.probe.pids()
        session = os.getsid(probe)  # shared with its inventory processes
        assert sorted(guards_in(host) + watchers_in(host)) == sorted(
            pid for pid, its_session in processes_in(host).items() if its_session != session
        )
        (guard,) = guards_in(host)
        own, others = (
            {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
            for pid in (guard, helper)
        )
        standard = {os.readlink(f"/proc/{probe}/fd/{number}") for number in (0, 1, 2)}
        assert not own & standard
        assert len({one for one in own & others if one.startswith("pipe:")}) == 2
        with open(f"/proc/{guard}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        assert parent not in (probe, helper)


def test_mtu_of_upper_links_is_restored(host: Namespace) -> None:
    """The kernel reduces their MTU with that of the lower link, and does not raise it again."""
    if not host.try_link("link", LINK, "name", "top0", "type", "macvlan", "mode", "bridge"):
        pytest.skip("this kernel has no macvlan")

    def mtu() -> str:
        return host.run(["cat", "/sys/class/net/top0/mtu"]).strip()

    with change_client(host) as change:
        change.apply([["ip", "link", "set", "dev", LINK, "mtu", "1300"]])
        change.wait_for("applied")
        assert mtu() == "1300"
        change.request("undo")
        assert change.wait_for_end() == "undone"
    assert mtu() == "1500"


def test_actions_without_undo_are_refused(host: Namespace) -> None:
    """Removed with no undo: IPv6 addresses by an MTU below 1280, secondary addresses with their
    primary one, lifetimes."""
    host.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
    host.run(["ip", "address", "add", "2001:db8::7/64", "dev", LINK, "nodad"])
    host.run(["ip", "address", "add", "192.0.2.8/24", "dev", LINK])
    lifetime = ["valid_lft", "600", "preferred_lft", "600"]
    host.run(["ip", "address", "add", "203.0.113.7/24", "dev", LINK, *lifetime])
    with change_client(host) as change:
        for words, reason in (
            (f"ip link set dev {LINK} mtu 1279", "IPv6 addresses"),
            (
                f"ip address del 192.0.2.7/24 dev {LINK}",
                "would also remove its secondary address 192.0.2.8",
            ),
            (
                f"ip address del 203.0.113.7/24 dev {LINK}",
                "is dynamic: its lifetime could not be restored",
            ),
        ):
            assert reason in refused(change, "prepare", actions=[words.split()]), words
        assert change.prepare([["ip", "link", "set", "dev", LINK, "mtu", "1280"]])
        secondary, primary = (
            ["ip", "address", "del", f"192.0.2.{number}/24", "dev", LINK] for number in (8, 7)
        )
        assert change.prepare([secondary])
        assert change.prepare([secondary, primary]), "what it would take is removed before"


VIA, WITH_SOURCE = "203.0.113.0/24 via 192.0.2.1", "198.51.100.0/24 via 192.0.2.1 src 192.0.2.7"
OTHER_LENGTH = f"address add 192.0.2.7/25 dev {LINK}"
ANOTHER_SUBNET = f"address add 10.9.0.1/24 dev {LINK}"


@pytest.mark.parametrize(
    ("route", "before", "lost"),
    [
        (VIA, "", "would also remove a route"),
        (f"203.0.113.0/24 dev {LINK}", "", "would also remove a route"),
        (VIA, OTHER_LENGTH, ""),
        (VIA, ANOTHER_SUBNET, ""),
        (WITH_SOURCE, OTHER_LENGTH, ""),
        (WITH_SOURCE, ANOTHER_SUBNET, "would also remove a route"),
        (VIA, f"address add 192.0.2.9/24 dev {LINK}", "its secondary address 192.0.2.9"),
    ],
)
def test_a_route_goes_with_the_last_address_or_with_its_preferred_source(
    host: Namespace, route: str, before: str, lost: str
) -> None:
    """What the plan refuses is what the kernel does: net/ipv4/fib_frontend.c fib_del_ifaddr()."""
    host.run(["ip", "route", "add", *route.split(), *(() if " dev " in route else ("dev", LINK))])

    def state() -> str:
        lines = f"ip route show proto boot; ip -o address show dev {LINK}"
        return re.sub(r" secondary| valid_lft.*", "", host.run(["sh", "-c", lines]))

    actions = [["ip", *before.split()]] if before else []
    actions.append(["ip", "address", "del", "192.0.2.7/24", "dev", LINK])
    routes = host.run(["ip", "route", "show", "proto", "boot"])
    with change_client(host) as change:
        if lost:
            assert lost in refused(change, "prepare", actions=actions)
            for action in actions:
                host.run(action)
            is_secondary = "secondary" in lost
            gone = host.run(["ip", "-o", "address", "show", "dev", LINK]) if is_secondary else ""
            assert "192.0.2.9" not in gone
            assert is_secondary or host.run(["ip", "route", "show", "proto", "boot"]) != routes
            return
        old = state()
        change.apply(actions)
        change.wait_for("applied")
        assert host.run(["ip", "route", "show", "proto", "boot"]) == routes
        change.request("undo")
        assert change.wait_for_end() == "undone"
        assert sorted(state().splitlines()) == sorted(old.splitlines())


def test_a_secondary_address_takes_no_other_one_with_it(host: Namespace) -> None:
    for number in (8, 9):
        host.run(["ip", "address", "add", f"192.0.2.{number}/24", "dev", LINK])
    promote = f"echo 1 > /proc/sys/net/ipv4/conf/{LINK}/promote_secondaries"
    with change_client(host) as change:
        assert change.prepare([["ip", "address", "del", "192.0.2.8/24", "dev", LINK]])
        host.run(["sh", "-c", promote])
        primary = [["ip", "address", "del", "192.0.2.7/24", "dev", LINK]]
        promoted = "would make its secondary address 192.0.2.8 the primary one"
        assert promoted in refused(change, "prepare", actions=primary)


def test_connections_are_lost_only_with_an_address_that_is_gone(host: Namespace) -> None:
    """IPv4 takes it with both prefix lengths: then it stays."""
    lost = f"connections to this address of {LINK} get no packets without it"
    host.run(["ip", "address", "add", "203.0.113.7/25", "dev", LINK])
    remove = ["ip", "address", "del", "203.0.113.7/25", "dev", LINK]
    add = ["ip", "address", "add", "203.0.113.7/24", "dev", LINK]
    with change_client(host) as change:
        assert lost in change.prepare([remove]).plan[0].disturbs
        assert lost not in change.prepare([add, remove]).plan[1].disturbs
        other = ["ip", "address", "add", "203.0.113.200/25", "dev", LINK]
        assert lost in change.prepare([other, remove]).plan[1].disturbs


def test_only_a_link_that_may_be_reset_is_said_to_be(host: Namespace) -> None:
    """A veth stores another MTU; other offloads may reset it."""
    features = [
        "ethtool",
        "-K",
        LINK,
        "gro",
        "on" if "generic-receive-offload: off" in host.run(["ethtool", "-k", LINK]) else "off",
    ]
    with change_client(host) as change:
        assert change.prepare(MTU).plan[0].disturbs == ()
        assert f"may reset {LINK}" in " ".join(change.prepare([features]).plan[0].disturbs)


def test_another_prefix_length_of_an_ipv6_address(host: Namespace) -> None:
    """It is removed first, and its routes via a gateway stay; not if one has it as its source."""
    host.run(["sh", "-c", f"echo 0 > /proc/sys/net/ipv6/conf/{LINK}/disable_ipv6"])
    host.run(["ip", "address", "add", "2001:db8::7/80", "dev", LINK, "nodad"])
    host.run(["ip", "-6", "route", "add", "default", "via", "2001:db8::1", "dev", LINK])
    routes = ["ip", "-6", "route", "show", "default"]
    old, old_routes = read_state(host), host.run(routes)
    words = (
        f"ip address del 2001:db8::7/80 dev {LINK}",
        f"ip address add 2001:db8::7/64 dev {LINK}",
    )
    actions = [line.split() for line in words]
    with change_client(host) as change:
        shown = change.prepare(actions)
        fields = {"fingerprint": shown.fingerprint, "keep_within": 60.0}
        change.request("apply", actions=actions, twice=shown.needs_second_yes, **fields)
        change.wait_for("applied")
        assert "2001:db8::7/64" in host.run(["ip", "address", "show", "dev", LINK])
        assert host.run(routes) == old_routes
        change.request("undo")
        assert change.wait_for_end() == "undone"
        assert (read_state(host), host.run(routes)) == (old, old_routes)
        source = ["via", "2001:db8::2", "dev", LINK, "src", "2001:db8::7"]
        host.run(["ip", "-6", "route", "add", "2001:db8:5::/48", *source])
        assert "the preferred source of a route" in refused(change, "prepare", actions=actions)


# ----------------------------------------------------------------------------------------- port LED

LED: Actions = [["ethtool", "-p", LINK, "60"]]
FAKE_ETHTOOL = """#!/bin/sh
test "$1" = -p || exec {real} "$@"
echo $$ > {folder}/pid
exec cat {folder}/blinking
"""


def test_the_driver_of_a_veth_has_no_led(host: Namespace) -> None:
    with change_client(host) as change:
        change.apply(LED)
        assert change.wait_for_end() == "undone"
    texts = [line.text for line in change.received if line.kind == "failed"]
    assert texts == [f"the driver of {LINK} cannot blink the port LED"]


def test_a_led_blinks_until_its_end_or_undo(host: Namespace, tmp_path: Path) -> None:
    """There is nothing to keep: "kept" follows the end of ethtool; an undo ends ethtool, which ends
    the blinking."""
    real = shutil.which("ethtool")
    assert real is not None
    fake, pid = tmp_path / "ethtool", tmp_path / "pid"
    shutil.copy(real, tmp_path / "real")
    fake.write_text(FAKE_ETHTOOL.format(real=tmp_path / "real", folder=tmp_path))
    fake.chmod(0o755)
    os.mkfifo(tmp_path / "blinking")
    mounted = [
        "sh",
        "-c",
        'mount --bind "$0" "$1" && shift && exec "$@"',
        str(fake),
        os.path.realpath(real),
    ]
    prefix = ["ip", "netns", "exec", host.name, *mounted]
    with Probe("--interval", "60", "--allow-changes", prefix=prefix) as probe:
        change = ChangeClient(probe)
        shown = change.prepare(LED)
        (action,) = shown.plan
        assert (action.before, action.after) == ("LED normal", "LED blinks for 60 s, then normal")
        assert not action.undo and not shown.needs_second_yes
        for step, end in (("undo", "undone"), ("", "kept")):
            change.request("apply", actions=LED, fingerprint=shown.fingerprint, keep_within=5)
            wait_until(lambda: pid.exists() and pid.read_text().strip())
            program = int(pid.read_text())
            pid.unlink()
            if step:
                change.request(step)
            else:
                (tmp_path / "blinking").write_text("")
            ended = change.wait_for("undone", "kept")
            assert ended.kind == end and not is_alive(program)
        assert ended.text == IDENTIFIED_TEXT
        assert "applied" not in [line.kind for line in change.received]


# --------------------------------------------------------------------- what something else changes


OTHERS: dict[str, tuple[Actions, list[str], str]] = {
    "mtu": (
        MTU,
        ["ip", "link", "set", "dev", LINK, "mtu", "1450"],
        f"{LINK}: mtu 1450 instead of mtu 9000",
    ),
    "address": (
        ADDRESS,
        ["ip", "address", "del", "198.51.100.7/24", "dev", LINK],
        f"{LINK}: 198.51.100.7/24 absent instead of 198.51.100.7/24 present",
    ),
    "steering": (
        [["write", f"{QUEUES}/rx-0/rps_cpus", "2"]],
        ["sh", "-c", f"echo 3 > {QUEUES}/rx-0/rps_cpus"],
        f"{LINK}: rx-0/rps_cpus 3 instead of rx-0/rps_cpus 2",
    ),
    "features": (
        FEATURES,
        ["ethtool", "-K", LINK, "sg", "on"],
        f"{LINK}: tx-scatter-gather on ",
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_something_else_changes_is_reported_and_not_overwritten(
    host: Namespace, what: str
) -> None:
    """While the decision is waited for, and again when the change is kept."""
    actions, other, text = OTHERS[what]
    with change_client(host) as change:
        change.apply(actions)
        applied = change.wait_for("applied")
        host.run(other)
        checked = change.wait_for("checked")
        assert len(checked.differences) == 1 and text in checked.differences[0], checked
        assert checked.deadline == applied.deadline and checked.time > applied.time
        before = read_state(host)
        change.request("keep")
        kept = change.wait_for("kept")
        assert kept.differences == checked.differences and not kept.unverified
        assert read_state(host) == before


def test_a_change_that_holds_is_verified_when_it_is_kept(host: Namespace) -> None:
    """Values that are those of the change again are reported, too."""
    back = ["ip", "link", "set", "dev", LINK, "mtu", "9000"]
    with change_client(host) as change:
        change.apply(MTU)
        change.wait_for("applied")
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1450"])
        assert change.wait_for("checked").differences
        host.run(back)
        assert change.wait_for("checked").differences == ()
        change.request("keep")
        kept = change.wait_for("kept")
        assert (kept.differences, kept.unverified) == ((), "")


def test_what_was_changed_right_before_a_rollback_is_reported(host: Namespace) -> None:
    """The readings are a second apart, and the rollback hides what was set in between."""
    before = read_state(host)
    with change_client(host) as change:
        change.apply(MTU)
        change.wait_for("applied")
        host.run(["ip", "link", "set", "dev", LINK, "mtu", "1450"])
        change.request("undo")
        assert change.wait_for("checked").differences == (f"{LINK}: mtu 1450 instead of mtu 9000",)
        change.wait_for("undone")
    assert read_state(host) == before


def test_a_link_that_is_gone_is_a_difference(host: Namespace) -> None:
    with change_client(host) as change:
        change.apply(MTU)
        change.wait_for("applied")
        host.run(["ip", "link", "del", "dev", LINK])
        assert change.wait_for("checked").differences == (
            f"{LINK}: interface {LINK} no longer exists",
        )
