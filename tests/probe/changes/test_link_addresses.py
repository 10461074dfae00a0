"""Addresses, routes, neighbours and MTU of a link are restored as they were, without files,
programs and processes. What is compared is the output of ip."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.changes import link_addresses
from nictop.probe.changes.link_addresses import (
    LinkAddresses,
    is_link_unchanged,
    read_link_addresses,
    restorable_address,
    restorable_route,
    restore_link,
)
from nictop.probe.kernel.rtnetlink import RTM_DELADDR, RTM_NEWROUTE
from tests.support.namespaces import Namespace, why_no_namespaces

LINK, OTHER = "nic0", "nic1"
SETUP = f"""
ip link add {LINK} type veth peer name peer0
ip link add {OTHER} type veth peer name peer1
ip link set dev peer0 up
ip link set dev peer1 up
ip link set dev {LINK} mtu 1400 up
ip link set dev {OTHER} up
ip address add 192.0.2.1/24 brd + dev {LINK} label {LINK}:web metric 50
ip address add 192.0.2.2/24 dev {LINK}
ip address add 198.51.100.1 peer 198.51.100.2/32 dev {LINK}
ip address add 203.0.113.1/24 dev {OTHER}
ip -6 address add 2001:db8::1/64 dev {LINK} nodad
ip -6 address add 2001:db8:1::1/64 dev {OTHER} nodad
ip route add default via 192.0.2.254 dev {LINK} metric 200
ip route add 10.1.0.0/16 via 192.0.2.254 dev {LINK} src 192.0.2.2 proto static mtu lock 1300
ip route add 10.2.0.0/16 dev {LINK} scope link table 100
ip route add 10.3.0.0/16 via 10.99.0.1 dev {LINK} onlink
ip route add 10.4.0.0/16 nexthop via 192.0.2.254 dev {LINK} weight 3 nexthop via 203.0.113.254 dev {OTHER}
ip route add 10.5.0.0/16 dev {LINK} proto 77
ip -6 route add 2001:db8:4::/48 nexthop via 2001:db8::ff dev {LINK} nexthop via 2001:db8:1::ff dev {OTHER}
ip -6 route add 2001:db8:5::/48 via 2001:db8::ff dev {LINK} table 100 metric 5
ip -6 route add default via 2001:db8::fe dev {LINK} metric 2000
ip neigh add 192.0.2.77 lladdr 02:00:00:00:00:77 dev {LINK} nud permanent
ip -6 neigh add 2001:db8::77 lladdr 02:00:00:00:00:78 dev {LINK} nud permanent
"""
OWNED = f"""
ip -6 route add default proto ra metric 1024 nexthop via fe80::1 dev {LINK} nexthop via fe80::2 dev {LINK}
ip route add 10.6.0.0/16 dev {LINK} proto dhcp
ip route add 10.7.0.0/16 dev {LINK} proto bgp
"""
DAMAGES = {
    "addresses flushed": f"ip address flush dev {LINK} scope global",
    "link down": f"ip link set dev {LINK} down",
    "primary replaced": f"""
        ip address add 192.0.2.9/24 dev {LINK}
        ip address del 192.0.2.1/24 dev {LINK}""",
    "routes replaced": f"""
        ip route replace default via 192.0.2.253 dev {LINK} metric 200
        ip route del 10.4.0.0/16
        ip -6 route del 2001:db8:4::/48 via 2001:db8::ff dev {LINK}
        ip route flush table 100""",
    "other MTU": f"ip link set dev {LINK} mtu 1500",
    "no IPv6": f"sysctl -qw net.ipv6.conf.{LINK}.disable_ipv6=1",
    "added": f"""
        ip address add 100.64.0.1/24 dev {LINK}
        ip route add 10.8.0.0/16 via 100.64.0.2 dev {LINK}
        ip -6 address add 2001:db8:9::1/64 dev {LINK} nodad""",
    "everything": f"""
        ip address flush dev {LINK}
        ip address add 100.64.0.1/24 dev {LINK}
        ip neigh flush dev {LINK} nud permanent
        ip link set dev {LINK} mtu 1500""",
}

pytestmark = pytest.mark.skipif(why_no_namespaces() is not None, reason=str(why_no_namespaces()))


def run_lines(namespace: Namespace, lines: str) -> None:
    for line in filter(None, map(str.strip, lines.splitlines())):
        namespace.run(line.split())


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    try:
        run_lines(made, SETUP)
        yield made
    finally:
        made.remove()


def shown(namespace: Namespace) -> list[str]:
    """What ip prints about both links, sorted, without times."""
    commands = [
        "address show",
        "link show",
        "route show table all",
        "-6 route show table all",
        "neigh show nud permanent",
    ]
    found = []
    for words in commands:
        for entry in json.loads(namespace.run(["ip", "-j", "-d", *words.split()]) or "[]"):
            if entry.get("type") in (
                "local",
                "anycast",
                "multicast",
                "broadcast",
            ) or "fe80::" in str(entry.get("dst")):
                continue  # the kernel's own
            found.append(json.dumps(without_times(entry), sort_keys=True))
    return sorted(found)


COMPUTED = ("used", "confirmed", "updated", "refcnt", "probes", "operstate")


def without_times(entry: dict[str, Any]) -> dict[str, Any]:
    """Without ages and the state of the carrier, with addresses in a fixed order, without
    link-local ones."""
    kept = {key: value for key, value in entry.items() if key not in COMPUTED}
    kept["flags"] = [flag for flag in kept.get("flags", ()) if flag in ("UP", "onlink")]
    own = [one for one in kept.get("addr_info", ()) if one.get("scope") != "link"]
    kept["addr_info"] = sorted(own, key=lambda one: str(one["local"]))
    return kept


def saved(namespace: Namespace) -> LinkAddresses:
    """As it crosses the pipe to another process."""
    before = namespace.call(lambda: read_link_addresses(LINK))
    assert before is not None
    return LinkAddresses.from_json(json.loads(json.dumps(vars(before))))


def restored(namespace: Namespace, before: LinkAddresses) -> str:
    return namespace.call(lambda: restore_link(before))


@pytest.mark.parametrize("damage", DAMAGES)
def test_link_is_as_before(namespace: Namespace, damage: str) -> None:
    old, before = shown(namespace), saved(namespace)
    assert namespace.call(lambda: is_link_unchanged(before))
    run_lines(namespace, DAMAGES[damage])
    assert shown(namespace) != old
    assert not namespace.call(lambda: is_link_unchanged(before))
    assert restored(namespace, before) == ""
    assert namespace.call(lambda: is_link_unchanged(before))
    assert shown(namespace) == old
    assert restored(namespace, before) == "", "again"
    assert shown(namespace) == old


def test_routes_with_an_owner_are_not_rewritten(namespace: Namespace) -> None:
    """Neither is one removed that was added meanwhile, nor does one of a router or daemon come back
    by nictop; that of DHCP, which goes with the address, has its protocol again."""
    run_lines(namespace, OWNED)
    before = saved(namespace)
    namespace.run(["ip", "route", "del", "10.6.0.0/16"])
    namespace.run(
        ["ip", "-6", "route", "del", "default", "proto", "ra", "via", "fe80::2", "dev", LINK]
    )
    run_lines(
        namespace,
        f"ip route add 10.60.0.0/16 dev {LINK} proto zebra\nip link set dev {LINK} mtu 1500",
    )
    owners = namespace.run(
        [
            "sh",
            "-c",
            "ip -6 route show proto ra; ip route show proto zebra; ip route show proto bgp",
        ]
    )
    assert owners.count("fe80::") == 1 and "10.60" in owners and "10.7" in owners
    assert restored(namespace, before) == ""
    again = namespace.run(
        [
            "sh",
            "-c",
            "ip -6 route show proto ra; ip route show proto zebra; ip route show proto bgp",
        ]
    )
    assert again == owners
    assert "10.6.0.0/16 dev nic0 proto dhcp scope link" in namespace.run(["ip", "route"])


def test_route_of_dhcp_is_not_added_beside_a_newer_one(namespace: Namespace) -> None:
    """The server has given another gateway meanwhile."""
    run_lines(namespace, f"ip route add 10.6.0.0/16 via 192.0.2.254 dev {LINK} proto dhcp metric 9")
    before = saved(namespace)
    run_lines(
        namespace, f"ip route replace 10.6.0.0/16 via 192.0.2.253 dev {LINK} proto dhcp metric 9"
    )
    namespace.run(["ip", "link", "set", "dev", LINK, "mtu", "1500"])
    assert restored(namespace, before) == ""
    assert namespace.run(["ip", "-o", "route", "show", "10.6.0.0/16"]).count("via") == 1
    assert "via 192.0.2.253" in namespace.run(["ip", "route", "show", "10.6.0.0/16"])


def test_addresses_with_a_lifetime_and_without_a_prefix_route_come_back(
    namespace: Namespace,
) -> None:
    """As a DHCP client sets them: the route of the subnet is its own, and the gateway is in it."""
    run_lines(
        namespace,
        f"""
        ip address flush dev {LINK} scope global
        ip address add 192.0.2.7/24 dev {LINK} noprefixroute valid_lft 3600 preferred_lft 1800
        ip route add 192.0.2.0/24 dev {LINK} proto kernel scope link src 192.0.2.7 metric 100
        ip route add default via 192.0.2.254 dev {LINK} proto dhcp metric 100""",
    )
    before, routes = saved(namespace), namespace.run(["ip", "route"])
    run_lines(
        namespace, f"ip address flush dev {LINK} scope global\nip link set dev {LINK} mtu 1500"
    )
    assert namespace.run(["ip", "route"]) != routes
    assert restored(namespace, before) == ""
    assert namespace.run(["ip", "route"]) == routes
    (address,) = json.loads(namespace.run(["ip", "-j", "-4", "address", "show", "dev", LINK]))[0][
        "addr_info"
    ]
    assert (
        address["dynamic"]
        and address["noprefixroute"]
        and 3000 < address["valid_life_time"] <= 3600
    )


def test_address_of_a_program_that_says_so_is_not_removed(namespace: Namespace) -> None:
    """keepalived and others set IFA_PROTO."""
    before = saved(namespace)
    try:
        namespace.run(["ip", "address", "add", "192.0.2.200/32", "dev", LINK, "proto", "18"])
    except subprocess.CalledProcessError:
        pytest.skip("ip or the kernel does not know address protocols")
    assert restored(namespace, before) == ""
    assert "192.0.2.200" in namespace.run(["ip", "address", "show", "dev", LINK])


@contextmanager
def full_temporary_directory() -> Iterator[None]:
    """A small file system without a free byte, where files would be made."""
    with tempfile.TemporaryDirectory(dir="/run") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
        previous, tempfile.tempdir = tempfile.tempdir, folder
        try:
            with (
                open(f"{folder}/fill", "wb", buffering=0) as file,
                pytest.raises(OSError, match="No space left"),
            ):
                while True:
                    file.write(b"0" * 4096)
            with (
                pytest.raises(OSError, match="No space left"),
                tempfile.TemporaryFile(buffering=0) as file,
            ):
                file.write(b"0" * 4096)
            yield
        finally:
            tempfile.tempdir = previous
            subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def no_processes() -> Iterator[None]:
    """Every attempt to start one fails, as when no process id or no memory is free."""

    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError(11, os.strerror(11))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        patch.setattr(subprocess, "Popen", refuse)
        yield


@contextmanager
def few_descriptors() -> Iterator[None]:
    """Four are free."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    filled = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, limits[1]))
    try:
        try:
            while True:
                filled.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        for descriptor in filled[-4:]:
            os.close(descriptor)
        del filled[-4:]
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in filled:
            os.close(descriptor)


@pytest.mark.parametrize("shortage", [full_temporary_directory, no_processes, few_descriptors])
def test_link_is_restored_when_nothing_is_free(
    namespace: Namespace, shortage: Callable[[], object]
) -> None:
    old, before = shown(namespace), saved(namespace)
    run_lines(namespace, DAMAGES["everything"])

    def restore() -> str:
        with shortage():  # type: ignore[attr-defined]
            return restore_link(before)

    assert namespace.call(restore) == ""
    assert shown(namespace) == old


def test_what_is_there_remains_when_something_cannot_be_added(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is added first; the address that the change has set is removed only after
    that."""
    before = saved(namespace)
    run_lines(namespace, DAMAGES["everything"])
    sent: list[int] = []

    def fail(_: object, kind: int, *__: object) -> list[str]:
        sent.append(kind)
        if kind == RTM_NEWROUTE:
            raise OSError(12, "out of memory")
        return []

    monkeypatch.setattr(link_addresses, "attempt", fail)
    assert "out of memory" in restored(namespace, before)
    assert RTM_DELADDR not in sent
    assert "100.64.0.1" in namespace.run(["ip", "address", "show", "dev", LINK])


def test_link_that_is_gone_is_told(namespace: Namespace) -> None:
    before = saved(namespace)
    namespace.run(["ip", "link", "del", "dev", LINK])
    assert restored(namespace, before) == f"{LINK} no longer exists"
    assert namespace.call(lambda: read_link_addresses(LINK)) is None


@given(st.binary(max_size=80))
def test_any_message_is_read(payload: bytes) -> None:
    """Malformed ones give nothing, never an exception."""
    for message in (restorable_address(payload, 1), restorable_route(payload, 1)):
        assert message is None or message[0] == payload[0]
