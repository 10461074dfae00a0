"""Which device a kernel message is about: addresses before names, former names, devices without a
netdev."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.kernel_log import NO_MESSAGES, KernelLog, Logged
from nictop.probe.inventory.machine.message_table import TABLE
from nictop.probe.records import (
    Address,
    DriverInfo,
    Ethtool,
    KernelMessage,
    Link,
    PciFunction,
)

ONBOARD, USB, PORT = "0000:01:00.0", "2-1:1.0", "0000:00:1c.0"
SECOND = "0000:02:00.0"
HANG = "NETDEV WATCHDOG: {name} ({driver}): transmit queue 0 timed out"
NEW_HANG = "{driver} {device} {name}: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms"
SAMPLES = [
    line.split("\t")
    for line in (Path(__file__).parents[1] / "data" / "kernel_messages.tsv")
    .read_text()
    .splitlines()
]
MEANINGS = {(known.driver, known.text): known.meaning for known in TABLE}

QUEUES = {
    "Detected Hardware Unit Hang": None,
    "TX timeout detected, starting reset task!": None,
    "Ring monitor event, ring type": None,
    "Indicating link is down due to Tx-timeout": None,
    "nvsp_rndis_pkt_complete error status": None,
    "tx_timeout recovery unsuccessful": None,
    "TX: CQE error": None,
    "Tx timeout called on port": None,
    "TX timeout detected": None,
    "ERR CQE on SQ": None,
    "failed recovering from a tx_timeout": None,
    "rtl_rxtx_empty_cond ==": None,
    "Transmit timeout reset Device!": None,
    "ASPM disabled on Tx timeout": None,
    "TX stuck with port_enabled=": None,
    "transmit timed out, resetting": None,
    ": tx hang": None,
    "Timeout on tx queue,": 3,
    "tx_timeout: VSI_seid": 12,
    "tx_timeout: VSI_num": 12,
    "tx_timeout recovery level": 12,
    "Fake Tx hang detected on queue": 3,
    "resetting adapter": 5,
    "RX timeout on channel": 3,
    "TX timeout on queue:": 0,
    "is stuck, requesting MCP to drain": 3,
    "NETDEV WATCHDOG: ": 0,
    ("e1000", "Detected Tx Unit Hang"): 0,
    ("igb", "Detected Tx Unit Hang"): 3,
    ("igc", "Detected Tx Unit Hang"): 1,
    ("ixgbe", "Detected Tx Unit Hang"): 5,
    ("ixgbevf", "Detected Tx Unit Hang"): 0,
    ("mlx4_en", "TX timeout on queue"): 6,
    ("mlx5_core", "TX timeout on queue"): 3,
    ("any", "TX timeout on queue"): 3,
}
"""Text, or driver and text → queue that the sample names."""


def link(
    ifindex: int, name: str, device: str | None = ONBOARD, driver: str | None = "igb", **fields: Any
) -> Link:
    pci = device if device is not None and device.count(":") == 2 else None
    fields = {"bus": "pci" if pci else "usb", "pci_address": pci, **fields}
    info = None if driver is None else DriverInfo(driver, "", "", device or "")
    return Link(
        ifindex, name, 1, 3, "up", True, 1500, device=device, ethtool=Ethtool(driver=info), **fields
    )


def function(
    address: str = ONBOARD, driver: str | None = "igb", parent: str | None = PORT
) -> PciFunction:
    return PciFunction(
        address, 0x020000, 0x8086, 0x1533, None, None, None, driver=driver, parent=parent
    )


def message(text: str, time: float = 100.0) -> KernelMessage:
    return KernelMessage(time, 4, text)


def hang(name: str, time: float = 100.0, driver: str = "igb") -> KernelMessage:
    return message(HANG.format(name=name, driver=driver), time)


def renamed(old: str, new: str, time: float, device: str = ONBOARD) -> KernelMessage:
    return message(f"igb {device} {new}: renamed from {old}", time)


def texts(found: Any) -> list[str]:
    return [one.text for one in found]


def times(found: Any) -> list[float]:
    return [one.time for one in found]


# --------------------------------------------------------------------------------- address and name


def test_the_address_decides_before_the_name() -> None:
    """The line says eth0: that card is eno1 now, and a USB NIC is called eth0."""
    onboard, usb = link(2, "eno1"), link(3, "eth0", USB, "r8152")
    text = NEW_HANG.format(driver="igb", device=ONBOARD, name="eth0")
    log = KernelLog([message(text)], (onboard, usb), (function(),))
    assert texts(log.of_link(onboard)) == [text]
    assert log.of_link(usb) == ()
    assert texts(log.of_address(ONBOARD)) == [text]
    assert log.addresses == [ONBOARD]
    assert log.others == []


def test_in_another_network_namespace_only_its_own_links_have_messages() -> None:
    """The log is one for all, and so are the PCI functions."""
    inside, outside = link(2, "eth0"), link(3, "eth1", SECOND, "igb")
    texts_of_all = [
        NEW_HANG.format(driver="igb", device=ONBOARD, name="eth0"),
        NEW_HANG.format(driver="igb", device=SECOND, name="eth1"),
        "br0: received packet on tap7 with own address as source address",
        "nf_conntrack: nf_conntrack: table full, dropping packet",
    ]
    messages = list(map(message, texts_of_all))
    functions = (function(), function(SECOND))
    whole = KernelLog(messages, (inside, outside), functions)
    assert whole.addresses == [ONBOARD, SECOND] and len(whole.entries) == 4
    log = KernelLog(messages, (inside,), functions, only_links=True)
    assert log.addresses == [ONBOARD]
    assert texts(log.of_link(inside)) == texts_of_all[:1]
    assert texts(log.others) == texts_of_all[3:]
    assert texts(log.entries) == [texts_of_all[0], texts_of_all[3]]
    assert not log.has(("own_address",)) and log.has(("connections_full",))


@pytest.mark.parametrize("wording", [HANG, NEW_HANG])
def test_the_watchdog_of_old_and_new_kernels(wording: str) -> None:
    nic = link(2, "eth0")
    text = wording.format(driver="igb", device=ONBOARD, name="eth0")
    log = KernelLog([message(text)], (nic,), (function(),))
    (entry,) = log.of_link(nic)
    assert (entry.text, entry.name, entry.queue) == (text, "eth0", 0)
    assert texts(log.of_address(ONBOARD)) == [text]


def test_an_alternative_name() -> None:
    nic = link(2, "eno1", altnames=("enp1s0",))
    assert times(KernelLog([hang("enp1s0")], (nic,)).of_link(nic)) == [100.0]


def test_a_usb_nic() -> None:
    nic = link(3, "eth0", USB, "r8152")
    new = message(NEW_HANG.format(driver="r8152", device=USB, name="eth0"))
    renamed_since = message(NEW_HANG.format(driver="r8152", device=USB, name="eth7"))
    assert len(KernelLog([hang("eth0"), new, renamed_since], (nic,)).of_link(nic)) == 3


def test_another_device_of_the_same_name() -> None:
    """The address is that of a card that has been taken out."""
    nic = link(2, "eth0")
    text = NEW_HANG.format(driver="igb", device="0000:09:00.0", name="eth0")
    log = KernelLog([message(text)], (nic,), (function(),))
    assert log.of_link(nic) == ()
    assert texts(log.others) == [text]


# ------------------------------------------------------------------------------------- former names


def test_a_former_name() -> None:
    """At the time of the message the NIC was still called eth0."""
    onboard, usb = link(2, "eno1"), link(3, "eth0", USB, "r8152")
    log = KernelLog(
        [hang("eth0", 10.0), renamed("eth0", "eno1", 20.0), hang("eth0", 30.0)], (onboard, usb)
    )
    assert times(log.of_link(onboard)) == [10.0, 20.0]
    assert times(log.of_link(usb)) == [30.0]


def test_a_name_that_another_nic_got_later() -> None:
    """eth1 was nobody's name at the time of the message, as far as is known."""
    nic = link(2, "eth1")
    log = KernelLog([hang("eth1", 10.0), renamed("eth0", "eth1", 20.0), hang("eth1", 30.0)], (nic,))
    assert times(log.of_link(nic)) == [20.0, 30.0]
    assert times(log.others) == [10.0]


def test_two_nics_that_have_changed_names() -> None:
    first, second = link(2, "eth1"), link(3, "eth0", "0000:02:00.0")
    log = KernelLog(
        [
            hang("eth0", 10.0),
            hang("eth1", 11.0),
            renamed("eth1", "temporary", 20.0, "0000:02:00.0"),
            renamed("eth0", "eth1", 21.0),
            renamed("temporary", "eth0", 22.0, "0000:02:00.0"),
            hang("eth0", 30.0),
            hang("eth1", 31.0),
        ],
        (first, second),
    )
    assert times(log.of_link(first)) == [10.0, 21.0, 31.0]
    assert times(log.of_link(second)) == [11.0, 20.0, 22.0, 30.0]


def test_a_name_of_a_card_that_is_gone() -> None:
    nic = link(2, "eno1")
    log = KernelLog([hang("eth0", 10.0), renamed("eth0", "ens9", 20.0, "0000:09:00.0")], (nic,))
    assert log.of_link(nic) == ()
    assert len(log.others) == 2


# ------------------------------------------------------------------------------------------ devices


def test_a_device_with_two_netdevs() -> None:
    """The name decides between them; without one the message is about both."""
    first, second = link(2, "ens1", driver="mlx4_en"), link(3, "ens1d1", driver="mlx4_en")
    own = message(f"mlx4_en {ONBOARD} ens1d1: TX timeout on queue: 6")
    both = message(f"mlx4_core {ONBOARD}: Internal error detected:")
    log = KernelLog([own, both], (first, second), (function(),))
    assert texts(log.of_link(first)) == [both.text]
    assert texts(log.of_link(second)) == [own.text, both.text]
    assert texts(log.of_address(ONBOARD)) == [own.text, both.text]


def test_a_virtio_device() -> None:
    """The number is that of the device on its bus; the PCI function is that of the netdev."""
    nic = link(2, "ens3", "virtio2", "virtio_net", bus="virtio", pci_address="0000:00:03.0")
    other = link(3, "ens4", "virtio3", "virtio_net", bus="virtio", pci_address="0000:00:04.0")
    text = (
        "virtio_net virtio2 eth0: TX timeout on queue: 0, sq: output.0, vq: 0x1, name: "
        "output.0, 5032000 usecs ago"
    )
    log = KernelLog([message(text)], (nic, other), (function("0000:00:03.0", "virtio-pci"),))
    assert texts(log.of_link(nic)) == [text]
    assert log.of_link(other) == ()
    assert log.addresses == ["0000:00:03.0"]


GUID, NEW_GUID = "0022482a-6f5e-0022-482a-6f5e0022482a", "000d3a00-0000-000d-3a00-0000000d3a00"


@pytest.mark.parametrize(
    ("device", "name", "driver", "found"),
    [
        (GUID, "eth0", "hv_netvsc", True),
        (GUID, "eth7", "hv_netvsc", True),  # renamed since
        (NEW_GUID, "eth0", "hv_netvsc", True),  # made again
        (NEW_GUID, "eth7", "hv_netvsc", False),  # another NIC
        (NEW_GUID, "eth0", "mlx5_core", False),
    ],
)
def test_a_vmbus_device(device: str, name: str, driver: str, found: bool) -> None:
    nic = link(2, name, device, driver, bus="vmbus")
    log = KernelLog(
        [message(f"hv_netvsc {GUID} eth0: Data path switched from VF: enP30832s1")], (nic,)
    )
    assert bool(log.of_link(nic)) == found
    assert bool(log.others) != found


def test_a_function_without_a_netdev() -> None:
    text = f"igb {ONBOARD}: probe with driver igb failed with error -13"
    log = KernelLog([message(text)], (link(3, "eth0", USB, "r8152"),), (function(driver=None),))
    assert texts(log.of_address(ONBOARD)) == [text]
    assert log.others == []
    assert log.of_address(None) == ()
    assert log.of_address("0000:09:00.0") == ()


def test_a_port_above_a_nic() -> None:
    """Messages about it are found by its address; those that also name the NIC by both."""
    nic = link(2, "eno1")
    port = (
        f"pcieport {PORT}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)"
    )
    both = f"pcieport {PORT}: AER: Corrected error received: {ONBOARD}"
    other = "pcieport 0000:64:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer"
    log = KernelLog(map(message, (port, both, other)), (nic,), (function(),))
    assert log.addresses == [PORT, ONBOARD]
    assert texts(log.of_address(PORT)) == [port, both]
    assert texts(log.of_address(ONBOARD)) == [both]
    assert texts(log.others) == [other]
    assert log.of_link(nic) == ()


@pytest.mark.parametrize("known", [True, False])
def test_a_message_that_names_only_its_driver(known: bool) -> None:
    """It is about the only NIC with that driver, also when the NIC answers no ethtool request any
    more."""
    nic = link(2, "eno1", driver="igc" if known else None)
    usb = link(4, "eth0", USB, "r8152")
    text = "igc: Failed to read reg 0xc030!"
    log = KernelLog([message(text)], (nic, usb), (function(driver="igc"),))
    assert texts(log.of_link(nic)) == texts(log.of_address(ONBOARD)) == [text]
    second = link(3, "eno2", "0000:02:00.0", "igc")
    log = KernelLog(
        [message(text)],
        (nic, second, usb),
        (function(driver="igc"), function("0000:02:00.0", "igc")),
    )
    assert texts(log.others) == [text]


def test_a_name_counts_before_the_driver() -> None:
    """The message names an interface of that driver that is not there any more."""
    nic = link(2, "eno1", driver="mlx4_en")
    gone, own = "mlx4_en: eth9: TX timeout on queue: 6", "mlx4_en: eno1: TX timeout on queue: 6"
    log = KernelLog(map(message, (gone, own)), (nic,))
    assert texts(log.of_link(nic)) == [own]
    assert texts(log.others) == [gone]


def test_messages_of_qlogic_and_broadcom() -> None:
    """[function:line(name)], where the name is that of the netdev, or bus, device and function."""
    nic = link(2, "eth0", driver="qede")
    stuck = "[qede_drain_txq:594(eth0)]Tx queue[3] is stuck, requesting MCP to drain"
    failed = (
        "[qed_mcp_cmd:594(sp-0-01:00.00)]The MFW failed to respond to command 0x12000000 "
        "[param 0x00000000]."
    )
    log = KernelLog(map(message, (stuck, failed)), (nic,), (function(driver="qede"),))
    assert texts(log.of_link(nic)) == [stuck, failed]
    without_netdev = KernelLog([message(failed)], (), (function(driver="qede"),))
    assert texts(without_netdev.of_address(ONBOARD)) == [failed]


def test_messages_about_no_device() -> None:
    texts_of_the_host = [
        "nf_conntrack: nf_conntrack: table full, dropping packet",
        "Neighbour table overflow.",
    ]
    log = KernelLog(map(message, texts_of_the_host), (link(2, "eno1"),), (function(),))
    assert texts(log.others) == texts(log.entries) == texts_of_the_host
    assert log.addresses == []


def test_messages_of_an_older_probe_that_are_not_known_any_more() -> None:
    log = KernelLog([message("igb 0000:01:00.0: something else"), hang("eno1")], (link(2, "eno1"),))
    assert len(log.entries) == 1


def test_meanings() -> None:
    log = KernelLog([hang("eno1")])
    assert log.has(["reset", "transmit_stalled"])
    assert not log.has(["reset"])
    assert not NO_MESSAGES.has(["reset"])
    assert NO_MESSAGES.entries == ()


# ------------------------------------------------------------------------------------------- queues


@pytest.mark.parametrize(
    ("driver", "text", "sample"),
    [one for one in SAMPLES if MEANINGS[one[0], one[1]] == "transmit_stalled"],
)
def test_the_queue_of_a_stall(driver: str, text: str, sample: str) -> None:
    (entry,) = KernelLog([message(sample)]).entries
    expected = QUEUES[(driver, text)] if (driver, text) in QUEUES else QUEUES[text]
    assert entry.queue == expected


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("ena 0000:00:05.0 ens5: Found a Tx that wasn't completed on time, qid 4, index 219.", 4),
        (
            "ena 0000:00:05.0 ens5: [1/2] 12 new missed TX completions, qid: 3, 5012 msecs since "
            "interrupt",
            3,
        ),
        ("ena 0000:00:05.0 ens5: TX q 3 is paused for too long (threshold 5000000).", 3),
        (
            "i40e 0000:3b:00.0: Malicious Driver Detection event 0x06 on TX queue 31 PF number "
            "0x00 VF number 0x02",
            31,
        ),
        ("NETDEV WATCHDOG: queue7 (e1000): transmit queue 12 timed out", 12),
        ("NETDEV WATCHDOG: eth0 (e1000): transmit queue 99999999999999999999 timed out", None),
    ],
)
def test_the_queue_of_other_messages(text: str, queue: int | None) -> None:
    (entry,) = KernelLog([message(text)]).entries
    assert entry.queue == queue


# ------------------------------------------------------------------------------------ hostile texts

ODD = st.one_of(
    st.text(max_size=500),
    st.sampled_from([sample for _, _, sample in SAMPLES]),
    st.builds(
        "{} {} {}: {}".format,
        st.sampled_from(["igb", "virtio_net", "hv_netvsc", "x" * 32]),
        st.sampled_from([ONBOARD, "virtio0", GUID, "0000:", "-", ""]),
        st.text(max_size=70),
        st.sampled_from([known.text for known in TABLE]),
    ),
    st.builds("{}: renamed from {}".format, st.text(max_size=70), st.text(max_size=70)),
)


@given(
    st.lists(st.tuples(ODD, st.floats(allow_nan=False)), max_size=8),
    st.lists(st.text(max_size=15), max_size=3),
)
def test_any_messages_are_a_log(messages: list[tuple[str, float]], names: list[str]) -> None:
    """Nothing raises, and no message is lost or counted twice."""
    links = [
        link(number, name, f"0000:0{number}:00.0") for number, name in enumerate(names, start=1)
    ]
    log = KernelLog((message(*one) for one in messages), links, [function()])
    devices: set[Logged] = {entry for one in links for entry in log.of_link(one)}
    devices |= {entry for address in log.addresses for entry in log.of_address(address)}
    assert devices | set(log.others) == set(log.entries)
    assert devices.isdisjoint(log.others)
    for one in links:
        assert len(set(log.of_link(one))) == len(log.of_link(one))
    for entry in log.entries:
        assert entry.queue is None or entry.queue >= 0


MADE_AGAINST = [
    ("a" * 500),
    ("0000:" * 100),
    ("0000:01:00.0 " * 40)[:500],
    ("igb 0000:01:00.0 " + "x (" * 160)[:500],
    ("x (a) (b) " * 50)[:500],
    ("queue:" * 80 + " 1")[:500],
    ("[a:1(" * 100)[:500],
    ("received packet on " * 26)[:500],
    ("Failed to rename network interface 1 from '" * 12)[:500],
    ("a: renamed from " * 32)[:500],
    ("NETDEV WATCHDOG: " * 30)[:500],
    ("2-1." * 125),
    ("1f00.e-" * 72)[:500],
]
MAX_SECONDS = 1.0
"""Of CPU, for 200 messages; linear expressions need some ten milliseconds."""


@pytest.mark.parametrize("text", MADE_AGAINST)
@pytest.mark.parametrize("known", ["", " NETDEV WATCHDOG: ", ": renamed from "])
def test_a_log_takes_linear_time(text: str, known: str) -> None:
    messages = [
        message(known + text[: 500 - 2 * len(known)] + known, float(number))
        for number in range(200)
    ]
    links = [link(number, f"eth{number}", f"0000:01:{number:02x}.0") for number in range(1, 200)]
    before = time.process_time()
    log = KernelLog(messages, links, [function()])
    assert all(entry.queue is None or entry.queue >= 0 for entry in log.entries)
    assert time.process_time() - before < MAX_SECONDS


OWN_FRAMES = "br0: received packet on lab0 with own address as source address (addr:{}, vlan:0)"
DUPLICATE = "IPv6: lab0: IPv6 duplicate address {} used by 02:00:00:00:00:02 detected!"
MAC, IPV6 = "02:00:00:00:00:01", "fd6e:6963:746f::1"


def veth(**fields: Any) -> Link:
    return link(3, "lab0", None, "veth", kind="veth", address=MAC, **fields)


def doubts(
    text: str, netdev: Link, *, only_links: bool = False, other_names: tuple[str, ...] = ()
) -> list[str]:
    """Of one message at 1000 s; an empty list: it is about the link."""
    messages = [KernelMessage(1000.0, 4, text)]
    log = KernelLog(messages, [netdev], only_links=only_links, other_names=other_names)
    assert len(log.of_link(netdev)) + len(log.perhaps_of_link(netdev)) == 1
    return [log.doubt_text(entry, netdev) for entry in log.perhaps_of_link(netdev)]


EARLIER = ["may be about an earlier lab0"]
ELSEWHERE = ["may be about lab0 of another network namespace"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"present_since": 999.0}, []),
        ({"present_since": 1001.0}, EARLIER),
        ({"present_since": None}, EARLIER),
        ({"present_since": None, "created": 990.0}, []),
        ({}, []),
    ],
    ids=["there before", "seen later", "not known", "known by udev", "earlier recording"],
)
def test_a_message_of_a_name_may_be_about_an_earlier_netdev(
    fields: dict[str, Any], expected: list[str]
) -> None:
    """A veth, a bridge or a tap is made again under the same name, and the log is not."""
    assert doubts(DUPLICATE.format(IPV6), veth(**fields)) == expected


def test_a_message_of_a_name_may_be_about_another_namespace() -> None:
    """The log is one for all of them, and no message names its namespace."""
    text = DUPLICATE.format(IPV6)
    assert doubts(text, veth(), only_links=True) == ELSEWHERE
    assert doubts(text, veth(), other_names=("lab0",)) == ELSEWHERE
    assert doubts(text, veth(), other_names=("eth0",)) == []


@pytest.mark.parametrize(("flags", "expected"), [(("dadfailed",), []), ((), ELSEWHERE)])
def test_the_address_that_failed_identifies_the_netdev(
    flags: tuple[str, ...], expected: list[str]
) -> None:
    """Who has the address has it as well, but not as a failed one."""
    address = Address("ipv6", IPV6, 64, "global", flags)
    netdev = veth(addresses=(address,), present_since=None)
    assert doubts(DUPLICATE.format(IPV6), netdev, only_links=True) == expected


@pytest.mark.parametrize(("address", "expected"), [(MAC, []), ("02:00:00:00:00:09", ELSEWHERE)])
def test_own_frames_are_those_of_an_own_address(address: str, expected: list[str]) -> None:
    assert doubts(OWN_FRAMES.format(address), veth(), only_links=True) == expected


def test_a_netdev_with_a_device_is_known_by_it() -> None:
    netdev = link(3, "lab0", ONBOARD, "igb", present_since=None)
    assert doubts(HANG.format(name="lab0", driver="igb"), netdev, only_links=True) == []
