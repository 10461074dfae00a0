"""The netlink codec: what the kernel sends is split as it is, and nothing that it may send breaks the reader."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe import netlink

RTM_GETLINK = 18
LINK_BY_INDEX = struct.Struct("=BxHiII")


def message(kind: int, payload: bytes, flags: int = 0, sequence: int = 7) -> bytes:
    body = netlink.HEADER.pack(netlink.HEADER.size + len(payload), kind, flags, sequence, 0) + payload
    return body + bytes(-len(body) & 3)


def test_messages_of_one_datagram() -> None:
    data = message(16, b"abcde") + message(3, b"\0\0\0\0")
    found = [(kind, data[start:end]) for kind, _, _, start, end in netlink.messages(data)]
    assert found == [(16, b"abcde"), (3, b"\0\0\0\0")]


@given(st.binary(), st.binary(max_size=40))
def test_a_garbled_tail_costs_nothing_before_it(payload: bytes, tail: bytes) -> None:
    data = message(16, payload)
    first = next(netlink.messages(data + tail))
    assert data[first[3] : first[4]] == payload


@given(st.binary())
def test_any_bytes_can_be_walked(data: bytes) -> None:
    assert all(0 <= start <= end <= len(data) for *_, start, end in netlink.messages(data))
    assert sum(4 + len(value) for _, value in netlink.iterate(data)) <= len(data)
    assert "\0" not in netlink.text(data)


@given(st.lists(st.tuples(st.integers(0, netlink.NLA_TYPE_MASK), st.binary(max_size=300))))
def test_attributes_survive_packing(attributes: list[tuple[int, bytes]]) -> None:
    assert list(netlink.iterate(b"".join(netlink.pack(kind, value) for kind, value in attributes))) == attributes


@given(st.integers(0, 2**64 - 1), st.sampled_from([1, 2, 4, 8]))
def test_unsigned_numbers_of_every_width(number: int, width: int) -> None:
    number &= (1 << 8 * width) - 1
    code = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}[width]
    assert netlink.unsigned(struct.pack(code, number)) == number


def test_nested_flag_is_no_part_of_the_type() -> None:
    assert list(netlink.iterate(netlink.pack(0x8000 | 22, b"x"))) == [(22, b"x")]


@pytest.mark.parametrize("capped", [True, False])
def test_a_refusal_carries_number_and_words(capped: bool) -> None:
    request = message(18, b"\1\2\3\4\5\6")
    flags = netlink.NLM_F_ACK_TLVS | (netlink.NLM_F_CAPPED if capped else 0)
    body = struct.pack("=i", -errno.EINVAL) + (request[: netlink.HEADER.size] if capped else request)
    data = message(netlink.NLMSG_ERROR, body + netlink.pack_text(netlink.NLMSGERR_ATTR_MSG, "no such thing"), flags)
    kind, seen, _, start, end = next(netlink.messages(data))
    with pytest.raises(netlink.NetlinkError) as caught:
        netlink.raise_error(data, kind, seen, start, end)
    assert (caught.value.errno, caught.value.strerror) == (errno.EINVAL, "no such thing")


@given(st.binary(max_size=80), st.integers(0, 0xFFFF), st.sampled_from([netlink.NLMSG_ERROR, netlink.NLMSG_DONE]))
def test_any_error_message_is_a_netlink_error_or_none(body: bytes, flags: int, kind: int) -> None:
    try:
        netlink.raise_error(body, kind, flags, 0, len(body))
    except netlink.NetlinkError as error:
        assert error.errno and error.errno > 0


def test_the_kernel_answers_one_request() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink:
        replies = rtnetlink.request(RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, socket.if_nametoindex("lo"), 0, 0))
    assert [kind for kind, _ in replies] == [16]
    fields = dict(netlink.iterate(replies[0][1][LINK_BY_INDEX.size :]))
    assert netlink.text(fields[3]) == "lo"


def test_the_kernel_refuses_and_the_socket_goes_on() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink:
        with pytest.raises(netlink.NetlinkError) as caught:
            rtnetlink.request(RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, 2**30, 0, 0))
        assert caught.value.errno == errno.ENODEV
        names = {
            netlink.text(dict(netlink.iterate(body[LINK_BY_INDEX.size :]))[3])
            for _, body in rtnetlink.dump(RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, 0, 0, 0))
        }
    assert names == {name for _, name in socket.if_nameindex()}


def test_generic_families() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_GENERIC) as generic:
        assert generic.family("nlctrl") == netlink.GENL_ID_CTRL
        assert generic.multicast_group("nlctrl", "notify")
        assert generic.multicast_group("nlctrl", "no such group") is None
        with pytest.raises(netlink.NetlinkError) as caught:
            generic.family("no such family")
        assert caught.value.errno == errno.ENOENT


def test_a_kernel_that_does_not_answer_is_not_awaited_for_ever() -> None:
    rtnetlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE, timeout=0.05)
    silent, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    silent.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVTIMEO, rtnetlink.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
    )
    rtnetlink.close()
    rtnetlink.socket = silent
    with rtnetlink, other, pytest.raises(netlink.NetlinkError) as caught:
        rtnetlink.request(RTM_GETLINK, b"")
    assert caught.value.errno == errno.ETIMEDOUT
