"""The commands of an inventory, and the physical NICs, VFs, switches, ports and virtual machines in
their outputs.

`read_facts` runs the commands; `inventory_of` makes the record and reads nothing. What a command
did not report is None, or empty with the reason in `unreadable`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields as fields_of
from functools import cached_property
from typing import Literal

from nictop.limits import MAX_LINKS, MAX_PCI_FUNCTIONS, MAX_VFS
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import (
    NOT_OFFERED_BY_ESXI,
    DriverInfo,
    Ethtool,
    Inventory,
    Link,
    LinkSettings,
    Pause,
    PciFunction,
    Platform,
    Rings,
    Thread,
    Unreadable,
    VirtualFunction,
)
from nictop.wire.errors import TransientError
from nictop.wire.esxi.counters import nic_counters
from nictop.wire.esxi.outputs import (
    PORT_EVENTS,
    Fields,
    NetStats,
    Port,
    fields,
    flag_of,
    hexadecimal_of,
    integer_of,
    mac_of,
    pci_address_of,
    text_of,
)

Query = Callable[..., Awaitable["list[Fields] | None"]]
"""``query(source, *arguments of esxcli)``: the records in the output; None: there are none, the
reason is stored for the source."""

MAX_NICS = 64
"""Physical NICs that are asked for their settings; ESXi supports 32."""
MAX_MACHINES, MAX_PORTS = 2048, 64
"""Virtual machines, and ports of one of them; ESXi supports 1024 and 10."""
MAX_QUERIED_MACHINES = 32
"""Virtual machines whose ports are asked for one by one, those with a VF first: each takes up to a
second."""
MAX_NAMES = 16 * MAX_LINKS
"""Links of one connection, with those that are gone: each start of a virtual machine makes some."""
MAX_NUMA_NODES = 1024
"""A greater number stands for no node."""
NOT_OFFERED = Unreadable("failed", NOT_OFFERED_BY_ESXI)
CARTEL_VERSION = (9, 0)
"""Version from which ESXi names the owner of a VF by VMX Cartel ID; before, by World ID."""
IFF_UP, IFF_BROADCAST, IFF_MULTICAST = 0x1, 0x2, 0x1000
ETHERNET = 1
DEFAULT_MTU = 1500
DUPLEXES: dict[str, Literal["full", "half"]] = {"full": "full", "half": "half"}
PORTS: dict[str, Literal["tp", "da", "fibre"]] = {
    "twisted pair": "tp",
    "da": "da",
    "fibre": "fibre",
}
"""Cable type → port, as ethtool names it."""
VF_NAME = re.compile(r"PF_(\d{1,5})\.(\d{1,3})\.([0-7])_VF_(\d{1,3})")
"""VMkernel name of a VF: segment, bus and function of its PF in decimal numbers, and its number."""
WORKER_NAME = re.compile(r"NetWorld-VM-\d+")
"""World that moves the packets of a virtual machine."""
SOURCES_OF_LINUX = (
    "addresses", "routes", "queues", "qdiscs", "bridge_vlans", "switch_ports", "bonds", "teams",
    "interrupts",
    "services", "stopped_managers", "settings", "networkmanager", "networkd", "configuration",
    "iommu", "forwarding", "devlink", "filters", "messages", "lldp", "routing",
)  # fmt: skip
"""Of an `Inventory`, without equivalent here."""


@dataclass(frozen=True)
class EsxiMachine:
    """A running virtual machine."""

    name: str
    world: int | None
    cartel: int | None


@dataclass
class EsxiFacts:
    """What the commands have reported."""

    product: str | None = None
    """``VMware ESXi 7.0.3 build-…``"""
    version: tuple[int, int] | None = None
    cpus: int | None = None
    """Number of pCPUs (threads)."""
    nics: list[Fields] = field(default_factory=list)
    details: dict[str, Fields] = field(default_factory=dict)
    """vmnic → ``nic get``."""
    statistics: dict[str, Fields] = field(default_factory=dict)
    """vmnic → ``nic stats get``."""
    pci: list[Fields] = field(default_factory=list)
    functions: dict[str, list[Fields]] = field(default_factory=dict)
    """vmnic with SR-IOV → its VFs."""
    machines: list[EsxiMachine] = field(default_factory=list)
    ports: dict[int, tuple[str, Fields]] = field(default_factory=dict)
    """Port → (virtual machine, ``vm port list``)."""
    mtus: dict[str, int] = field(default_factory=dict)
    """Switch → MTU."""
    problems: dict[str, Unreadable] = field(default_factory=dict)

    def owner(self, function: Fields) -> EsxiMachine | None:
        """The virtual machine that has a VF; None: none, or not known for sure."""
        number = integer_of(function.get("ownerworldid"))
        if not number or self.version is None:
            return None
        return self._owners.get(number)

    @cached_property
    def _owners(self) -> dict[int, EsxiMachine | None]:
        """Number by which VFs name their owner → machine; None: several have it. All machines are
        known by then."""
        by_cartel = self.version is not None and self.version >= CARTEL_VERSION
        found: dict[int, EsxiMachine | None] = {}
        for machine in self.machines:
            number = machine.cartel if by_cartel else machine.world
            if number is not None:
                found[number] = None if number in found else machine
        return found

    def machines_with_functions(self) -> set[str]:
        """Names of virtual machines that have a VF."""
        names = set()
        for functions in self.functions.values():
            for function in functions:
                owner = self.owner(function)
                if owner is not None:
                    names.add(owner.name)
        return names

    def used_functions(self) -> list[tuple[str, int]]:
        """(vmnic, VF number) of VFs that have an owner."""
        used = []
        for nic, functions in self.functions.items():
            for function in functions:
                number = integer_of(function.get("vfid"))
                if number is not None and integer_of(function.get("ownerworldid")):
                    used.append((nic, number))
        return used


async def read_facts(query: Query) -> EsxiFacts:
    """Run the commands of an inventory, one after the other."""
    facts = EsxiFacts()
    await _read_platform(query, facts)
    facts.nics = await _records(query, MAX_NICS, "links", "network", "nic", "list")
    facts.pci = await _records(
        query, MAX_PCI_FUNCTIONS, "pci", "hardware", "pci", "list", "-c", "0x0200"
    )
    await _read_nics(query, facts)
    await _read_functions(query, facts)
    await _read_mtus(query, facts)
    await _read_machines(query, facts)
    return facts


async def _records(query: Query, limit: int, source: str, *arguments: str) -> list[Fields]:
    """The first `limit` records in an output; none without one."""
    found = await query(source, *arguments)
    return [] if found is None else found[:limit]


async def _read_platform(query: Query, facts: EsxiFacts) -> None:
    for version in await query("platform", "system", "version", "get") or ():
        parts = [text_of(version.get(name)) for name in ("product", "version", "build")]
        facts.product = " ".join(filter(None, parts)) or None
        found = re.match(r"(\d{1,3})\.(\d{1,3})", parts[1] or "")
        facts.version = None if found is None else (int(found[1]), int(found[2]))
    for cpu in await query("platform", "hardware", "cpu", "global", "get") or ():
        facts.cpus = integer_of(cpu.get("cputhreads")) or None


async def _read_nics(query: Query, facts: EsxiFacts) -> None:
    """Settings and statistics of each vmnic."""
    for nic in _names(facts.nics):
        for details in await query("ethtool", "network", "nic", "get", "-n", nic) or ():
            facts.details[nic] = details
        for statistics in await query("ethtool", "network", "nic", "stats", "get", "-n", nic) or ():
            facts.statistics[nic] = statistics


async def _read_functions(query: Query, facts: EsxiFacts) -> None:
    source = "virtual_functions"
    for nic in _names(await _records(query, MAX_NICS, source, "network", "sriovnic", "list")):
        facts.functions[nic] = await _records(
            query, MAX_VFS, source, "network", "sriovnic", "vf", "list", "-n", nic
        )


async def _read_mtus(query: Query, facts: EsxiFacts) -> None:
    """Of standard and of distributed switches."""
    for kind in (("standard", "list"), ("dvs", "vmware", "list")):
        for switch in await _records(query, MAX_LINKS, "switches", "network", "vswitch", *kind):
            name, mtu = text_of(switch.get("name")), integer_of(switch.get("mtu"))
            if name is not None and mtu:
                facts.mtus[name] = mtu


def _names(nics: Iterable[Fields]) -> list[str]:
    return [name for nic in nics if (name := text_of(nic.get("name"))) is not None]


async def _read_machines(query: Query, facts: EsxiFacts) -> None:
    """Virtual machines, and the ports of some."""
    for process in await _records(query, MAX_MACHINES, "machines", "vm", "process", "list"):
        name = text_of(process.get("displayname"))
        if name is not None:
            world, cartel = (
                integer_of(process.get("worldid")),
                integer_of(process.get("vmxcartelid")),
            )
            facts.machines.append(EsxiMachine(name, world, cartel))
    networks = []
    for machine in await query("machines", "network", "vm", "list") or ():
        name, number = text_of(machine.get("name")), integer_of(machine.get("worldid"))
        if name is not None and number is not None:
            networks.append((name, number))
    with_functions = facts.machines_with_functions()
    networks.sort(key=lambda network: network[0] not in with_functions)
    for name, number in networks[:MAX_QUERIED_MACHINES]:
        await _read_ports(query, facts, name, number)


async def _read_ports(query: Query, facts: EsxiFacts, name: str, number: int) -> None:
    """Of the virtual machine with that name and World ID."""
    arguments = ("network", "vm", "port", "list", "-w", str(number))
    for port in await _records(query, MAX_PORTS, "machines", *arguments):
        identifier = integer_of(port.get("portid"))
        if identifier is not None:
            facts.ports[identifier] = (name, port)


# --------------------------------------------------------------------------------------- the record


class IfindexAllocator:
    """ifindexes of links, which ESXi does not have: the same name or port has the same one for a
    connection."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | int], int] = {}

    def of(self, kind: Literal["nic", "switch", "port"], name: str | int) -> int:
        """Raises TransientError for a host that names others again and again: it is read anew."""
        if len(self._known) > MAX_NAMES:
            raise TransientError(
                f"more than {MAX_NAMES} NICs, switches and ports one after the other"
            )
        return self._known.setdefault((kind, name), len(self._known) + 1)


def ifindexes(reading: NetStats, numbers: IfindexAllocator) -> dict[int, int]:
    """Port → ifindex."""
    found = {}
    for port in reading.ports:
        if port.uplink:
            found[port.number] = numbers.of("nic", port.name)
        else:
            found[port.number] = numbers.of("port", port.number)
    return found


@dataclass(frozen=True)
class InventoryTime:
    """Circumstances of an inventory: seconds, CLOCK_MONOTONIC of this machine and since the
    epoch."""

    time: float
    wall: float
    reason: str


def inventory_of(
    facts: EsxiFacts, reading: NetStats, numbers: IfindexAllocator, taken: InventoryTime
) -> Inventory:
    """The record."""
    passed_through = _passed_through(facts)
    claimed = {port for port, _ in passed_through.values()}
    uplinks = {port.name: port for port in reading.ports if port.uplink}
    names = set(_names(facts.nics))
    links = []
    for nic in facts.nics:
        name = text_of(nic.get("name"))
        if name is not None:
            switch = _switch_number(uplinks.get(name), numbers)
            functions = _virtual_functions(name, facts, passed_through)
            link = _nic_link(nic, name, facts, numbers)
            links.append(replace(link, master=switch, virtual_functions=functions))
    switches = dict.fromkeys(port.switch for port in reading.ports if port.switch is not None)
    links += [_switch_link(switch, facts, numbers) for switch in switches]
    for port in reading.ports:
        if port.name not in names and port.number not in claimed:
            links.append(_port_link(port, facts, numbers))
    problems = {**dict.fromkeys(SOURCES_OF_LINUX, NOT_OFFERED), **facts.problems}
    links = list({link.ifindex: link for link in links}.values())
    links.sort(key=lambda link: link.ifindex)
    return Inventory(
        time=taken.time,
        wall=taken.wall,
        took=0.0,
        reason=taken.reason,
        platform=_platform(facts),
        pci=_pci_functions(facts),
        links=tuple(links[:MAX_LINKS]),
        threads=_threads(reading, numbers),
        unreadable=problems,
    )


def _switch_number(port: Port | None, numbers: IfindexAllocator) -> int | None:
    """ifindex of the switch that has a port; None: there is no port, or it is at none."""
    if port is None or port.switch is None:
        return None
    return numbers.of("switch", port.switch)


def _platform(facts: EsxiFacts) -> Platform:
    missing = ("system_vendor", "product_name", "possible_cpus", "numa_nodes", "iommu_groups")
    unreadable = dict.fromkeys(missing, NOT_OFFERED)
    for name, value in (("distribution", facts.product), ("online_cpus", facts.cpus)):
        if value is None:
            unreadable[name] = facts.problems.get("platform", Unreadable("failed"))
    return Platform(
        hypervisor=None,
        system_vendor=None,
        product_name=None,
        distribution=facts.product,
        distribution_id=None,
        online_cpus=_cpu_list(facts.cpus),
        possible_cpus=None,
        numa_nodes=None,
        iommu_groups=None,
        environment="esxi",
        roles=("hypervisor",),
        unreadable=unreadable,
    )


def _cpu_list(count: int | None) -> str | None:
    """All of `count` CPUs, as Linux lists them."""
    if count is None:
        return None
    return f"0-{count - 1}" if count > 1 else "0"


def _nic_link(nic: Fields, name: str, facts: EsxiFacts, numbers: IfindexAllocator) -> Link:
    is_down = _is_up(nic.get("adminstatus")) is False
    has_carrier = _is_up(nic.get("linkstatus"))
    flags = IFF_BROADCAST | IFF_MULTICAST
    if not is_down:
        flags |= IFF_UP
    operstate = "unknown"
    if has_carrier is not None:
        operstate = "up" if has_carrier and not is_down else "down"
    mtu = integer_of(nic.get("mtu"))
    unreadable = {}
    if has_carrier is None:
        unreadable["carrier"] = Unreadable("malformed")
    if mtu is None:
        unreadable["mtu"] = Unreadable("malformed")
    statistics = nic_counters(facts.statistics.get(name, {}))
    address = pci_address_of(nic.get("pcidevice"))
    return Link(
        ifindex=numbers.of("nic", name),
        name=name,
        type=ETHERNET,
        flags=flags,
        operstate=operstate,
        carrier=None if is_down else has_carrier,
        mtu=mtu or 0,
        address=mac_of(nic.get("macaddress")),
        bus="pci",
        device=address or name,
        pci_address=address,
        ethtool=_ethtool(nic, facts.details.get(name)),
        counters=statistics,
        unreadable=unreadable,
    )


def _lower_text(value: object) -> str:
    return (text_of(value) or "").lower()


def _is_up(value: object) -> bool | None:
    return {"up": True, "down": False}.get(_lower_text(value))


def _ethtool(nic: Fields, details: Fields | None) -> Ethtool:
    details = details or {}
    found = Ethtool(
        driver=_driver(nic, fields(details.get("driverinfo"))),
        settings=_settings(nic, details),
        pause=_pause(details),
    )
    _mark_absent(found)
    return found


def _driver(nic: Fields, info: Fields) -> DriverInfo | None:
    driver = text_of(nic.get("driver"))
    if driver is None:
        return None
    version, firmware, bus = (
        text_of(info.get(name)) or "" for name in ("version", "firmwareversion", "businfo")
    )
    return DriverInfo(driver, version, firmware, bus)


def _settings(nic: Fields, details: Fields) -> LinkSettings:
    """Speed and duplex are those of the link: without a carrier there are none."""
    speed, duplex = None, None
    if _is_up(nic.get("linkstatus")):
        speed = integer_of(nic.get("speed")) or None
        duplex = DUPLEXES.get(_lower_text(nic.get("duplex")))
    return LinkSettings(
        speed=speed,
        duplex=duplex,
        autonegotiation=flag_of(details.get("autonegotiation")),
        port=PORTS.get(_lower_text(details.get("cabletype"))),
        transceiver=text_of(details.get("transceiver")),
    )


def _pause(details: Fields) -> Pause | None:
    autonegotiate, receive, send = (
        flag_of(details.get(name)) for name in ("pauseautonegotiate", "pauserx", "pausetx")
    )
    if autonegotiate is None or receive is None or send is None:
        return None
    return Pause(autonegotiate, receive, send)


def _mark_absent(found: Ethtool) -> None:
    for field_of_record in fields_of(found):
        if getattr(found, field_of_record.name) is None:
            found.unreadable[field_of_record.name] = NOT_OFFERED


def _virtual_functions(
    nic: str, facts: EsxiFacts, passed_through: Mapping[tuple[str, int], tuple[int, str | None]]
) -> tuple[VirtualFunction, ...]:
    found = {}
    for function in facts.functions.get(nic, ()):
        number = integer_of(function.get("vfid"))
        if number is not None and number < MAX_VFS:
            owner = facts.owner(function)
            address = passed_through.get((nic, number), (0, None))[1]
            machine = None if owner is None else owner.name
            found[number] = VirtualFunction(number, address, machine=machine)
    return tuple(found[number] for number in sorted(found))


def _passed_through(facts: EsxiFacts) -> dict[tuple[str, int], tuple[int, str | None]]:
    """(vmnic, VF number) → (port, MAC address) of the adapter of the virtual machine that owns the
    VF, where it is the only one: its only VF of this vmnic, and its only port with this uplink and
    without a counter of its own."""
    names = Counter(machine.name for machine in facts.machines)
    ports = _ports_by_uplink(facts)
    found = {}
    for nic, functions in facts.functions.items():
        for number, owner in _sole_functions(functions, facts):
            adapters = ports[owner.name, nic]
            if names[owner.name] == 1 and len(adapters) == 1:
                found[nic, number] = adapters[0]
    return found


def _ports_by_uplink(
    facts: EsxiFacts,
) -> defaultdict[tuple[str, str | None], list[tuple[int, str | None]]]:
    """(virtual machine, uplink) → (port, MAC address) of its ports with that uplink."""
    ports: defaultdict[tuple[str, str | None], list[tuple[int, str | None]]] = defaultdict(list)
    for port, (machine, entry) in facts.ports.items():
        uplink, address = text_of(entry.get("teamuplink")), mac_of(entry.get("macaddress"))
        ports[machine, uplink].append((port, address))
    return ports


def _sole_functions(
    functions: Sequence[Fields], facts: EsxiFacts
) -> Iterator[tuple[int, EsxiMachine]]:
    """(number, owner) of those VFs of a vmnic whose owner has no other one of them."""
    owners = [facts.owner(function) for function in functions]
    counts = Counter(owners)
    for function, owner in zip(functions, owners, strict=True):
        number = integer_of(function.get("vfid"))
        if number is not None and owner is not None and counts[owner] == 1:
            yield number, owner


def _switch_link(switch: str, facts: EsxiFacts, numbers: IfindexAllocator) -> Link:
    mtu = facts.mtus.get(switch)
    return Link(
        ifindex=numbers.of("switch", switch),
        name=switch,
        type=ETHERNET,
        flags=IFF_UP | IFF_BROADCAST | IFF_MULTICAST,
        operstate="unknown",
        carrier=None,
        mtu=mtu or 0,
        kind="vswitch",
        unreadable={} if mtu else {"mtu": facts.problems.get("switches", Unreadable("failed"))},
    )


def _port_link(port: Port, facts: EsxiFacts, numbers: IfindexAllocator) -> Link:
    """The port of a virtual machine (vnic), of the hypervisor itself (vmknic), or of one of its
    services."""
    _, entry = facts.ports.get(port.number, ("", {}))
    uplink, group = text_of(entry.get("teamuplink")), text_of(entry.get("portgroup"))
    details: dict[str, int | str | bool] = {"port": port.number}
    if port.vnic is not None:
        details["adapter"] = port.vnic
    mtu = facts.mtus.get(port.switch or "")
    lower = None
    if uplink is not None and uplink in _names(facts.nics):
        lower = numbers.of("nic", uplink)
    rings = None
    if port.rings is not None:
        rings = Rings(port.rings[0], None, None, None, None, None, None, None)
    names = tuple(PORT_EVENTS[name] for name in port.known_events())
    ethtool = Ethtool(rings=rings, driver_counter_names=names or None)
    _mark_absent(ethtool)
    return Link(
        ifindex=numbers.of("port", port.number),
        name=port.name,
        type=ETHERNET,
        flags=IFF_UP | IFF_BROADCAST | IFF_MULTICAST,
        operstate="unknown",
        carrier=None,
        mtu=mtu or 0,
        kind="vmknic" if re.fullmatch(r"vmk\d+", port.name) else "vnic",
        alias=group,
        details=details,
        address=port.address,
        master=_switch_number(port, numbers),
        lower=lower,
        ethtool=ethtool,
        unreadable={} if mtu else {"mtu": Unreadable("failed")},
    )


def _pci_functions(facts: EsxiFacts) -> tuple[PciFunction, ...]:
    named = {text_of(nic.get("name")): nic for nic in facts.nics}
    known: dict[str, tuple[Fields, str | None]] = {}
    for function in facts.pci:
        address = pci_address_of(function.get("address"))
        if address is not None:
            known[address] = (function, text_of(function.get("vmkernelname")))
    found = []
    for address, (function, name) in sorted(known.items()):
        vendor = hexadecimal_of(function.get("vendorid"))
        device = hexadecimal_of(function.get("deviceid"))
        if vendor is None or device is None:
            continue
        physical, number = _physical_function(name, known)
        nic = None if name is None else named.get(name)
        driver = function.get("modulename") if nic is None else nic.get("driver")
        found.append(
            PciFunction(
                address=address,
                class_code=0x020000,
                vendor_id=vendor,
                device_id=device,
                subsystem_vendor_id=hexadecimal_of(function.get("subvendorid")),
                subsystem_device_id=hexadecimal_of(function.get("subdeviceid")),
                revision=None,
                vendor_name=text_of(function.get("vendorname")),
                device_name=text_of(function.get("devicename")),
                driver=text_of(driver),
                numa_node=_numa_node(function),
                physical_function=physical,
                virtual_function=number,
                unreadable=dict.fromkeys(("link", "sriov", "iommu_group", "enabled"), NOT_OFFERED),
            )
        )
    return tuple(found)


def _numa_node(function: Fields) -> int | None:
    node = integer_of(function.get("numanode"))
    if node is None or node >= MAX_NUMA_NODES:
        return None
    return node


def _physical_function(
    name: str | None, known: Mapping[str, object]
) -> tuple[str | None, int | None]:
    """(address of the physical function, number) of a VF, by its name; (None, None): no VF, or
    several may be meant."""
    match = VF_NAME.fullmatch(name or "")
    if match is None:
        return None, None
    segment, bus, function, number = map(int, match.groups())
    address = f"{segment:04x}:{bus:02x}:00.{function}"
    if address not in known:
        return None, None
    return address, number


def _threads(reading: NetStats, numbers: IfindexAllocator) -> tuple[Thread, ...]:
    """vCPUs of virtual machines, with the worlds that move their packets. The vCPUs of one machine
    have the lowest of their World IDs as process ID."""
    links: defaultdict[int, set[int]] = defaultdict(set)
    process: dict[int, int] = {}
    machine: dict[int, str] = {}
    for port in reading.ports:
        vcpus, workers = _worlds_of(port, reading)
        if not vcpus:
            continue
        leader = min(vcpus)
        for number in (*vcpus, *workers):
            links[number].add(numbers.of("port", port.number))
            process[number], machine[number] = leader, reading.worlds[leader].machine or ""
    named = [
        (world.machine, world.number)
        for world in reading.worlds.values()
        if world.machine is not None
    ]
    lowest: dict[str, int] = {}
    for name, number in named:
        lowest[name] = min(number, lowest.get(name, number))
    for name, number in named:  # of machines without a port on a switch
        if number not in process:
            process[number], machine[number] = lowest[name], name
    return tuple(
        Thread(
            tid=number,
            pid=process[number],
            name=reading.worlds[number].name.partition(":")[0],
            kind="vcpu" if reading.worlds[number].machine is not None else "vm",
            machine=machine[number],
            links=tuple(sorted(links.get(number, ()))),
        )
        for number in sorted(process)
    )


def _worlds_of(port: Port, reading: NetStats) -> tuple[list[int], list[int]]:
    """Numbers of the vCPUs of a port, and of the worlds that move its packets, which are in the
    reading."""
    worlds = reading.worlds
    known = [worlds[number] for number in port.vcpus if number in worlds]
    vcpus = [world.number for world in known if world.machine is not None]
    known = [worlds[number] for number in port.workers if number in worlds]
    workers = [world.number for world in known if WORKER_NAME.match(world.name)]
    return vcpus, workers


def needs_inventory(before: NetStats, now: NetStats) -> bool:
    """Ports or worlds of virtual machines have come or gone."""
    return _parts(before) != _parts(now)


def _parts(reading: NetStats) -> tuple[set[tuple[int, str]], set[int]]:
    ports = {(port.number, port.name) for port in reading.ports}
    worlds = {world.number for world in reading.worlds.values() if world.machine is not None}
    return ports, worlds
