"""PCI functions: a captured guest and this machine against lspci, and malformed files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.pci.functions import (
    ASPM_FILES,
    parse_error_counts,
    parse_reset_methods,
    parse_speed,
    parse_sriov_capability,
    parse_sriov_capable,
    parse_vf_addresses,
    read_pci,
)
from nictop.probe.inventory.pci.names import (
    parse_pci_ids,
    parse_udev_names,
    read_names,
    read_pci_ids,
    read_udev_names,
    vendor_lines,
)
from nictop.probe.kernel.sysfs import MAX_SYSFS_BYTES
from nictop.probe.records import PcieErrors, PcieLink, PciFunction, SriovCapability

Capture = Callable[[str], Path]

PCI_IDS = """\
# a comment
1af4  Red Hat, Inc.
\t1000  Virtio network device
\t\t1af4 1100  a subsystem
# a comment between the devices of one vendor

\t1041  Virtio 1.0 network device
8086  Intel Corporation
\t10ca  82576 Virtual Function
C 02  Network controller
\t00  Ethernet controller
"""


def blocks(text: str) -> dict[str, str]:
    """Address → its block in the output of ``lspci -D``."""
    return {
        part.split(" ", 1)[0]: part
        for part in re.split(r"\n(?=[0-9a-f]{4}:)", "\n" + text)
        if part.strip() and not part.startswith("\n")
    }


def functions_of(root: Path) -> dict[str, PciFunction]:
    functions, trouble = read_pci(str(root / "sys"))
    assert trouble is None
    return {function.address: function for function in functions}


def assert_lspci(function: PciFunction, verbose: str, numbers: str) -> None:
    """One block of ``lspci -Dvvv`` and one of ``lspci -Dnnk``."""
    match = re.match(
        r"\S+ .*? \[([0-9a-f]{4})\]: (.*) \[([0-9a-f]{4}):([0-9a-f]{4})\](?: \(rev (\w+)\))?",
        numbers,
    )
    assert match is not None
    assert function.class_code >> 8 == int(match.group(1), 16)
    assert (function.vendor_id, function.device_id) == (
        int(match.group(3), 16),
        int(match.group(4), 16),
    )
    assert function.revision == int(match.group(5) or "0", 16)
    driver = re.search(r"Kernel driver in use: (\S+)", numbers)
    assert function.driver == (driver.group(1) if driver else None)
    group = re.search(r"IOMMU group: (\d+)", verbose)
    assert function.iommu_group == (int(group.group(1)) if group else None)
    node = re.search(r"NUMA node: (\d+)", verbose)
    assert function.numa_node == (int(node.group(1)) if node else None)
    if function.link is not None:
        assert function.link == link_of(verbose)
    if "Capabilities: <access denied>" not in verbose and function.sriov_capable is not None:
        assert function.sriov_capable is ("Single Root I/O Virtualization (SR-IOV)" in verbose)
    total = re.search(r"Total VFs: (\d+), Number of VFs: (\d+)", verbose)
    if total:
        assert function.sriov is not None
        assert function.sriov.total_vfs <= int(
            total.group(1)
        )  # the driver may allow fewer than the capability
        assert function.sriov.num_vfs == int(total.group(2))
        assert len(function.sriov.virtual_functions) == function.sriov.num_vfs


def link_of(verbose: str) -> PcieLink:
    """LnkCap and LnkSta."""
    able = re.search(r"LnkCap:.*Speed ([\d.]+)GT/s, Width x(\d+)", verbose)
    now = re.search(r"LnkSta:\s*Speed ([\d.]+)GT/s.*, Width x(\d+)", verbose)
    assert able is not None
    assert now is not None
    return PcieLink(
        float(now.group(1)), int(now.group(2)), float(able.group(1)), int(able.group(2))
    )


def test_a_captured_guest_agrees_with_lspci(capture: Capture) -> None:
    root = capture("guest")
    verbose = blocks((root / "cmd/lspci-Dvvv").read_text())
    numbers = blocks((root / "cmd/lspci-Dnnk").read_text())
    functions = functions_of(root)
    assert sorted(functions) == [
        address for address, block in numbers.items() if "Ethernet controller" in block
    ]
    assert len(functions) == 7
    for address, function in functions.items():
        assert_lspci(function, verbose[address], numbers[address])
        assert function.sriov_capable is (
            True if function.sriov else False if function.physical_function else None
        )
        assert function.parent is not None
        assert function.parent_link == link_of(verbose[function.parent])
        assert function.unreadable == {}


def test_physical_function_and_number_of_virtual_functions(capture: Capture) -> None:
    functions = functions_of(capture("guest"))
    physical = functions["0000:02:00.0"]
    assert physical.sriov is not None
    assert (physical.sriov.total_vfs, physical.sriov.num_vfs) == (7, 4)
    assert physical.sriov.autoprobe is True
    assert physical.sriov.virtual_functions == (
        "0000:02:10.0",
        "0000:02:10.2",
        "0000:02:10.4",
        "0000:02:10.6",
    )
    for number, address in enumerate(physical.sriov.virtual_functions):
        virtual = functions[address]
        assert (virtual.physical_function, virtual.virtual_function) == ("0000:02:00.0", number)
        assert (virtual.driver, virtual.link, virtual.sriov) == ("igbvf", None, None)
    assert functions["0000:01:00.0"].driver == "vmxnet3"
    assert functions["0000:03:00.0"].driver == "virtio-pci"


def test_this_machine_agrees_with_lspci() -> None:
    if shutil.which("lspci") is None or not os.path.isdir("/sys/bus/pci/devices"):
        pytest.skip("no lspci or no PCI bus here")
    from_lspci = {}
    for option in ("-Dvvv", "-Dnnk"):
        done = subprocess.run(["lspci", option], capture_output=True, text=True, check=True)
        from_lspci[option] = blocks(done.stdout)
    functions, trouble = read_pci()
    assert trouble is None
    expected = {
        address
        for address, block in from_lspci["-Dnnk"].items()
        if re.search(r" \[02[0-9a-f]{2}\]: ", block)
    }
    assert {function.address for function in functions} == expected
    for function in functions:
        assert_lspci(
            function, from_lspci["-Dvvv"][function.address], from_lspci["-Dnnk"][function.address]
        )
        name = re.sub(
            r" \[[0-9a-f]{4}:.*",
            "",
            from_lspci["-Dnnk"][function.address].split("]: ", 1)[1].split("\n")[0],
        )
        if function.vendor_name and function.device_name:
            assert f"{function.vendor_name} {function.device_name}" == name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A bus with one network function and valid files."""
    device = tmp_path / "bus/pci/devices/0000:05:00.0"
    device.mkdir(parents=True)
    good = {
        "class": "0x020000",
        "vendor": "0x15b3",
        "device": "0x1017",
        "numa_node": "1",
        "enable": "1",
    }
    for name, content in good.items():
        (device / name).write_text(content + "\n")
    return device


def read_tree(tree: Path) -> PciFunction:
    (function,), trouble = read_pci(str(tree.parents[3]), lambda wanted: {})
    assert trouble is None
    return function


def test_a_function_without_driver_bridge_and_pcie(tree: Path) -> None:
    function = read_tree(tree)
    assert (function.driver, function.link, function.parent, function.sriov) == (
        None,
        None,
        None,
        None,
    )
    assert (function.numa_node, function.enabled) == (1, True)
    assert function.unreadable == {}


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("numa_node", "elephant", "numa_node"),
        ("revision", "0x", "revision"),
        ("sriov_totalvfs", "1_0", "sriov"),
        ("current_link_width", "\xff\x00", "link"),
        ("enable", "٣", "enabled"),
    ],
)
def test_a_garbled_file_is_reported(tree: Path, name: str, content: str, field: str) -> None:
    (tree / name).write_text(content)
    function = read_tree(tree)
    assert function.unreadable[field].reason == "malformed"
    assert name in function.unreadable[field].detail
    assert getattr(function, field) is None


@pytest.mark.parametrize(("content", "node"), [("0", 0), ("3", 3), ("-1", None)])
def test_numa_node(tree: Path, content: str, node: int | None) -> None:
    (tree / "numa_node").write_text(content)
    function = read_tree(tree)
    assert function.numa_node == node
    assert function.unreadable == {}


def test_an_unreadable_file_is_reported(tree: Path) -> None:
    (tree / "numa_node").unlink()
    (tree / "numa_node").mkdir()
    assert read_tree(tree).unreadable["numa_node"].detail.endswith("EISDIR")


def test_unknown_link_speed_and_no_lanes_are_none(tree: Path) -> None:
    for name, content in (
        ("current_link_speed", "Unknown"),
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("current_link_width", "0"),
        ("max_link_width", "16"),
    ):
        (tree / name).write_text(content + "\n")
    assert read_tree(tree).link == PcieLink(None, None, 16.0, 16)


@pytest.mark.parametrize(
    ("code", "listed"), [("0x060400", 0), ("0x0c0600", 1), ("0x020700", 1), ("", 0), ("x", 0)]
)
def test_only_network_functions_are_listed(tree: Path, code: str, listed: int) -> None:
    (tree / "class").write_text(code)
    assert len(read_pci(str(tree.parents[3]), lambda wanted: {})[0]) == listed


def test_virtual_functions_during_their_removal(tree: Path) -> None:
    """The kernel removes virtfn0 first: the first remaining link is not VF 0."""
    for name, content in (
        ("sriov_totalvfs", "4\n"),
        ("sriov_numvfs", "4\n"),
        ("sriov_drivers_autoprobe", "1\n"),
    ):
        (tree / name).write_text(content)
    for number in (2, 3):
        (tree / f"virtfn{number}").symlink_to(f"../0000:02:10.{number}")
    sriov = read_tree(tree).sriov
    assert sriov is not None
    assert sriov.virtual_functions == ()
    for number in (0, 1):
        (tree / f"virtfn{number}").symlink_to(f"../0000:02:10.{number}")
    sriov = read_tree(tree).sriov
    assert sriov is not None
    assert sriov.virtual_functions == tuple(f"0000:02:10.{number}" for number in range(4))


def test_a_missing_bus_is_no_failure(tmp_path: Path) -> None:
    assert read_pci(str(tmp_path)) == ((), None)
    (tmp_path / "bus/pci").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").write_text("")
    assert read_pci(str(tmp_path))[1] is not None


def test_names_from_pci_ids() -> None:
    wanted = {(0x1AF4, 0x1041), (0x8086, 0x10CA), (0x1AF4, 0xBEEF), (0x02, 0x00)}
    assert parse_pci_ids(PCI_IDS.splitlines(keepends=True), wanted) == {
        (0x1AF4, 0x1041): ("Red Hat, Inc.", "Virtio 1.0 network device"),
        (0x8086, 0x10CA): ("Intel Corporation", "82576 Virtual Function"),
        (0x1AF4, 0xBEEF): ("Red Hat, Inc.", None),
    }


def test_reading_pci_ids_stops_at_the_last_wanted_id() -> None:
    lines = iter(PCI_IDS.splitlines(keepends=True))
    assert parse_pci_ids(lines, {(0x1AF4, 0x1000)}) == {
        (0x1AF4, 0x1000): ("Red Hat, Inc.", "Virtio network device")
    }
    assert "1af4 1100" in next(lines)


@pytest.mark.parametrize("begin", ["# a comment", "8086", "C 02"])
@pytest.mark.parametrize("vendors", [(), (0x1AF4,), (0x8086,), (0x0002,), (0x1AF4, 0x8086, 0xFFFF)])
def test_only_the_lines_of_wanted_vendors_are_parsed(
    vendors: tuple[int, ...], begin: str, tmp_path: Path
) -> None:
    """The names are those of the whole file, also of one that begins with the vendor."""
    text = PCI_IDS[PCI_IDS.index(begin) :]
    (tmp_path / "pci.ids").write_text(text)
    wanted = {(vendor, device) for vendor in vendors for device in (0x1000, 0x1041, 0x10CA)}
    expected = parse_pci_ids(text.splitlines(keepends=True), wanted)
    assert read_pci_ids(wanted, [str(tmp_path / "pci.ids")]) == expected
    lines = vendor_lines(text.encode(), vendors)
    assert {line[:4] for line in lines if line[0] not in "\t#\n"} <= {
        f"{vendor:04x}" for vendor in vendors
    }


UDEV_RECORD = """\
I:3312044
E:ID_VENDOR_FROM_DATABASE=Intel Corporation
E:ID_MODEL_FROM_DATABASE=82576 Virtual Function
E:ID_NET_NAME=a=b
V:1
"""


def test_names_of_the_udev_database(tmp_path: Path) -> None:
    """Used only if the device at that address has the same ids: a captured sysfs may have
    others."""
    (tmp_path / "run/udev/data").mkdir(parents=True)
    (tmp_path / "run/udev/data/+pci:0000:02:10.0").write_text(UDEV_RECORD)
    device = tmp_path / "sys/bus/pci/devices/0000:02:10.0"
    device.mkdir(parents=True)
    (device / "uevent").write_text("DRIVER=igbvf\nPCI_CLASS=20000\nPCI_ID=8086:10CA\n")
    roots = str(tmp_path / "run"), str(tmp_path / "sys")
    names = {"0000:02:10.0": ("Intel Corporation", "82576 Virtual Function")}
    assert (
        read_udev_names(
            {"0000:02:10.0": (0x8086, 0x10CA), "0000:02:10.2": (0x8086, 0x10CA)}, *roots
        )
        == names
    )
    assert read_udev_names({"0000:02:10.0": (0x8086, 0x10C9)}, *roots) == {}
    assert read_udev_names({"0000:02:10.0": (0x8086, 0x10CA)}, str(tmp_path), roots[1]) == {}


@pytest.mark.parametrize(
    "record", ["", "E:", "E:ID_VENDOR_FROM_DATABASE", "ID_VENDOR_FROM_DATABASE=x\n"]
)
def test_a_record_without_names(record: str) -> None:
    assert parse_udev_names(record) == (None, None)


def test_no_names_without_a_database(tmp_path: Path) -> None:
    assert read_names({"ffff:ff:1f.7": (0x8086, 0x10CA)}, [str(tmp_path / "none")]) == {}


@given(st.lists(st.text()), st.sets(st.tuples(st.integers(0, 65535), st.integers(0, 65535))))
def test_any_pci_ids_can_be_parsed(lines: list[str], wanted: set[tuple[int, int]]) -> None:
    assert set(parse_pci_ids(lines, wanted)) <= wanted


@given(st.text())
def test_any_text_is_a_speed_or_none(text: str) -> None:
    speed = parse_speed(text)
    assert speed is None or 0 <= speed < 1000


def configuration(*capabilities: tuple[int, int, int]) -> bytes:
    """4096 bytes of configuration space with extended capabilities (offset, id, next offset) of
    version 1."""
    space = bytearray(4096)
    for offset, identifier, following in capabilities:
        space[offset : offset + 4] = (identifier | 1 << 16 | following << 20).to_bytes(4, "little")
    return bytes(space)


IGB = ((0x100, 0x0001, 0x150), (0x150, 0x000E, 0x160), (0x160, 0x0010, 0))
"""An 82576: error reporting, ARI, SR-IOV, as its configuration space has them."""


@pytest.mark.parametrize(
    ("config", "capable"),
    [
        (configuration(*IGB), True),
        (configuration(*IGB[:1], (0x150, 0x000E, 0)), False),
        (configuration(), False),
        (configuration(*IGB)[:256], False),
        (configuration(*IGB)[:64], None),
        (configuration(*IGB)[:0x152], None),
        (b"", None),
        (b"\xff" * 4096, None),
        (configuration((0x100, 0x0001, 0x150), (0x150, 0x000E, 0x100)), None),
        (configuration((0x100, 0x0001, 0x040)), False),
    ],
)
def test_the_capability_in_the_chain(config: bytes, capable: bool | None) -> None:
    assert parse_sriov_capable(config) is capable


def with_sriov(total: int, page_sizes: int) -> bytes:
    """An 82576 with these values in its SR-IOV capability."""
    space = bytearray(configuration(*IGB))
    space[0x16E:0x170] = total.to_bytes(2, "little")
    space[0x17C:0x180] = page_sizes.to_bytes(4, "little")
    return bytes(space)


def test_what_is_in_a_capability_that_the_kernel_does_not_show(tree: Path) -> None:
    """As on a kernel with large pages, or without CONFIG_PCI_IOV."""
    (tree / "config").write_bytes(with_sriov(7, 0x553))
    assert read_tree(tree).sriov_capability == SriovCapability(7, 0x553)
    assert parse_sriov_capability(with_sriov(7, 0x553)[:0x17F]) is None
    assert parse_sriov_capability(configuration()) is None
    (tree / "sriov_totalvfs").write_text("7\n")
    (tree / "sriov_numvfs").write_text("0\n")
    assert read_tree(tree).sriov_capability is None


UNUSED = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
IN_USE = "0x00000000fe600000 0x00000000fe61ffff 0x000000000014220c"
"""Memory of the VFs of an 82576."""
UNSET = "0x0000000000000000 0x000000000001ffff 0x000000002014220c"
NO_START = "0x0000000000000000 0x000000000001ffff 0x000000000014220c"
OWN = (IN_USE, *6 * [UNUSED])
"""Seven lines of the function itself."""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*OWN, IN_USE, UNUSED, UNUSED, IN_USE, UNUSED, UNUSED), True),
        ((*OWN, *6 * [UNUSED]), False),
        ((*OWN, UNSET, UNUSED, UNUSED, UNSET, UNUSED, UNUSED), False),
        ((*OWN, IN_USE, UNUSED, UNUSED, UNSET, UNUSED, UNUSED), False),
        ((*OWN, NO_START, *5 * [UNUSED]), False),
        (OWN, None),
        ((*OWN, "x", *5 * [UNUSED]), None),
        ((), None),
    ],
)
def test_addresses_for_the_memory_of_functions(
    lines: tuple[str, ...], expected: bool | None, tree: Path
) -> None:
    text = "\n".join(lines) + "\n"
    assert parse_vf_addresses(text) is expected
    for name, content in (("sriov_totalvfs", "7"), ("sriov_numvfs", "0"), ("resource", text)):
        (tree / name).write_text(f"{content}\n")
    sriov = read_tree(tree).sriov
    assert sriov is not None and sriov.has_addresses is expected


@given(st.text())
def test_any_text_is_a_list_of_ranges_or_none(text: str) -> None:
    assert parse_vf_addresses(text) in (True, False, None)


@given(
    st.lists(st.integers(64, 1023).map(lambda word: 4 * word)),
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFF),
)
def test_any_chain_ends(offsets: list[int], identifier: int, last: int) -> None:
    """Also with loops."""
    chain = zip([0x100, *offsets], [identifier] * (len(offsets) + 1), [*offsets, last], strict=True)
    assert parse_sriov_capable(configuration(*chain)) in (True, False, None)


@given(st.binary(max_size=4096))
def test_any_bytes_are_a_configuration_space(config: bytes) -> None:
    assert parse_sriov_capable(config) in (True, False, None)
    assert parse_sriov_capable(config[:255]) is None


def test_capability_without_driver(tree: Path) -> None:
    """sriov_totalvfs exists without a driver, unless the firmware allows no VFs; the capability is
    always there."""
    assert read_tree(tree).sriov_capable is None
    (tree / "config").write_bytes(configuration(*IGB))
    (tree / "modalias").write_text("pci:v000015B3d00001017sv*\n")
    function = read_tree(tree)
    assert (function.sriov, function.sriov_capable) == (None, True)
    assert function.modalias == "pci:v000015B3d00001017sv*"
    (tree / "power").mkdir()
    (tree / "power/runtime_status").write_text("suspended\n")
    assert read_tree(tree).sriov_capable is None
    (tree / "power/runtime_status").write_text("active\n")
    (tree / "config").write_bytes(configuration(*IGB)[:64])
    assert read_tree(tree).sriov_capable is None
    (tree / "config").write_bytes(bytes(256))
    assert read_tree(tree).sriov_capable is False


def test_a_virtual_function_has_no_capability(tree: Path) -> None:
    (tree / "physfn").symlink_to("../0000:05:00.1")
    (tree / "config").write_bytes(configuration(*IGB))
    assert read_tree(tree).sriov_capable is False


CORRECTABLE = """\
RxErr 2
BadTLP 12
BadDLLP 0
Rollover 0
Timeout 0
NonFatalErr 0
CorrIntErr 0
HeaderOF 0
TOTAL_ERR_COR 13
"""
UNCORRECTABLE = """\
Undefined 0
DLP 0
SDES 0
TLP 0
FCP 0
CmpltTO {timeouts}
CmpltAbrt 0
UnxCmplt 0
RxOF 0
MalfTLP 0
ECRC 0
UnsupReq 0
ACSViol 0
UncorrIntErr 0
BlockedTLP 0
AtomicOpBlocked 0
TLPBlockedErr 0
PoisonTLPBlocked 0
dev_nonfatal_errs_bit[27] 0
TOTAL_ERR_{severity} {timeouts}
"""
WITH_SPACES = "Receiver Error 2\nBad TLP 0\nRELAY_NUM Rollover 1\nTOTAL_ERR_COR 3\n"
"""Linux 4.19, as in Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats."""


def write_errors(device: Path, timeouts: int = 0) -> None:
    (device / "aer_dev_correctable").write_text(CORRECTABLE)
    (device / "aer_dev_nonfatal").write_text(
        UNCORRECTABLE.format(severity="NONFATAL", timeouts=timeouts)
    )
    (device / "aer_dev_fatal").write_text(UNCORRECTABLE.format(severity="FATAL", timeouts=0))


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    """A network function below a port, with error counters in both, links and files as in sysfs."""
    port = tmp_path / "devices/pci0000:00/0000:00:03.0"
    device = port / "0000:05:00.0"
    device.mkdir(parents=True)
    for name, content in (("class", "0x020000"), ("vendor", "0x15b3"), ("device", "0x1017")):
        (device / name).write_text(content + "\n")
    (port / "class").write_text("0x060400\n")
    bus = tmp_path / "bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / port.name).symlink_to(port)
    (bus / device.name).symlink_to(device)
    write_errors(device)
    write_errors(port, timeouts=1)
    return bus / device.name


OWN_ERRORS = PcieErrors(13, 0, 0, {"RxErr": 2, "BadTLP": 12}, {}, {})
PORT_ERRORS = PcieErrors(13, 1, 0, {"RxErr": 2, "BadTLP": 12}, {"CmpltTO": 1}, {})


def test_errors_of_a_function_and_its_port(slot: Path) -> None:
    function = read_tree(slot)
    assert function.parent == "0000:00:03.0"
    assert (function.errors, function.parent_errors) == (OWN_ERRORS, PORT_ERRORS)
    assert function.unreadable == {}


def test_a_virtual_function_leaves_port_and_link_to_its_physical_function(slot: Path) -> None:
    (slot / "physfn").symlink_to("../0000:05:00.1")
    (slot / "link").mkdir()
    (slot / "link/l1_aspm").write_text("1\n")
    function = read_tree(slot)
    assert (function.errors, function.parent_errors, function.aspm) == (OWN_ERRORS, None, {})
    assert function.unreadable == {}


@pytest.mark.parametrize(
    "content",
    [
        "RxErr 2\n",
        "RxErr\nTOTAL_ERR_COR 1\n",
        "TOTAL_ERR_COR -1\n",
        "a 1\n" * MAX_SYSFS_BYTES,
        "\xff\x00",
    ],
)
def test_malformed_error_counters_are_reported(slot: Path, content: str) -> None:
    (slot / "aer_dev_correctable").write_text(content)
    (slot.resolve().parent / "aer_dev_fatal").write_text(content)
    function = read_tree(slot)
    assert (function.errors, function.parent_errors) == (None, None)
    assert {field: why.reason for field, why in function.unreadable.items()} == {
        "errors": "malformed",
        "parent_errors": "malformed",
    }
    assert "0000:05:00.0/aer_dev_correctable" in function.unreadable["errors"].detail
    assert "0000:00:03.0/aer_dev_fatal" in function.unreadable["parent_errors"].detail


@pytest.mark.parametrize("name", ["aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"])
def test_a_function_without_all_error_counters_has_none(slot: Path, name: str) -> None:
    """Missing: no such capability, or its removal has begun. Empty: no line of the kernel."""
    (slot / name).write_text("")
    assert (read_tree(slot).errors, read_tree(slot).unreadable) == (None, {})
    (slot / name).unlink()
    assert (read_tree(slot).errors, read_tree(slot).unreadable) == (None, {})
    (slot / name).mkdir()
    assert read_tree(slot).unreadable["errors"].detail.endswith("EISDIR")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (CORRECTABLE.rstrip(), (13, {"RxErr": 2, "BadTLP": 12})),
        (WITH_SPACES.rstrip(), (3, {"Receiver Error": 2, "RELAY_NUM Rollover": 1})),
        ("dev_cor_errs_bit[9] 1\nTOTAL_ERR_COR 1", (1, {"dev_cor_errs_bit[9]": 1})),
        ("TOTAL_ERR_COR " + "9" * 19, (10**19 - 1, {})),
        ("TOTAL_ERR_COR 1\n", None),
        ("TOTAL_ERR_FATAL 1", None),
        ("TOTAL_ERR_COR " + "9" * 20, None),
        ("TOTAL_ERR_COR ٣", None),
        (" 1\nTOTAL_ERR_COR 1", None),
        ("é 1\nTOTAL_ERR_COR 1", None),
        ("a" * 64 + " 1\nTOTAL_ERR_COR 1", None),
        ("", None),
    ],
)
def test_error_counts(text: str, counts: tuple[int, dict[str, int]] | None) -> None:
    assert parse_error_counts(text, "TOTAL_ERR_COR") == counts


@given(st.text() | st.lists(st.sampled_from(CORRECTABLE.split("\n"))).map("\n".join))
def test_any_text_is_error_counts_or_none(text: str) -> None:
    counts = parse_error_counts(text, "TOTAL_ERR_COR")
    if counts is not None:
        total, kinds = counts
        assert 0 <= total < 2**64
        assert all(0 < count < 2**64 for count in kinds.values())


@given(st.binary(max_size=400))
def test_any_bytes_in_the_files_end_in_a_record(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    device = tmp_path_factory.mktemp("any") / "bus/pci/devices/0000:05:00.0"
    (device / "link").mkdir(parents=True)
    for name in ("class", "vendor", "device"):
        (device / name).write_text("0x020000\n")
    for name in (
        "aer_dev_correctable",
        "aer_dev_nonfatal",
        "aer_dev_fatal",
        "link/l1_aspm",
        "reset_method",
    ):
        (device / name).write_bytes(content)
    function = read_tree(device)
    assert set(function.aspm) <= {"l1_aspm"}
    assert set(function.unreadable) <= {"errors", "aspm", "reset_methods"}
    assert function.reset_methods is not None or "reset_methods" in function.unreadable


def test_aspm_states_that_the_link_supports(tree: Path) -> None:
    (tree / "link").mkdir()
    assert read_tree(tree).aspm == {}
    for name, content in (("l1_aspm", "1"), ("l1_2_aspm", "0"), ("clkpm", "1"), ("unknown", "1")):
        (tree / f"link/{name}").write_text(content + "\n")
    function = read_tree(tree)
    assert function.aspm == {"l1_aspm": True, "l1_2_aspm": False, "clkpm": True}
    assert function.unreadable == {}
    for name in ASPM_FILES:
        (tree / f"link/{name}").write_text("1\n")
    assert read_tree(tree).aspm == dict.fromkeys(ASPM_FILES, True)


@pytest.mark.parametrize("content", ["on", "1" * MAX_SYSFS_BYTES + "x", "\xff"])
def test_a_malformed_aspm_state_is_reported(tree: Path, content: str) -> None:
    (tree / "link").mkdir()
    (tree / "link/l0s_aspm").write_text("0\n")
    (tree / "link/l1_aspm").write_text(content)
    function = read_tree(tree)
    assert function.aspm == {"l0s_aspm": False}
    assert function.unreadable["aspm"].reason == "malformed"


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("flr bus", ("flr", "bus")),
        ("device_specific acpi pm", ("device_specific", "acpi", "pm")),
        ("af_flr cxl_bus\n", ("af_flr", "cxl_bus")),
        ("", ()),
        ("FLR", None),
        ("flr,bus", None),
        ("\ufffd", None),
        ("a" * 33, None),
        ("flr " * 1000, None),
    ],
)
def test_reset_methods(text: str, methods: tuple[str, ...] | None) -> None:
    assert parse_reset_methods(text) == methods


@given(st.text())
def test_any_text_is_reset_methods_or_none(text: str) -> None:
    assert parse_reset_methods(text) in (None, tuple(text.split()))


def test_reset_methods_of_old_and_new_kernels(tree: Path) -> None:
    """Before 5.15 there is only ``reset``; a function that cannot be reset has neither file on any
    kernel."""
    assert read_tree(tree).reset_methods == ()
    (tree / "reset").write_text("")
    assert read_tree(tree).reset_methods is None
    (tree / "reset_method").write_text("flr bus\n")
    assert read_tree(tree).reset_methods == ("flr", "bus")
    (tree / "reset_method").write_text("")
    assert read_tree(tree).reset_methods == ()
    assert read_tree(tree).unreadable == {}
    (tree / "reset_method").write_text("a\0b " * MAX_SYSFS_BYTES)
    assert (read_tree(tree).reset_methods, read_tree(tree).unreadable["reset_methods"].reason) == (
        None,
        "malformed",
    )
    (tree / "reset_method").unlink()
    (tree / "reset_method").mkdir()
    assert read_tree(tree).reset_methods is None
    assert read_tree(tree).unreadable["reset_methods"].detail.endswith("EISDIR")


def test_names_agree_with_pyudev() -> None:
    """For the devices of this machine; without udevd neither has names."""
    pyudev = pytest.importorskip("pyudev", reason="libudev is not installed", exc_type=ImportError)
    wanted = {}
    expected = {}
    for device in pyudev.Context().list_devices(subsystem="pci"):
        vendor, _, model = device.properties["PCI_ID"].partition(":")
        wanted[device.sys_name] = (int(vendor, 16), int(model, 16))
        names = tuple(
            device.properties.get(f"ID_{what}_FROM_DATABASE") for what in ("VENDOR", "MODEL")
        )
        if names != (None, None):
            expected[device.sys_name] = names
    assert read_udev_names(wanted) == expected
