"""NET_TX, NET_RX and softnet_stat by CPU id: the right columns, offline CPUs, old kernels."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.counters.softirqs import (
    FIRST_SOFTIRQ_BYTES,
    SOFTIRQ_ROWS,
    SOFTNET_COLUMNS,
    SoftirqReader,
    parse_softirqs,
    parse_softnet,
)
from nictop.probe.records import SOFTIRQS, SOFTNET_COUNTERS
from tests.conftest import DATA

GUEST_SOFTIRQS = (DATA / "proc/softirqs").read_bytes()
GUEST_SOFTNET = (DATA / "proc/softnet_stat").read_bytes()

SPARSE = b"""                    CPU0       CPU2       CPU8
          HI:          1          2          3
      NET_TX:         11         12         13
      NET_RX:         21         22         23
         RCU:          4          5          6
"""


def row(*columns: int) -> bytes:
    return b" ".join(b"%08x" % column for column in columns) + b"\n"


def test_columns_are_in_the_order_of_the_record() -> None:
    assert tuple(name.decode().rstrip(":") for name in SOFTIRQ_ROWS) == SOFTIRQS
    assert len(SOFTNET_COLUMNS) == len(SOFTNET_COUNTERS)


# ------------------------------------------------------------------------------------------ parsing


def test_a_captured_guest() -> None:
    assert parse_softirqs(GUEST_SOFTIRQS) == {
        0: (106, 31111),
        1: (25, 3141),
        2: (60, 33195),
        3: (191, 3935),
    }
    assert parse_softnet(GUEST_SOFTNET, ()) == {
        0: (0x17A, 0, 0x43, 0, 0),
        1: (0x4C93, 0, 0x156, 0, 0),
        2: (0x3E38, 0, 0x1EE, 0, 0),
        3: (0x253, 0, 0x6E, 0, 0),
    }


def test_softirqs_by_cpu_id_of_the_header() -> None:
    assert parse_softirqs(SPARSE) == {0: (11, 21), 2: (12, 22), 8: (13, 23)}


def test_softnet_columns() -> None:
    """Counting from one: 2 dropped, 3 time_squeeze, 10 received_rps, 11 flow_limit_count, 13 the
    CPU."""
    columns = [101, 102, 103, 4, 5, 6, 7, 8, 109, 110, 111, 112, 9, 114, 115]
    assert parse_softnet(row(*columns), {0, 1}) == {9: (101, 102, 103, 110, 111)}
    assert parse_softnet(row(*columns[:13]), ()) == {9: (101, 102, 103, 110, 111)}


def test_softnet_rows_without_cpu_id_are_the_online_cpus_in_order() -> None:
    """CPU 1 is offline: the second row is of CPU 2."""
    text = row(*range(1, 12)) + row(*range(21, 32))
    assert parse_softnet(text, {2: 0, 0: 0}) == {0: (1, 2, 3, 10, 11), 2: (21, 22, 23, 30, 31)}
    with pytest.raises(ValueError, match="2 rows for 3 CPUs"):
        parse_softnet(text, {0, 1, 2})


def test_softnet_of_kernels_with_fewer_columns() -> None:
    assert parse_softnet(row(*range(1, 10)), {4}) == {4: (1, 2, 3)}
    assert parse_softnet(row(*range(1, 11)), {4}) == {4: (1, 2, 3, 10)}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        SPARSE[:-1],
        SPARSE.replace(b"         23\n", b"\n"),
        SPARSE.replace(b"23\n", b"2x\n"),
        SPARSE.replace(b"23\n", b"-3\n"),
        SPARSE.replace(b"23\n", b"2_3\n"),
        SPARSE.replace(b"CPU2", b"CPU0"),
        SPARSE.replace(b"CPU2", b"CPUx"),
        SPARSE.replace(b"CPU2", b"2"),
        SPARSE.replace(b"NET_TX:", b"NET_RX:"),
        SPARSE.partition(b"      NET_RX")[0],
    ],
)
def test_garbled_softirqs_raise_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_softirqs(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        GUEST_SOFTNET[:-1],
        GUEST_SOFTNET[:-9],
        GUEST_SOFTNET[:-20] + b"\n",
        GUEST_SOFTNET.replace(b"00004c93", b"0000 4c9"),
        GUEST_SOFTNET.replace(b"00004c93", b"  004c93"),
        GUEST_SOFTNET.replace(b"00004c93", b"0000xc93"),
        GUEST_SOFTNET.replace(b"00004c93", b"4c93"),
        GUEST_SOFTNET.replace(b"00000002", b"00000001"),
        GUEST_SOFTNET.replace(b"00004c93", "é00c93".encode().ljust(8, b"0")),
        row(*range(8)),
        row(*range(13)).replace(b" ", b"\t"),
    ],
)
def test_garbled_softnet_raises_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse_softnet(text, {0, 1, 2, 3})


@given(st.binary(max_size=400))
def test_any_bytes_are_parsed_or_raise_value_error(text: bytes) -> None:
    for parse in (parse_softirqs, lambda text: parse_softnet(text, {0, 1})):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert found and all(min(counts) >= 0 for counts in found.values())


@given(st.integers(0, len(GUEST_SOFTNET)), st.integers(0, len(GUEST_SOFTIRQS)))
def test_truncated_files(softnet: int, softirqs: int) -> None:
    """ValueError, or the right numbers of complete lines."""
    try:
        found = parse_softnet(GUEST_SOFTNET[:softnet], {0, 1, 2, 3})
    except ValueError:
        found = {}
    assert found.items() <= parse_softnet(GUEST_SOFTNET, ()).items()
    try:
        counts = parse_softirqs(GUEST_SOFTIRQS[:softirqs])
    except ValueError:
        return
    assert counts == parse_softirqs(GUEST_SOFTIRQS)


@given(
    st.dictionaries(
        st.integers(0, 8191),
        st.lists(st.integers(0, 2**32 - 1), min_size=15, max_size=15),
        min_size=1,
    )
)
def test_generated_rows_are_parsed_back(cpus: dict[int, list[int]]) -> None:
    text = b"".join(row(*columns[:12], cpu, *columns[13:]) for cpu, columns in cpus.items())
    assert parse_softnet(text, ()) == {
        cpu: (columns[0], columns[1], columns[2], columns[9], columns[10])
        for cpu, columns in cpus.items()
    }


# ------------------------------------------------------------------------------------------ reading


def test_offline_cpus_are_left_out(tmp_path: Path) -> None:
    """/proc/softirqs still has the column of a CPU that went offline."""
    (tmp_path / "softirqs").write_bytes(SPARSE)
    reader = SoftirqReader(str(tmp_path))
    assert reader.read({0: (), 8: ()}) == {0: (11, 21), 8: (13, 23)}
    (tmp_path / "softirqs").write_bytes(SPARSE.replace(b"23\n", b"24\n"))
    assert reader.read({0, 2, 8, 9}) == {0: (11, 21), 2: (12, 22), 8: (13, 24)}
    assert set(reader.read(())) == {0, 2, 8}
    with pytest.raises(FileNotFoundError):
        reader.read_softnet(())
    reader.close()


def test_more_cpus_than_fit_into_the_first_buffer(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    head = " " * 20 + "".join(f"CPU{cpu:<8}" for cpu in range(1024)) + "\n"
    rows = "".join(
        f"{name.decode():>12} " + "".join(f" {10**9 + cpu}" for cpu in range(1024)) + "\n"
        for name in SOFTIRQ_ROWS
    )
    (tmp_path / "softirqs").write_text(head + rows + "         RCU: " + "1 " * 1024 + "\n")
    (tmp_path / "net/softnet_stat").write_bytes(
        b"".join(row(*[7] * 12, cpu, 0, 0) for cpu in range(1024))
    )
    assert (tmp_path / "softirqs").stat().st_size > FIRST_SOFTIRQ_BYTES
    reader = SoftirqReader(str(tmp_path))
    assert reader.read(()) == {cpu: (10**9 + cpu, 10**9 + cpu) for cpu in range(1024)}
    assert reader.read_softnet(()) == dict.fromkeys(range(1024), (7, 7, 7, 7, 7))
    reader.close()


# -------------------------------------------------------------------------------------- this kernel


def net_rows() -> dict[str, list[int]]:
    lines = [line.split() for line in Path("/proc/softirqs").read_text().splitlines()]
    return {line[0]: list(map(int, line[1:])) for line in lines[1:] if line[0].startswith("NET_")}


def test_this_machine_after_a_load() -> None:
    """Datagrams over the loopback are NET_RX work: the sum grows, and each count lies between two
    other readings."""
    reader = SoftirqReader()
    try:
        first = reader.read(())
        load()
        before, found, after = net_rows(), reader.read(()), net_rows()
        ids = [int(word[3:]) for word in Path("/proc/softirqs").read_text().splitlines()[0].split()]
        assert list(found) == ids
        for position, cpu in enumerate(ids):
            for column, name in enumerate(SOFTIRQS):
                assert (
                    before[f"{name}:"][position]
                    <= found[cpu][column]
                    <= after[f"{name}:"][position]
                )
        assert sum(counts[1] for counts in found.values()) > sum(
            counts[1] for counts in first.values()
        )
    finally:
        reader.close()


def test_softnet_of_this_machine_after_a_load() -> None:
    reader = SoftirqReader()

    def processed() -> list[int]:
        return [
            int(line.split()[0], 16)
            for line in Path("/proc/net/softnet_stat").read_text().splitlines()
        ]

    online = {
        int(word[3:]) for word in Path("/proc/interrupts").read_text().splitlines()[0].split()
    }
    try:
        start = sum(processed())
        load()
        before, found, after = processed(), reader.read_softnet(online), processed()
        assert set(found) == online
        for old, cpu, new in zip(before, sorted(found), after, strict=True):
            assert old <= found[cpu][0] <= new
        assert sum(counts[0] for counts in found.values()) >= start + 500
    finally:
        reader.close()


def load() -> None:
    """500 datagrams over the loopback."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(500):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(16)


def test_only_changed_text_is_parsed_again(tmp_path: Path) -> None:
    """Also parsed again for other online CPUs: a CPU that went offline has no counts."""
    (tmp_path / "net").mkdir()
    (tmp_path / "softirqs").write_bytes(GUEST_SOFTIRQS)
    (tmp_path / "net/softnet_stat").write_bytes(GUEST_SOFTNET)
    reader = SoftirqReader(str(tmp_path))
    first = reader.read((0, 1, 2, 3))
    assert reader.read((0, 1, 2, 3)) is first
    assert set(reader.read((0, 2))) == {0, 2}
    assert reader.read_softnet((0, 1, 2, 3)) is reader.read_softnet((0, 1, 2, 3))
    (tmp_path / "softirqs").write_bytes(GUEST_SOFTIRQS.replace(b"31111", b"31112"))
    assert reader.read((0, 1, 2, 3)) == first | {0: (106, 31112)}
    reader.close()
