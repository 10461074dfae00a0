"""``python hostile_host.py KIND``: simulates a malicious host, as forced command of a real sshd.

Represents what a broken or hostile machine can send: it reports that a probe has been started, then
sends lines of one of the `KINDS`, endlessly and as fast as they are read; one of the `ESXI_KINDS`
answers as an ESXi host. Uses only the standard library, as it is started 64 times.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

Json = dict[str, Any]
Kind = Callable[[], Iterator[bytes]]
Fate = Literal["taken", "cut", "refused", "unknown"]
"""What is meant to become of its lines. taken: all of them are records, no field of which is left
out or unknown. cut: fields above their limit are left out. refused: some are no records. unknown:
records of a later version."""
KINDS: dict[str, Kind] = {}
"""Name → data that it sends after the hello."""
FATES: dict[str, Fate] = {}
UP = 0x11043


class Complaint(bytes):
    """Data for stderr."""


def kind(function: Kind) -> Kind:
    return add(function, "taken")


def cut_kind(function: Kind) -> Kind:
    return add(function, "cut")


def refused_kind(function: Kind) -> Kind:
    return add(function, "refused")


def unknown_kind(function: Kind) -> Kind:
    return add(function, "unknown")


def add(function: Kind, fate: Fate) -> Kind:
    name = function.__name__.replace("_", "-")
    KINDS[name], FATES[name] = function, fate
    return function


def line(record: str, **fields: Any) -> bytes:
    return json.dumps({record: fields}, separators=(",", ":")).encode() + b"\n"


def hello(boot: str = "b") -> bytes:
    return line(
        "hello", protocol=1, version="0", hostname="h", kernel="6.12", machine="x86_64",
        python="3.11", pid=99999999, euid=0, boot_id=boot, clock_ticks=100,
        monotonic=time.monotonic(), wall=time.time(), interval=1.0,
    )  # fmt: skip


def link(number: int, **more: Any) -> Json:
    return {
        "ifindex": number, "name": f"ens{number}", "type": 1, "flags": UP, "operstate": "up",
        "carrier": True, "mtu": 1500, "bus": "pci", "device": "0000:02:00.0",
        "pci_address": "0000:02:00.0", **more,
    }  # fmt: skip


def platform(**more: Any) -> Json:
    return {
        "hypervisor": "kvm", "system_vendor": "QEMU", "product_name": "PC",
        "distribution": "Debian", "distribution_id": "debian", "online_cpus": "0-3",
        "possible_cpus": "0-3", "numa_nodes": "0", "iommu_groups": 0, **more,
    }  # fmt: skip


def inventory(links: Iterable[Json] = (), **more: Any) -> bytes:
    fields: Json = {
        "time": time.monotonic(), "wall": time.time(), "took": 0.1, "reason": "event",
        "platform": platform(), "pci": (), "links": list(links) or [link(2), link(3)],
    }  # fmt: skip
    return line("inventory", **{**fields, **more})


def counters(number: int = 0, **more: Any) -> bytes:
    """Counters of two links and four CPUs; all of them depend on `number`."""
    row = [1000 * number + 7] * 25
    fields: Json = {
        "time": float(number), "links": {"2": row, "3": row},
        "cpus": {str(cpu): [number] * 10 for cpu in range(4)},
    }  # fmt: skip
    return line("counters", **{**fields, **more})


def numbered(make: Callable[[int], bytes]) -> Iterator[bytes]:
    return map(make, itertools.count(1))


def with_inventory(lines: Iterable[bytes], *links: Json, **more: Any) -> Iterator[bytes]:
    yield inventory(links, **more)
    yield from lines


def endless(text: bytes) -> Iterator[bytes]:
    return itertools.repeat(text)


def inventories(first: bytes) -> Iterator[bytes]:
    """The same inventory endlessly, with counters between, so that there is always a change."""
    for number in itertools.count(1):
        yield first
        yield counters(number)


# ---------------------------------------------------------------------------------- expanding texts


@kind
def cpu_list_of_billions() -> Iterator[bytes]:
    absurd = "0-4294967295"
    interrupts = [
        interrupt(number, allowed_cpus=absurd, effective_cpus=absurd) for number in range(100)
    ]
    return inventories(
        inventory(
            platform=platform(online_cpus=absurd, possible_cpus=absurd), interrupts=interrupts
        )
    )


@kind
def cpu_list_of_many_ranges() -> Iterator[bytes]:
    absurd = ",".join(["0-8191"] * 5000)
    interrupts = [
        interrupt(number, allowed_cpus=absurd, effective_cpus=absurd) for number in range(20)
    ]
    return inventories(inventory(platform=platform(online_cpus=absurd), interrupts=interrupts))


@cut_kind
def masks() -> Iterator[bytes]:
    mask = ",".join(["ffffffff"] * 20000)
    queues = [{"direction": "tx", "number": number, "xps_cpus": mask} for number in range(8)]
    return inventories(inventory([link(2, queues=queues)]))


@kind
def absurd_numbers_of_queues() -> Iterator[bytes]:
    channels = dict.fromkeys(
        ("rx", "tx", "other", "combined", "max_rx", "max_tx", "max_other", "max_combined"), 1 << 60
    )
    rings = dict.fromkeys(
        ("rx", "rx_mini", "rx_jumbo", "tx", "max_rx", "max_rx_mini", "max_rx_jumbo", "max_tx"),
        1 << 62,
    )
    ethtool = {"channels": channels, "rings": rings, "rss": {"indirection": [1 << 60] * 9,
        "hash_function": None,
               "key_length": 1 << 60}}  # fmt: skip
    sriov = {"total_vfs": 1 << 60, "num_vfs": 1 << 60, "autoprobe": True, "virtual_functions": []}
    return inventories(
        inventory(
            [link(2, ethtool=ethtool, num_tx_queues=1 << 60, num_rx_queues=1 << 60)],
            pci=[pci(0, sriov=sriov)],
        )
    )


# -------------------------------------------------------------------------------- large inventories


def interrupt(number: int, **more: Any) -> Json:
    return {
        "number": number, "actions": [f"ens2-TxRx-{number}"], "pci_address": "0000:02:00.0",
        "allowed_cpus": "0-3", "effective_cpus": "0", **more,
    }  # fmt: skip


def pci(number: int, **more: Any) -> Json:
    return {
        "address": f"0000:{number // 256:02x}:{number // 8 % 32:02x}.{number % 8}",
        "class_code": 0x020000, "vendor_id": 0x8086, "device_id": 0x10C9, "subsystem_vendor_id": 0,
        "subsystem_device_id": 0, "revision": 1, "driver": "igb", **more,
    }  # fmt: skip


@refused_kind
def many_links() -> Iterator[bytes]:
    return inventories(inventory(map(link, range(1, 60_000))))


@kind
def links_near_the_limit() -> Iterator[bytes]:
    return inventories(inventory(link(number, kind="vlan", lower=2) for number in range(1, 2049)))


@refused_kind
def many_queues() -> Iterator[bytes]:
    queues = [{"direction": "rx", "number": number, "rps_cpus": "f"} for number in range(150_000)]
    return inventories(inventory([link(2, queues=queues)]))


@refused_kind
def many_virtual_functions() -> Iterator[bytes]:
    functions = [
        {"number": number, "address": "02:00:00:00:00:00", "trust": True}
        for number in range(100_000)
    ]
    sriov = {"total_vfs": 100_000, "num_vfs": 100_000, "autoprobe": True,
             "virtual_functions": [f"0000:03:{number:x}.0" for number in range(100_000)]}  # fmt: skip
    return inventories(inventory([link(2, virtual_functions=functions)], pci=[pci(0, sriov=sriov)]))


@refused_kind
def many_pci_functions() -> Iterator[bytes]:
    return inventories(inventory(pci=[pci(number) for number in range(40_000)]))


@cut_kind
def many_interrupts() -> Iterator[bytes]:
    return inventories(inventory(interrupts=[interrupt(number) for number in range(40_000)]))


@cut_kind
def many_threads() -> Iterator[bytes]:
    threads = [
        {"tid": number, "pid": number, "name": "vhost-1", "kind": "vhost"}
        for number in range(60_000)
    ]
    return inventories(inventory(threads=threads))


@cut_kind
def many_addresses() -> Iterator[bytes]:
    addresses = [
        {"family": "ipv4", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            "prefix_length": 8,
         "scope": "global", "flags": ["permanent"]} for number in range(30_000)
    ]  # fmt: skip
    return inventories(inventory([link(2, addresses=addresses), link(3, addresses=addresses)]))


def profile(number: int) -> Json:
    return {
        "path": f"/{number}", "uuid": str(number), "id": f"p {number}", "type": "802-3-ethernet",
        "filename": None, "unsaved": False, "generated": False, "volatile": False,
        "external": False, "match_interface_names": ["*a*b*c", "ens*"],
    }  # fmt: skip


def manager_of(profiles: list[Json]) -> Json:
    return {
        "version": "1.50",
        "startup": False,
        "networking_enabled": True,
        "devices": {},
        "profiles": profiles,
    }


@refused_kind
def many_profiles() -> Iterator[bytes]:
    return inventories(
        inventory(networkmanager=manager_of([profile(number) for number in range(15_000)]))
    )


def stanza(number: int) -> Json:
    return {
        "owner": "netplan", "file": "/etc/netplan/a.yaml", "line": number, "names": ["en*",
            f"ens{number}"],
        "methods": ["dhcp4"],
    }  # fmt: skip


@cut_kind
def many_stanzas() -> Iterator[bytes]:
    stanzas = [stanza(number) for number in range(30_000)]
    return inventories(inventory(map(link, range(1, 100)), configuration=stanzas))


def message(number: int) -> Json:
    text = "NETDEV WATCHDOG: ens2 (igb): transmit queue 0 timed out"
    return {"time": float(number), "level": 3, "text": text}


@cut_kind
def many_messages() -> Iterator[bytes]:
    return inventories(inventory(messages=[message(number) for number in range(60_000)]))


@refused_kind
def many_forwarding_entries() -> Iterator[bytes]:
    entries = [
        {"ifindex": 2,
            "address": f"02:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
         "self_entry": True} for number in range(100_000)
    ]  # fmt: skip
    return inventories(inventory(forwarding=entries))


@kind
def many_neighbours() -> Iterator[bytes]:
    neighbour = {"source": "lldpd", "system_name": "\x1b[2J",
        "management_addresses": ["10.0.0.1"] * 100,
                 "vlans": list(range(1000))}  # fmt: skip
    return inventories(inventory(lldp={str(number): [neighbour] * 20 for number in range(1, 20)}))


@kind
def many_devlink_ports() -> Iterator[bytes]:
    ports = [{"index": number, "flavour": "pcivf", "ifindex": number} for number in range(2000)]
    devices = [
        {"bus": "pci", "device": f"0000:{number:02x}:00.0", "ports": ports} for number in range(20)
    ]
    return inventories(inventory(devlink=devices))


@kind
def bridges_and_bonds() -> Iterator[bytes]:
    """Each link is a port of the bridge, the bond and the team of the next one."""
    links = [
        link(number, master=number + 1, kind=("bridge", "bond", "team")[number % 3],
             bridge_port={"state": "forwarding", "cost": 1 << 60},
             bridge_vlans=[{"first": one,
                 "last": 4094} for one in range(50)]) for number in range(1, 1000)
    ]  # fmt: skip
    return inventories(inventory(links))


@cut_kind
def many_settings() -> Iterator[bytes]:
    return inventories(
        inventory(
            settings={
                "sysctl": {f"net.ipv4.conf.l{number}.rp_filter": 1 for number in range(100_000)},
                "governors": {str(number): "powersave" for number in range(100_000)},
            }
        )
    )


@cut_kind
def many_names_of_counters() -> Iterator[bytes]:
    names = [f"rx_queue_{number}_drops" for number in range(100_000)]
    ethtool = {"driver_counter_names": names, "driver_counters": list(range(100_000)),
               "features": [{"name": f"f{number}", "active": True, "wanted": True, "fixed": False}
                            for number in range(20_000)]}  # fmt: skip
    return inventories(inventory([link(2, ethtool=ethtool)]))


@kind
def texts_that_are_formats() -> Iterator[bytes]:
    """Of Python, of printf, of Rich, and patterns."""
    text = "{0:>20000000}%(x)999999999d{x.__class__}[/red](a+)+$"
    profile: Json = dict.fromkeys(("path", "uuid", "id", "type", "filename"), text)
    profile |= dict.fromkeys(("unsaved", "generated", "volatile", "external"), False)
    profile["match_interface_names"] = [text, "(a+)+"]
    manager = {
        "version": text,
        "startup": False,
        "networking_enabled": True,
        "devices": {},
        "profiles": [profile] * 50,
    }
    ports = [{"index": number, "flavour": text, "ifindex": 2} for number in range(50)]
    links = [link(number, alias=text, kind=text, operstate=text) for number in range(2, 50)]
    devlink = [{"bus": "pci", "device": "0000:02:00.0", "ports": ports}]
    return inventories(
        inventory(
            links, networkmanager=manager, devlink=devlink, platform=platform(hypervisor=text)
        )
    )


@kind
def texts_of_digits() -> Iterator[bytes]:
    digits = "9" * 4000
    queues = [{"direction": "rx", "number": number, "rps_cpus": digits} for number in range(64)]
    interrupts = [interrupt(number, actions=[digits], allowed_cpus=digits) for number in range(200)]
    links = [link(number, queues=queues, alias=digits) for number in range(2, 20)]
    more = platform(online_cpus=digits, possible_cpus=f"0-{digits}", product_name=digits)
    return inventories(inventory(links, interrupts=interrupts, platform=more))


@refused_kind
def numbers_of_many_digits() -> Iterator[bytes]:
    number = b"9" * 1_500_000
    return itertools.cycle(
        (b'{"counters":{"time":1,"links":{"2":[' + number + b"]}}}\n", counters(1))
    )


@refused_kind
def many_unreadable_fields() -> Iterator[bytes]:
    reasons = {
        f"field{number}": {"reason": "failed", "detail": "x" * 4000} for number in range(1500)
    }
    return inventories(inventory(unreadable=reasons))


@kind
def many_routes() -> Iterator[bytes]:
    routes = [
        {"family": "ipv4", "destination": f"10.{number >> 8}.{number & 255}.0/24", "ifindex": 2,
            "table": 254,
         "type": "unicast", "protocol": 3,
         "gateway": f"10.{number >> 8}.0.1"} for number in range(4096)
    ]  # fmt: skip
    neighbours = [
        {
            "ifindex": 2,
            "address": f"10.0.{number >> 8}.{number & 255}",
            "nud_state": "failed",
            "since_update": 1e-300,
        }
        for number in range(4096)
    ]
    rules = [
        {"family": "ipv4", "priority": number, "action": "table", "table": 254}
        for number in range(1024)
    ]
    return inventories(
        inventory(routing={"routes": routes, "neighbours": neighbours, "rules": rules})
    )


@cut_kind
def more_routes_than_are_read() -> Iterator[bytes]:
    route = {
        "family": "ipv4",
        "destination": "10.0.0.0/8",
        "type": "unicast",
        "table": 254,
        "protocol": 3,
    }
    return inventories(inventory(routing={"routes": [route] * 20_000}))


@cut_kind
def long_texts() -> Iterator[bytes]:
    text = "\u202e[red]\x1b[2J" * 40_000
    return inventories(
        inventory(
            [link(2, name=text, alias=text, altnames=[text])],
            platform=platform(distribution=text, product_name=text),
            messages=[{"time": 1.0, "level": 3, "text": text}],
        )
    )


@cut_kind
def smallest_objects() -> Iterator[bytes]:
    """The most memory per byte of input."""
    napis = [{"id": 1}] * 65_000
    return inventories(inventory([link(2, napis=napis)]))


@kind
def large_machine() -> Iterator[bytes]:
    """A valid inventory of the largest machine, repeated without pause."""
    queues = [
        {"direction": way, "number": number, "rps_cpus": "0"}
        for way in ("rx", "tx")
        for number in range(64)
    ]
    links = [link(number, queues=queues) for number in range(1, 100)]
    return inventories(inventory(links, interrupts=[interrupt(number) for number in range(4000)]))


@kind
def all_near_their_limits() -> Iterator[bytes]:
    """As much of everything as is taken."""
    addresses = [
        {"family": "ipv4", "address": f"10.0.{number >> 8}.{number & 255}", "prefix_length": 8,
            "scope": "global",
         "flags": ["permanent"]} for number in range(4096)
    ]  # fmt: skip
    threads = [
        {"tid": number, "pid": number, "name": "vhost-1", "kind": "vhost"} for number in range(8192)
    ]
    entries = [{"ifindex": 2, "address": f"02:00:00:00:{one >> 8:02x}:{one & 255:02x}",
        "self_entry": True}
               for one in range(4096)]  # fmt: skip
    more = {
        "pci": [pci(number) for number in range(4096)],
        "interrupts": [interrupt(number) for number in range(16_384)],
        "threads": threads,
        "networkmanager": manager_of([profile(number) for number in range(2000)]),
        "configuration": [stanza(number) for number in range(2000)],
        "forwarding": entries,
        "messages": [message(number) for number in range(200)],
    }
    return inventories(
        inventory([link(2, addresses=addresses), *map(link, range(3, 1000))], **more)
    )


@kind
def virtual_functions_near_the_limit() -> Iterator[bytes]:
    """The most VFs and queues."""
    functions = [
        {"number": number, "address": "02:00:00:00:00:00", "trust": True} for number in range(256)
    ]
    queues = [
        {"direction": way, "number": number, "rps_cpus": "f"}
        for way in ("rx", "tx")
        for number in range(4096)
    ]
    links = [link(number, virtual_functions=functions) for number in range(2, 100)]
    return inventories(inventory([*links, link(100, queues=queues)]))


# ----------------------------------------------------------------------------------- large counters


@refused_kind
def many_cpus() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number, cpus={str(cpu): [number] * 10 for cpu in range(100_000)}
            )
        )
    )


@kind
def cpus_near_the_limit() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(number, cpus={str(cpu): [number] * 10 for cpu in range(8192)})
        ),
        platform=platform(online_cpus="0-8191", possible_cpus="0-8191"),
    )


@refused_kind
def counters_of_many_links() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number, links={str(one): [number] * 25 for one in range(40_000)}
            )
        )
    )


@kind
def counters_of_many_interrupts() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number,
                interrupts={
                    str(one): {str(cpu): number for cpu in range(64)} for one in range(1500)
                },
            )
        )
    )


def connection(number: int) -> Json:
    return {
        "protocol": "tcp", "state": "established", "local": f"10.0.0.{number % 250}",
        "local_port": number % 65536, "remote": f"10.1.{number >> 8 & 255}.{number & 255}",
        "remote_port": 443, "cookie": number, "sent": 1 << 60, "rtt": 1 << 60,
        "process": "\x1b]0;x\x07", "cgroup": "/" + "a" * 60,
    }  # fmt: skip


@cut_kind
def many_connections() -> Iterator[bytes]:
    """Above the limit; the line itself is allowed."""
    rows = [connection(number) for number in range(6000)]
    return with_inventory(
        numbered(lambda number: line("connections", time=number, links=[2], connections=rows))
    )


@kind
def flood_of_connections() -> Iterator[bytes]:
    rows = [connection(number) for number in range(130)]
    return with_inventory(
        numbered(
            lambda number: line(
                "connections",
                time=number,
                links=[2],
                connections=rows,
                seconds=1e-9,
                tcp=1 << 60,
                sent=1 << 60,
            )
        )
    )


@kind
def whole_machine_unasked() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number,
                machine=[
                    {
                        "label": str(one),
                        "description": "d",
                        "counts": {str(cpu): number for cpu in range(32)},
                    }
                    for one in range(2500)
                ],
            )
        )
    )


@kind
def queues_and_virtual_functions_in_counters() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number,
                queues={"2": [["rx", one, [number] * 6] for one in range(5000)]},
                vfs={"2": {str(one): [number] * 8 for one in range(5000)}},
            )
        )
    )


# ---------------------------------------------------------------------------- floods of small lines


@kind
def flood_of_counters() -> Iterator[bytes]:
    return with_inventory(numbered(counters))


@kind
def flood_of_inventories() -> Iterator[bytes]:
    return numbered(lambda number: inventory(map(link, range(1, 2 + number % 7))))


@kind
def flood_of_changes() -> Iterator[bytes]:
    return with_inventory(numbered(lambda number: link_change(2, number, carrier=number % 2 == 0)))


@kind
def flood_of_new_links() -> Iterator[bytes]:
    return with_inventory(numbered(lambda number: link_change(number, number)))


@kind
def flood_of_links_that_come_and_go() -> Iterator[bytes]:
    yield inventory(map(link, range(1, 1000)))
    for number in itertools.count(1000):
        yield link_change(number, number)
        yield link_change(number, number, gone=True)


def link_change(index: int, number: int, *, carrier: bool = True, gone: bool = False) -> bytes:
    return line(
        "link_change", time=float(number), ifindex=index, gone=gone, name=f"ens{index}",
        operstate="up", carrier=carrier, flags=UP, mtu=1500,
    )  # fmt: skip


@kind
def flood_of_troubles() -> Iterator[bytes]:
    return with_inventory(
        numbered(lambda number: line("trouble", time=1.0, message=f"trouble {number}"))
    )


@refused_kind
def flood_of_large_troubles() -> Iterator[bytes]:
    return with_inventory(endless(line("trouble", time=1.0, message="x" * 1_000_000)))


@kind
def flood_of_hellos() -> Iterator[bytes]:
    return numbered(lambda number: hello(str(number)))


@kind
def flood_of_pongs() -> Iterator[bytes]:
    return with_inventory(
        numbered(lambda number: line("pong", sequence=number % 50, monotonic=float(number)))
    )


@unknown_kind
def flood_of_unknown_records() -> Iterator[bytes]:
    return with_inventory(endless(b'{"later":{}}\n'))


@kind
def flood_of_output() -> Iterator[bytes]:
    return with_inventory(
        endless(
            line("traffic", time=1.0, id="run-1", kind="output", text="x" * 100, stream="stdout")
        )
    )


@kind
def flood_of_path_replies() -> Iterator[bytes]:
    replies = {"protocol": "icmp", "sent": 1, "rtts": [1e-300] * 8192}
    test = {"address": "10.0.0.1", "source": "10.0.0.2", "replies": [replies] * 3}
    return with_inventory(
        endless(line("traffic", time=1.0, id="run-1", kind="path_test", path_test=test))
    )


@kind
def flood_of_dropped_packets() -> Iterator[bytes]:
    flow = {
        "protocol": "tcp",
        "source": "10.0.0.1",
        "destination": "\x1b[2J",
        "port": 1,
        "packets": 1 << 60,
    }
    groups = [
        {
            "reason": f"R{number}",
            "place": "p",
            "ifindex": 2,
            "packets": 1 << 60,
            "bytes": 1,
            "flows": [flow] * 5,
        }
        for number in range(1000)
    ]
    report = {"state": "complete", "groups": groups}
    return with_inventory(endless(line("traffic", time=1.0, id="1", kind="drops", drops=report)))


@kind
def flood_of_listened_neighbours() -> Iterator[bytes]:
    neighbour = {"source": "listened", "system_name": "\u202ename", "vlans": list(range(500))}
    heard = {"links": [2, 3], "heard": {"2": neighbour, "3": neighbour}}
    return with_inventory(endless(line("traffic", time=1.0, id="1", kind="lldp", lldp=heard)))


@kind
def flood_of_latencies() -> Iterator[bytes]:
    """Lines of the built-in generator."""
    latency = {"sum": 10**23, "buckets": [1, 10**14] * 2000}
    text = json.dumps({"event": "interval", "start": 0, "end": 1e-300, "latency": latency})
    return with_inventory(
        endless(line("traffic", time=1.0, id="run-1", kind="output", text=text, stream="stdout"))
    )


@kind
def flood_of_plans() -> Iterator[bytes]:
    action = {"words": ["ip"], "before": "", "after": "", "undo": [["ip"]], "subject": "ens2"}
    return with_inventory(
        endless(line("change", time=1.0, id="1", kind="prepared", plan=[action] * 512))
    )


@kind
def flood_of_sockets() -> Iterator[bytes]:
    numbers = (
        "bytes_acked", "bytes_received", "retransmits", "rtt", "rttvar", "minimum_rtt",
        "congestion_window", "snd_mss", "pacing_rate", "delivery_rate", "lost",
        "bytes_retransmitted", "busy_time", "window_limited", "buffer_limited", "send_window",
    )  # fmt: skip
    sockets = [
        {"inode": number, "state": "established", "local": "10.0.0.1", "local_port": 1,
            "remote": "10.0.0.2",
         "remote_port": 2, "congestion_control": "cubic", **dict.fromkeys(numbers,
             1 << 60)} for number in range(2500)
    ]  # fmt: skip
    return with_inventory(
        endless(line("traffic", time=1.0, id="run-1", kind="sockets", sockets=sockets))
    )


@kind
def flood_of_floors() -> Iterator[bytes]:
    floor = {"seconds": 1.0, "transactions": 1, "lost": 0, "latency": {"sum": 1, "buckets": [1, 2]}}
    return with_inventory(
        numbered(
            lambda number: line(
                "traffic", time=1.0, id="run-1", kind="floor",
                floor={"arguments": [str(number)] * 500, **floor},
            )
        )
    )  # fmt: skip


@kind
def flood_of_clocks() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: line("clock", time=1.0, offset=1e18 * (-1) ** number, uncertainty=1e-300)
        )
    )


@kind
def long_names_in_changes() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: line(
                "link_change", time=float(number), ifindex=number, gone=False, name="x" * 256,
                operstate="y" * 256, carrier=True, flags=UP, mtu=1 << 60,
            )
        )
    )  # fmt: skip


@kind
def flood_of_boots() -> Iterator[bytes]:
    """All of it is read anew with each."""
    for number in itertools.count(1):
        yield hello(str(number))
        yield inventory(map(link, range(1, 200)))
        yield counters(number)


@kind
def other_names_in_each_inventory() -> Iterator[bytes]:
    return numbered(lambda number: inventory(link(1000 * number + one) for one in range(300)))


@kind
def other_numbers_in_each_reading() -> Iterator[bytes]:
    return with_inventory(
        numbered(
            lambda number: counters(
                number, links={str(1000 * number + one): [number] * 25 for one in range(300)},
                interrupts={str(1000 * number + one): {"1": number} for one in range(300)},
            )
        )
    )  # fmt: skip


@kind
def counters_that_go_back() -> Iterator[bytes]:
    return with_inventory(
        numbered(lambda number: counters((1 << 52) // (number % 7 + 1), time=float(number)))
    )


@kind
def absurd_times() -> Iterator[bytes]:
    times = itertools.cycle((9e18, -9e18, 0.0, 1e-300, 1e18, 5e-324))
    return with_inventory(counters(number, time=time) for number, time in enumerate(times))


@refused_kind
def times_that_are_no_times() -> Iterator[bytes]:
    times = itertools.cycle((1e308, 1.0, -1e308, 2.0))
    return with_inventory(counters(number, time=time) for number, time in enumerate(times))


# ------------------------------------------------------------------------------ no lines of a probe


@refused_kind
def garbage() -> Iterator[bytes]:
    return itertools.cycle((b"\x1b[2J\xff garbage\n", counters(1)))


@refused_kind
def a_line_without_end() -> Iterator[bytes]:
    yield b'{"trouble":{"time":1,"message":"'
    yield from endless(b"x" * (4 << 20))


@refused_kind
def empty_lines() -> Iterator[bytes]:
    return endless(b"\n" * 65536)


@refused_kind
def deep_nesting() -> Iterator[bytes]:
    return itertools.cycle((b'{"x":' * 300_000 + b"1" + b"}" * 300_000 + b"\n", counters(1)))


@kind
def ends_at_once() -> Iterator[bytes]:
    yield inventory(map(link, range(1, 1500)))


@kind
def words_on_stderr() -> Iterator[bytes]:
    yield inventory()
    yield from endless(Complaint(b"complaint\n" * 5000))


@kind
def one_byte_packets() -> Iterator[bytes]:
    return with_inventory(numbered(counters))


@kind
def bytes_on_stderr() -> Iterator[bytes]:
    yield inventory()
    yield from endless(Complaint(b"x"))


@refused_kind
def null_bytes() -> Iterator[bytes]:
    return itertools.cycle((bytes(65536) + b"\n", counters(1)))


@refused_kind
def surrogates() -> Iterator[bytes]:
    return itertools.cycle(
        (b'{"trouble":{"time":1,"message":"' + b"\\ud800" * 5000 + b'"}}\n', counters(1))
    )


@kind
def the_same_key_again_and_again() -> Iterator[bytes]:
    return itertools.cycle(
        (b'{"trouble":{' + b'"time":1,' * 50_000 + b'"message":""}}\n', counters(1))
    )


@refused_kind
def noise_before_the_mark() -> Iterator[bytes]:
    return endless(b"welcome\n" * 5000)


@kind
def good() -> Iterator[bytes]:
    """Not hostile: what the others are compared with."""
    yield inventory()
    for number in itertools.count(1):
        yield counters(number)
        time.sleep(1.0)


def main(name: str) -> None:
    yield_cpus()
    words = shlex.split(os.environ["SSH_ORIGINAL_COMMAND"])
    first, second = words[words.index("sh") + 6 :][:2]
    threading.Thread(target=wait_for_end, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        if name != "noise-before-the-mark":
            write(f"\n{second}-{first} ready 3.11.0 a70d0d0a\n".encode() + hello())
        part = bytearray()
        for one in KINDS[name]():
            if isinstance(one, Complaint):
                write(part)
                part.clear()
                os.write(2, one)
                continue
            part += one
            if name == "one-byte-packets":
                for number in range(len(part)):
                    write(part[number : number + 1])
                part.clear()
            elif len(part) >= 65536 or name in ("good", "ends-at-once"):
                write(part)
                part.clear()


def yield_cpus() -> None:
    """Leave the CPUs of this machine to nictop as if the host were another one. sshd makes a
    session for each of its processes, and the kernel shares CPU time among sessions first
    (sched_autogroup): nice(2) alone has no effect."""
    os.nice(10)
    for pid in (os.getpid(), os.getppid()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as file:
            file.write("19")


def write(data: bytes | bytearray) -> None:
    view = memoryview(bytes(data))
    while view:
        view = view[os.write(1, view) :]


def wait_for_end() -> None:
    """Discard stdin and exit at its end, as a probe does."""
    while os.read(0, 65536):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
