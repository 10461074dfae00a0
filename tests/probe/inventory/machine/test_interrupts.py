"""Interrupts of network devices: each vector of a captured guest, this machine, xen, mmio and
legacy interrupts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.machine.interrupts import parse_movable, parse_names, read_interrupts
from nictop.probe.inventory.pci.functions import read_pci
from nictop.probe.records import Interrupt, Link, PciFunction, Unreadable

GUEST = {
    "0000:01:00.0": (
        34,
        ["ens192-rxtx-0", "ens192-rxtx-1", "ens192-rxtx-2", "ens192-rxtx-3", "ens192-event-4"],
    ),
    "0000:02:00.0": (40, ["ens224", "ens224-TxRx-0", "ens224-rx-1"]),
    "0000:02:10.0": (43, ["ens224v0-tx-0", "ens224v0-rx-0", "ens224v0"]),
    "0000:02:10.2": (46, ["ens224v1-tx-0", "ens224v1-rx-0", "ens224v1"]),
    "0000:03:00.0": (
        49,
        ["virtio2-config"]
        + [f"virtio2-{kind}.{number}" for number in range(4) for kind in ("input", "output")],
    ),
    "0000:02:10.4": (58, ["ens224v2-tx-0", "ens224v2-rx-0", "ens224v2"]),
    "0000:02:10.6": (61, ["ens224v3-tx-0", "ens224v3-rx-0", "ens224v3"]),
}
"""PCI address → (first IRQ, vector names in order): vmxnet3, igb, igbvf, virtio_net, igbvf,
igbvf."""


def function(address: str, driver: str | None = "driver") -> PciFunction:
    return PciFunction(address, 0x020000, 0x8086, 0x10CA, None, None, None, driver=driver)


def link(name: str, bus: str | None, device: str | None, pci_address: str | None = None) -> Link:
    return Link(2, name, 1, 0, "up", True, 1500, bus=bus, device=device, pci_address=pci_address)


def only(found: tuple[tuple[Interrupt, ...], Unreadable | None]) -> tuple[Interrupt, ...]:
    assert found[1] is None
    return found[0]


def test_every_vector_of_a_captured_guest(capture: Callable[[str], Path]) -> None:
    root = capture("queues")
    functions = read_pci(str(capture("guest") / "sys"), lambda wanted: {})[0]
    found = only(read_interrupts((), functions, str(root / "sys"), str(root / "proc")))
    expected = {
        first + offset: (address, name)
        for address, (first, names) in GUEST.items()
        for offset, name in enumerate(names)
    }
    assert {one.number: (one.pci_address, *one.actions) for one in found} == expected
    assert [one.number for one in found] == sorted(expected)
    for one in found:
        folder = root / f"proc/irq/{one.number}"
        assert one.chip == f"PCI-MSIX-{one.pci_address}"
        assert one.allowed_cpus == (folder / "smp_affinity_list").read_text().strip()
        assert one.effective_cpus == (folder / "effective_affinity_list").read_text().strip()
        assert (one.numa_node, one.unreadable) == (None, {})


@pytest.mark.parametrize(
    ("number", "name", "allowed", "effective"),
    [
        (36, "ens192-rxtx-2", "2", "2"),
        (41, "ens224-TxRx-0", "2", "2"),
        (44, "ens224v0-rx-0", "2", "2"),
        (50, "virtio2-input.0", "1", "1"),
        (53, "virtio2-output.1", "0", "0"),
    ],
)
def test_one_queue_of_each_driver(
    capture: Callable[[str], Path], number: int, name: str, allowed: str, effective: str
) -> None:
    """The values in the files of the guest."""
    root = capture("queues")
    links = [link("x", "pci", address, address) for address in GUEST]
    found = {
        one.number: one
        for one in only(read_interrupts(links, (), str(root / "sys"), str(root / "proc")))
    }
    one = found[number]
    assert (one.actions, one.allowed_cpus, one.effective_cpus) == ((name,), allowed, effective)


def test_this_machine_against_proc_interrupts() -> None:
    """Every line whose chip names the address of a network function, and no other."""
    functions, _ = read_pci("/sys", lambda wanted: {})
    found = only(read_interrupts(read_links()[0], functions))
    addresses = {one.address for one in functions}
    lines = {}
    for line in Path("/proc/interrupts").read_text().splitlines():
        match = re.match(r" *([0-9]+):.* [A-Z-]*PCI-MSIX?-([0-9a-f:.]+) +[0-9]+-edge +(.*)", line)
        if match and match[2] in addresses:
            lines[int(match[1])] = (match[2], tuple(match[3].split(", ")))
    if not lines:
        pytest.skip("no network function with message signalled interrupts in /proc/interrupts")
    assert {one.number: (one.pci_address, one.actions) for one in found if one.actions} == lines
    for one in found:
        folder = f"/proc/irq/{one.number}"
        assert one.unreadable == {}
        assert one.effective_cpus == Path(folder, "effective_affinity_list").read_text().strip()
        assert one.allowed_cpus == Path(folder, "smp_affinity_list").read_text().strip()


def test_the_files_of_this_machine_are_writable_for_the_interrupts_that_can_be_moved() -> None:
    found = only(read_interrupts(read_links()[0], read_pci("/sys", lambda wanted: {})[0]))
    for one in found:
        writable = bool(Path(f"/proc/irq/{one.number}/smp_affinity_list").stat().st_mode & 0o200)
        assert one.movable in ((True, None) if writable else (False,))


@pytest.mark.skipif(
    not os.path.isdir("/sys/kernel/irq"), reason="this kernel has no /sys/kernel/irq"
)
def test_both_sources_of_names_agree(tmp_path: Path) -> None:
    functions, _ = read_pci("/sys", lambda wanted: {})
    (tmp_path / "bus").symlink_to("/sys/bus")
    from_sysfs = only(read_interrupts((), functions))
    from_lines = only(read_interrupts((), functions, sys=str(tmp_path)))
    if not from_sysfs:
        pytest.skip("no network function with interrupts here")
    # /proc/interrupts leaves out vectors that have no handler
    assert [one for one in from_lines if one.actions] == [one for one in from_sysfs if one.actions]


class Host:
    """A directory with sysfs and procfs files of a machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/bus/pci/devices").mkdir(parents=True)
        (root / "proc").mkdir()

    def interrupt(self, number: int, actions: str, chip: str, **files: str) -> None:
        folder = self.root / f"sys/kernel/irq/{number}"
        folder.mkdir(parents=True)
        (folder / "actions").write_text(actions + "\n")
        (folder / "chip_name").write_text(chip + "\n")
        folder = self.root / f"proc/irq/{number}"
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_text(content + "\n")

    def device(self, address: str, irq: int, vectors: tuple[int, ...] = ()) -> None:
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir()
        (folder / "irq").write_text(f"{irq}\n")
        for vector in vectors:
            (folder / "msi_irqs").mkdir(exist_ok=True)
            (folder / f"msi_irqs/{vector}").write_text("msix\n")

    def read(
        self, links: tuple[Link, ...] = (), functions: tuple[PciFunction, ...] = ()
    ) -> tuple[Interrupt, ...]:
        return only(
            read_interrupts(links, functions, str(self.root / "sys"), str(self.root / "proc"))
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_node_chip_and_cpu_lists(host: Host) -> None:
    lists = {"smp_affinity_list": "0-3,8", "effective_affinity_list": "8", "node": "1"}
    host.interrupt(57, "mlx5_comp3@pci:0000:5e:00.0", "IR-PCI-MSIX-0000:5e:00.0", **lists)
    host.device("0000:5e:00.0", 16, (57,))
    assert host.read(functions=(function("0000:5e:00.0"),)) == (
        Interrupt(
            57,
            ("mlx5_comp3@pci:0000:5e:00.0",),
            "0000:5e:00.0",
            "IR-PCI-MSIX-0000:5e:00.0",
            "0-3,8",
            "8",
            numa_node=1,
        ),
    )


@pytest.mark.parametrize(
    ("mode", "release", "movable"),
    [
        (0o644, "6.12.0", True),
        (0o644, "6.18.44-fc-v657", True),
        (0o644, "7.0-rc1", True),
        (0o644, "6.11.9", None),
        (0o644, "4.9.0-9-amd64", None),
        (0o644, "unknown", None),
        (0o644, None, None),
        (0o444, "6.12.0", False),
        (0o444, "5.14.0-570.12.1.el9_6.x86_64", False),
        (0o444, None, False),
        (None, "6.12.0", None),
    ],
)
def test_what_the_mode_of_the_affinity_shows(
    mode: int | None, release: str | None, movable: bool | None
) -> None:
    """Before Linux 6.12 every file is writable; backports may have it read-only earlier."""
    assert parse_movable(mode, release) is movable


def test_managed_interrupts_have_a_read_only_affinity(host: Host) -> None:
    """Queues of wangxun NICs (PCI_IRQ_AFFINITY in libwx/wx_lib.c); that of link changes can be
    moved."""
    (host.root / "proc/sys/kernel").mkdir(parents=True)
    (host.root / "proc/sys/kernel/osrelease").write_text("6.12.0-1-amd64\n")
    for number in (60, 61, 62):
        host.interrupt(number, f"eth0-TxRx-{number}", "PCI-MSIX", smp_affinity_list="0-1")
        (host.root / f"proc/irq/{number}/smp_affinity_list").chmod(0o644 if number == 62 else 0o444)
    host.device("0000:5e:00.0", 16, (60, 61, 62, 63))
    found = host.read(functions=(function("0000:5e:00.0"),))
    assert [one.movable for one in found] == [False, False, True, None]
    assert all(one.unreadable == {} for one in found)


def test_a_vector_without_handler_and_a_garbled_node(host: Host) -> None:
    host.interrupt(60, "", "", node="elephant")
    host.device("0000:5e:00.0", 16, (60, 61))
    first, second = host.read(functions=(function("0000:5e:00.0"),))
    assert (first.actions, first.chip, first.numa_node) == ((), None, None)
    assert first.unreadable["numa_node"].reason == "malformed"
    assert second == Interrupt(61, (), "0000:5e:00.0")


def test_a_legacy_interrupt_needs_a_driver_and_a_handler_and_no_vectors(host: Host) -> None:
    host.interrupt(11, "uhci_hcd:usb1,eth0", "IO-APIC", smp_affinity_list="0-1")
    host.interrupt(16, "", "IO-APIC")
    host.interrupt(40, "eth1-TxRx-0", "PCI-MSIX")
    host.device("0000:00:03.0", 11)
    host.device("0000:00:04.0", 11)
    host.device("0000:00:05.0", 16)
    host.device("0000:00:06.0", 11, (40,))
    host.device("0000:00:07.0", 0)
    named = [function(f"0000:00:0{number}.0") for number in (4, 5, 6, 7)]
    found = host.read(functions=(function("0000:00:03.0", driver=None), *named))
    assert [(one.number, one.actions, one.pci_address) for one in found] == [
        (11, ("uhci_hcd:usb1", "eth0"), "0000:00:04.0"),
        (40, ("eth1-TxRx-0",), "0000:00:06.0"),
    ]


@pytest.mark.parametrize(
    ("name", "device", "action"),
    [
        ("eth0", "vif-0", "vif0-q0-tx"),
        ("eth0", "vif-0", "vif0-q11-rx"),
        ("eth0", "vif-0", "eth0"),
        ("eth0", "vif-0", "eth0-q1-rx"),
        ("vif1.0", "vif-1-0", "vif1.0-q0-tx"),
        ("lan", "vif-1-0", "vif1.0-q3"),
        ("lan", "vif-1-0", "vif1.0-ctrl"),
    ],
)
def test_xen_event_channels(host: Host, name: str, device: str, action: str) -> None:
    host.interrupt(72, action, "xen-dyn", smp_affinity_list="0-7")
    host.interrupt(73, action, "IO-APIC")
    host.interrupt(74, "vif00-q0-tx", "xen-dyn")
    host.interrupt(75, "eth01", "xen-dyn")
    host.interrupt(76, "blkif", "xen-dyn")
    (found,) = host.read(links=(link(name, "xen", device),))
    assert (found.number, found.actions, found.pci_address) == (72, (action,), None)
    assert found.allowed_cpus == "0-7"


def test_xen_on_a_kernel_without_sys_kernel_irq(host: Host) -> None:
    lines = (
        "    CPU0  CPU1",
        " 72:  10  3   xen-dyn    -event     vif0-q0-tx",
        " 73:  0  0   xen-dyn    -event     blkif",
    )
    (host.root / "proc/interrupts").write_text("\n".join(lines) + "\n")
    (found,) = host.read(links=(link("eth0", "xen", "vif-0"),))
    assert found == Interrupt(72, ("vif0-q0-tx",), None, "xen-dyn")


def test_interrupts_of_other_buses_are_found_by_device_name(host: Host) -> None:
    host.interrupt(5, "virtio1", "IO-APIC")
    host.interrupt(6, "virtio10", "IO-APIC")
    host.interrupt(7, "30be0000.ethernet,other", "GICv3")
    host.interrupt(8, "tap0", "GICv3")
    links = (
        link("eth0", "virtio", "virtio1"),
        link("eth1", "platform", "30be0000.ethernet"),
        link("tap0", None, None),
    )
    assert [one.number for one in host.read(links=links)] == [5, 7]


def test_a_virtio_link_has_the_vectors_of_its_function(host: Host) -> None:
    host.interrupt(50, "virtio2-input.0", "PCI-MSIX")
    host.device("0000:03:00.0", 16, (50,))
    (found,) = host.read(links=(link("eth0", "virtio", "virtio2", "0000:03:00.0"),))
    assert (found.number, found.actions, found.pci_address) == (
        50,
        ("virtio2-input.0",),
        "0000:03:00.0",
    )


def test_unreadable_sources_are_reported(host: Host, tmp_path: Path) -> None:
    host.device("0000:03:00.0", 16)
    (tmp_path / "sys/bus/pci/devices/0000:03:00.0/msi_irqs").write_text("a file")
    found, trouble = read_interrupts(
        (), (function("0000:03:00.0"),), str(tmp_path / "sys"), str(tmp_path / "proc")
    )
    assert found == ()
    assert trouble is not None
    assert trouble.detail.endswith("msi_irqs: ENOTDIR")
    (tmp_path / "proc/interrupts").mkdir()
    links = (link("eth0", "xen", "vif-0"),)
    assert read_interrupts(links, (), str(tmp_path / "sys"), str(tmp_path / "proc")) == (
        (),
        Unreadable("failed", f"{tmp_path}/proc/interrupts: EISDIR"),
    )


def test_a_machine_without_sysfs_and_procfs(tmp_path: Path) -> None:
    links = (link("eth0", "xen", "vif-0"), link("eth1", "pci", "0000:00:03.0", "0000:00:03.0"))
    assert read_interrupts(links, (), str(tmp_path), str(tmp_path)) == ((), None)


@pytest.mark.parametrize(
    ("line", "number", "chip", "actions"),
    [
        (
            " 41: 232 0  PCI-MSIX-0000:02:00.0   1-edge      ens224-TxRx-0",
            41,
            "PCI-MSIX-0000:02:00.0",
            ("ens224-TxRx-0",),
        ),
        ("123: 232 0   PCI-MSI 1048577-edge      eth0-TxRx-0", 123, "PCI-MSI", ("eth0-TxRx-0",)),
        (" 30: 232 0   PCI-MSI-edge      eth0", 30, "PCI-MSI", ("eth0",)),
        (
            " 16: 0 7   IO-APIC  16-fasteoi   i801_smbus, eth1",
            16,
            "IO-APIC",
            ("i801_smbus", "eth1"),
        ),
        (
            " 24: 0 1  PCI-MSIX-0000:00:02.0   0-edge      PCIe PME, aerdrv",
            24,
            "PCI-MSIX-0000:00:02.0",
            ("PCIe PME", "aerdrv"),
        ),
        (" 17: 3 1   IO-APIC  17-fasteoi", 17, "IO-APIC", ()),
        (" 72: 3 1   xen-dyn    -event     vif0-q0-tx", 72, "xen-dyn", ("vif0-q0-tx",)),
        (" 72: 3 1   xen-dyn-event     eth0", 72, "xen-dyn", ("eth0",)),
        (" 45: 9 9   ITS-MSI 524288 Edge      eth0", 45, "ITS-MSI", ("eth0",)),
        (" 11: 9 9     GICv3  27 Level     arch_timer", 11, "GICv3", ("arch_timer",)),
        (" 12: 9 9     GICv3  27 Level", 12, "GICv3", ()),
        (" 13: 9 9", 13, None, ()),
        (" 14: 9", 14, None, ()),
    ],
)
def test_lines_of_different_kernels(
    line: str, number: int, chip: str | None, actions: tuple[str, ...]
) -> None:
    found = parse_names(
        f"           CPU0       CPU5\nNMI: 1 2  Non-maskable interrupts\n{line}\nERR:          0\n"
    )
    assert found == {number: (chip, actions)}


@given(st.text(), st.lists(st.text(alphabet=" :0123456789CPUx-,\t\u0663")))
def test_any_text_can_be_parsed_as_names(header: str, lines: list[str]) -> None:
    for number, (chip, actions) in parse_names("\n".join([header, *lines])).items():
        assert number >= 0
        assert chip != ""
        assert all(actions)
