"""An ESXi host for tests: a real sshd, whose ``uname``, ``esxcli`` and ``net-stats`` replay outputs
of our own.

Two virtual machines: ``web1`` with a port on vSwitch0, and ``db1`` with another one and with VF 1
of vmnic4. A test may change the outputs while the host is watched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import PROTOCOL, Hello, Line
from nictop.wire.codec import decode
from nictop.wire.esxi import probe
from nictop.wire.esxi.counters import CLOCK_TICKS, Accumulated, nic_counters
from nictop.wire.esxi.inventory import (
    EsxiFacts,
    IfindexAllocator,
    InventoryTime,
    ifindexes,
    inventory_of,
    read_facts,
)
from nictop.wire.esxi.outputs import Fields, NetStats, Steps, T, reading_steps, record_steps
from tests.support.sshd import Sshd, skip_without_sshd

Json = Any
WEB_MAC, DB_MAC, VF_MAC = "00:0c:29:10:20:30", "00:0c:29:10:20:41", "00:0c:29:10:20:42"
WEB_PORT, DB_PORT, VF_PORT = 67108881, 67108890, 100663312
UPLINK_PORTS = {"vmnic0": 2214592517, "vmnic4": 2248146952}
VF_STATISTICS = (
    "RxUnicastPkt", "RxUnicastBytes", "RxMulticastPkts", "RxMulticastBytes", "RxBroadcastPkts",
    "RxBroadcastBytes", "RxOutofBufferdrops", "RxErrordrops", "TxUnicastPkt", "TxUnicastBytes",
    "TxMulticastPkts", "TxMulticastBytes", "TxBroadcastPkts", "TxBroadcastBytes", "TxErrors",
    "TxDiscards",
)  # fmt: skip
"""As ESXi 8.0 names them."""
FUNCTION_STEP = 1_000_000
"""Bytes and packets that each counter of VF 1 has advanced at each call."""

ESXCLI = """#!/bin/sh
case $1 in --debug) shift;; --formatter=json) echo "Error: Unable to find requested formatter: json"; exit 1;; esac
shift
name=$(echo "$*" | tr ' ' '_')
echo "$name" >> {folder}/calls
if [ -e {folder}/$name.status ]; then read -r status < {folder}/$name.status; echo "Error: $name" >&2; exit $status; fi
case $name in
network_sriovnic_vf_stats_*)
    read -r number < {folder}/number; number=$((number + 1)); echo $number > {folder}/number
    sed "s/@/$((number * {step}))/g" {folder}/$name.json;;
*) cat {folder}/$name.json;;
esac
"""
NET_STATS = """#!/bin/sh
echo "net-stats $*" >> {folder}/calls
if [ -e {folder}/net-stats.status ]; then read -r status < {folder}/net-stats.status; exit $status; fi
cat {folder}/net-stats.json
"""
UNAME = """#!/bin/sh
case $1 in -n) echo esx1.example;; -r) echo 7.0.3;; -m) echo x86_64;; *) echo VMkernel;; esac
"""


def at_once(steps: Steps[T]) -> T:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def parse_reading(value: object, cpus: int | None) -> NetStats:
    return at_once(reading_steps(value, cpus))


def nic(name: str, pci: str, driver: str, speed: int, mac: str) -> Json:
    return {
        "AdminStatus": "Up", "DPUId": "N/A", "Description": f"Ethernet Controller "
                                                            f"({driver})", "Driver": driver,
        "Duplex": "Full",
        "Link": "Up", "LinkStatus": "Up", "MACAddress": mac, "MTU": 1500, "Name": name,
        "PCIDevice": pci, "Speed": speed,
    }  # fmt: skip


def nic_details(name: str, driver: str, version: str) -> Json:
    return {
        "AdvertisedAutoNegotiation": True, "AutoNegotiation": True, "CableType": "Twisted Pair",
        "DriverInfo": {"BusInfo": "0000:18:00:0", "Driver": driver, "FirmwareVersion": "8.15 "
                                                                                       "0x80009621",
                       "Version": version},
        "LinkDetected": True, "LinkStatus": "Up ", "Name": name, "PauseAutonegotiate": False,
        "PauseRX": True, "PauseTX": True, "Transceiver": "internal",
        "VirtualAddress": "00:50:56:58:e5:65",
    }  # fmt: skip


def nic_statistics(packets: int) -> Json:
    return {
        "PacketsReceived": packets, "PacketsSent": packets, "BytesReceived": 600 * packets,
        "BytesSent": 700 * packets, "ReceivePacketsDropped": 3, "TransmitPacketsDropped": 0,
        "MulticastPacketsReceived": 29, "TotalReceiveErrors": 2, "BroadcastPacketsReceived": 19,
        "TotalTransmitErrors": 0, "ReceiveCRCErrors": 2,
    }  # fmt: skip


def pci_device(address: str, name: str, vendor: int, device: int, text: str) -> Json:
    return {
        "Address": address, "VMkernelName": name, "VendorName": "Intel Corporation",
        "DeviceName": text, "VendorID": vendor, "DeviceID": device, "SubVendorID": 0x8086,
        "SubDeviceID": 1, "DeviceClass": 0x200, "DeviceClassName": "Ethernet controller",
        "NUMANode": 0, "PassthruCapable": True,
        "ModuleName": "pciPassthru" if "_VF_" in name else "i40en",
    }  # fmt: skip


def world(number: int, name: str, used: float, ready: float = 0.0, costop: float = 0.0) -> Json:
    return {
        "id": number, "used": used, "ready": ready, "cstp": costop, "name": name, "sys": 0.0,
        "sysoverlap": 0.04, "limited": 0.0, "vmkcall": 0.0, "actnot": 0.0, "migtot": 0,
        "miginterl3": 0, "latencySensitivity": -1, "exclaff": -1, "relations": [], "vectors": [],
    }  # fmt: skip


def direction(side: str, megabits: float, size: int = 1250) -> Json:
    pps = round(megabits * 1e6 / 8 / size)
    return {
        f"{side}pps": pps,
        f"{side}mbps": megabits,
        f"{side}size": size if pps else 0,
        f"{side}eps": 0.0,
    }


def machine_port(
    number: int, name: str, mac: str, worlds: list[int], megabits: float = 0.0
) -> Json:
    """`worlds`: the one that moves its packets, then those of its vCPUs."""
    return {
        "name": name, "switch": "vSwitch0", "id": number, "mac": mac, "rxmode": 0, "tunemode": 0,
        "uplink": "false", "ens": "false", "promisc": "false", "sink": "false",
        **direction("tx", megabits / 60), **direction("rx", megabits),
        "upt": "false", "modeTransitions": 0,
        "vnic": {"type": "vmxnet3", "ring1sz": 512, "ring2sz": 512, "tsopct": 1.6, "txeps": 0.0,
            "rxeps": 0.0,
                 "agingdrpcnt": 0.0, "deliveredByBurstQ": 0.0, "dropsByBurstQ": 0.0,
                 "droppedbyQueuing": 4.0, "txdisc": 0.0, "qstop": 0.0, "txallocerr": 0.0,
                 "r1full": 2.0, "r2full": 0.0, "sgerr": 0.0},
        "rxqueue": {"count": 4}, "txqueue": {"count": 4}, "intr": {"count": 5},
        "sys": [str(worlds[0])], "vcpu": [str(one) for one in worlds[1:]],
    }  # fmt: skip


def uplink_port(name: str, switch: str, mac: str, megabits: float = 0.0) -> Json:
    rates = {**direction("tx", megabits / 60), **direction("rx", megabits)}
    return {
        "name": name, "switch": switch, "id": UPLINK_PORTS[name], "mac": mac, "rxmode": 0,
        "tunemode": 2, "uplink": "true", "ens": "false", "promisc": "false", "sink": "false",
        **rates, "upt": "false", "modeTransitions": 0, "intr": {"count": 6035, "used": 1.19},
        "vmnic": {"devname": f"{name}.i40en", **rates}, "txqueue": {"count": 2,
        "driver_stats": [{"pps": 0, "eps": 0, "dps": 0}] * 2, "active": 1}, "rxqueue": {"count": 2,
        "driver_stats": [{"pps": 0, "eps": 0, "dps": 1}] * 2, "active": 1}, "sys": ["2097982"],
    }  # fmt: skip


def statistics(megabits: float = 940.0, web_mac: str = WEB_MAC) -> Json:
    """Output of net-stats: ``web1`` receives `megabits` from vmnic0."""
    vcpus = [
        world(2100870, "vmx-vcpu-0:web1", 61.0, 0.4), world(2100871, "vmx-vcpu-1:web1", 42.0, 0.2),
        world(2105234, "vmx-vcpu-0:db1", 88.0, 12.5, 1.5), world(2105235, "vmx-vcpu-1:db1", 80.25,
            11.5, 2.5),
        world(26537940, "net-stats", 0.04),
    ]  # fmt: skip
    workers = [
        world(2100862, "NetWorld-VM-2100861", 7.0), world(2105157, "NetWorld-VM-2105156", 1.0),
        world(2097982, "vmnic0-pollWorld-0-0x4300944724c0", 9.0),
    ]  # fmt: skip
    used = [50.0, 25.0, 12.5, 6.25, 3.0, 2.0, 1.0, 0.25]
    return {
        "sysinfo": {"hostname": "esx1.example"},
        "stats": [
            {
                "time": 1710144045,
                "interval": 1,
                "iteration": 0,
                "ports": [
                    uplink_port("vmnic0", "vSwitch0", "78:ac:44:00:00:01", megabits),
                    uplink_port("vmnic4", "vSwitch1", "f8:f2:1e:00:00:01"),
                    machine_port(WEB_PORT, "web1.eth0", web_mac, [2100862, 2100870, 2100871],
                        megabits),
                    machine_port(DB_PORT, "db1.eth0", DB_MAC, [2105157, 2105234, 2105235]),
                    {
                        "name": "vmk0", "switch": "vSwitch0", "id": 67108873,
                        "mac": "78:ac:44:00:00:01", "uplink": "false",
                        **direction("tx", 0.1), **direction("rx", 0.1),
                    },
                ],
                "storage": {},
                "vcpus": {str(one["id"]): one for one in vcpus},
                "sys": {str(one["id"]): one for one in workers},
                "cpu": {
                    "topology": {"core": 2, "llc": 8, "package": 8},
                    "used": [*used, sum(used)],
                    "sys": [10.0, *[0.0] * 7, 10.0],
                    "vcpu": [0.0] * 9,
                },
            }
        ],
    }  # fmt: skip


def port_entry(number: int, mac: str, group: str, switch: str, uplink: str) -> Json:
    return {
        "PortID": number, "vSwitch": switch, "Portgroup": group, "DVPortID": "", "MACAddress": mac,
        "IPAddress": "0.0.0.0", "TeamUplink": uplink, "UplinkPortID": UPLINK_PORTS[uplink],
        "ActiveFilters": [],
    }  # fmt: skip


def process(name: str, world_id: int, cartel: int) -> Json:
    return {
        "ConfigFile": f"/vmfs/volumes/datastore1/{name}/{name}.vmx", "DisplayName": name,
        "ProcessID": 0, "UUID": "56 4d 67 fa b9 f2 da 11-aa 79 47 50 07 db 8b 71",
        "VMXCartelID": cartel, "WorldID": world_id,
    }  # fmt: skip


def outputs(version: str = "7.0.3") -> dict[str, Json]:
    """Command → JSON value."""
    return {
        "system version get": {
            "Build": "Releasebuild-20000000", "Patch": "20", "Product": "VMware ESXi",
            "Update": "3", "Version": version,
        },
        "hardware cpu global get": {"CPUCores": 4, "CPUPackages": 1, "CPUThreads": 8,
            "HyperthreadingActive": True},
        "network nic list": [
            nic("vmnic0", "0000:18:00.0", "ixgben", 10000, "78:ac:44:00:00:01"),
            nic("vmnic4", "0000:3b:00.0", "i40en", 40000, "f8:f2:1e:00:00:01"),
        ],
        "network nic get -n vmnic0": nic_details("vmnic0", "ixgben", "1.15.1.0"),
        "network nic get -n vmnic4": nic_details("vmnic4", "i40en", "2.5.0.28"),
        "network nic stats get -n vmnic0": nic_statistics(150_000),
        "network nic stats get -n vmnic4": nic_statistics(10),
        "hardware pci list -c 0x0200": [
            pci_device("0000:18:00.0", "vmnic0", 0x8086, 0x1563, "Ethernet Controller X550"),
            pci_device("0000:3b:00.0", "vmnic4", 0x8086, 0x1583, "Ethernet Controller XL710"),
            pci_device("0000:3b:02.0", "PF_0.59.0_VF_0", 0x8086, 0x154C, "Ethernet Virtual "
                                                                         "Function 700 Series"),
            pci_device("0000:3b:02.1", "PF_0.59.0_VF_1", 0x8086, 0x154C, "Ethernet Virtual "
                                                                         "Function 700 Series"),
        ],
        "network sriovnic list": [
            nic("vmnic4", "0000:3b:00.0", "i40en", 40000, "f8:f2:1e:00:00:01"),
        ],
        "network sriovnic vf list -n vmnic4": [
            {"VFID": 0, "Active": False, "PCIAddress": "00000:059:02.0", "OwnerWorldID": "-"},
            {"VFID": 1, "Active": True, "PCIAddress": "00000:059:02.1", "OwnerWorldID": "2105156"},
        ],
        "network sriovnic vf stats -n vmnic4 -v 1": dict.fromkeys(VF_STATISTICS, "@"),
        "network vswitch standard list": [
            {"Name": "vSwitch0", "MTU": 1500, "Uplinks": ["vmnic0"], "Portgroups": ["VM Network"]},
            {"Name": "vSwitch1", "MTU": 9000, "Uplinks": ["vmnic4"], "Portgroups": ["SR-IOV"]},
        ],
        "network vswitch dvs vmware list": [],
        "vm process list": [process("web1", 2100861, 2100859), process("db1", 2105156, 2105150)],
        "network vm list": [
            {"Name": "web1", "Networks": ["VM Network"], "NumPorts": 1, "WorldID": 2100861},
            {"Name": "db1", "Networks": ["VM Network", "SR-IOV"], "NumPorts": 2,
                "WorldID": 2105156},
        ],
        "network vm port list -w 2100861": [port_entry(WEB_PORT, WEB_MAC, "VM Network", "vSwitch0",
            "vmnic0")],
        "network vm port list -w 2105156": [
            port_entry(DB_PORT, DB_MAC, "VM Network", "vSwitch0", "vmnic0"),
            port_entry(VF_PORT, VF_MAC, "SR-IOV", "vSwitch1", "vmnic4"),
        ],
    }  # fmt: skip


class EsxiHost:
    """The fake host; `sshd` serves it."""

    def __init__(self, sshd: Sshd) -> None:
        self.sshd, self.folder = sshd, sshd.folder / "outputs"
        self.folder.mkdir()
        (self.folder / "number").write_text("0\n")
        texts = {"esxcli": ESXCLI, "net-stats": NET_STATS, "uname": UNAME}
        for name, text in texts.items():
            script = sshd.tools / name
            script.write_text(
                text.replace("{folder}", str(self.folder)).replace("{step}", str(FUNCTION_STEP))
            )
            script.chmod(0o755)
        for command, value in outputs().items():
            self.prints(command, value)
        self.prints("net-stats", statistics())

    def prints(self, command: str, value: Json) -> None:
        self.prints_text(command, json.dumps(value).replace('"@"', "@"))

    def prints_text(self, command: str, text: str) -> None:
        (self.folder / f"{command.replace(' ', '_')}.json").write_text(text)

    def fails(self, command: str, status: int = 1) -> None:
        (self.folder / f"{command.replace(' ', '_')}.status").write_text(f"{status}\n")

    @property
    def calls(self) -> list[str]:
        """Commands so far, with underscores."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def esxi_host(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, interval: float = 0.1
) -> Iterator[EsxiHost]:
    """A fake host with readings of `interval` seconds."""
    skip_without_sshd()
    monkeypatch.setattr(probe, "MIN_INTERVAL", interval)
    monkeypatch.setattr(probe, "MIN_EVENT_SECONDS", 0.0)
    sshd = Sshd(folder)
    try:
        yield EsxiHost(sshd)
    finally:
        sshd.stop()


def facts_of(values: dict[str, Json]) -> EsxiFacts:
    """The facts of these outputs; a command without one has failed."""

    async def query(source: str, *words: str) -> list[Fields] | None:
        value = values.get(" ".join(words))
        return None if value is None else at_once(record_steps(value))

    reading = read_facts(query)
    try:
        reading.send(None)  # nothing in it waits
    except StopIteration as end:
        facts: EsxiFacts = end.value
        return facts
    raise AssertionError("it waits")


def esxi_lines(
    values: dict[str, Json] | None = None, stats: Json | None = None, *, samples: int = 5
) -> list[Line]:
    """What nictop makes of these outputs (default: those of the fake host), with readings a second
    apart."""
    facts, numbers, accumulated = (
        facts_of(outputs() if values is None else values),
        IfindexAllocator(),
        Accumulated(),
    )
    reading = parse_reading(statistics() if stats is None else stats, facts.cpus)
    for name, found in facts.statistics.items():
        accumulated.begin_with(name, nic_counters(found) or ())
    hello = Hello(
        PROTOCOL,
        "0",
        "esx1.example",
        "VMkernel 7.0.3",
        "x86_64",
        "",
        0,
        0,
        "esxi-1",
        CLOCK_TICKS,
        0.0,
        0.0,
        1.0,
    )
    nic = numbers.of("nic", "vmnic4")
    counted = [
        accumulated.counters(
            float(second),
            reading,
            ifindexes(reading, numbers),
            {nic: {1: (*[1000 * second] * 2, *[FUNCTION_STEP * second] * 2, 0, 0, 0, 0)}},
        )
        for second in range(1, samples + 1)
    ]
    inventory = inventory_of(facts, reading, numbers, InventoryTime(1.0, 2.0, "start"))
    lines = [Line(hello=hello), Line(inventory=inventory), *(Line(counters=one) for one in counted)]
    return [
        decode(msgspec.json.encode({name: one for name, one in field_mapping(line).items() if one}))
        for line in lines
    ]
