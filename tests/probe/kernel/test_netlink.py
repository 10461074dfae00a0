"""The netlink codec: messages and attributes are split exactly, and no input from the kernel breaks
the reader."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.kernel import netlink

RTM_NEWLINK, RTM_GETLINK = 16, 18
IFLA_IFNAME = 3
LINK_BY_INDEX = struct.Struct("=BxHiII")


def message(kind: int, payload: bytes, flags: int = 0, sequence: int = 7) -> bytes:
    body = (
        netlink.HEADER.pack(netlink.HEADER.size + len(payload), kind, flags, sequence, 0) + payload
    )
    return body + bytes(-len(body) & 3)


def test_messages_of_one_datagram() -> None:
    data = message(16, b"abcde") + message(3, b"\0\0\0\0")
    found = [(kind, data[start:end]) for kind, _, _, start, end in netlink.messages(data)]
    assert found == [(16, b"abcde"), (3, b"\0\0\0\0")]


@given(st.binary(), st.binary(max_size=40))
def test_a_malformed_tail_does_not_affect_the_messages_before_it(
    payload: bytes, tail: bytes
) -> None:
    data = message(16, payload)
    first = next(netlink.messages(data + tail))
    assert data[first[3] : first[4]] == payload


@given(st.binary())
def test_any_bytes_can_be_parsed(data: bytes) -> None:
    assert all(0 <= start <= end <= len(data) for *_, start, end in netlink.messages(data))
    assert sum(4 + len(value) for _, value in netlink.iter_attributes(data)) <= len(data)
    assert "\0" not in netlink.text(data)


@given(st.lists(st.tuples(st.integers(0, netlink.NLA_TYPE_MASK), st.binary(max_size=300))))
def test_packed_attributes_are_parsed_back(attributes: list[tuple[int, bytes]]) -> None:
    assert (
        list(
            netlink.iter_attributes(
                b"".join(netlink.pack_attribute(kind, value) for kind, value in attributes)
            )
        )
        == attributes
    )


@given(st.integers(0, 2**64 - 1), st.sampled_from([1, 2, 4, 8]))
def test_unsigned_numbers_of_every_width(number: int, width: int) -> None:
    number &= (1 << 8 * width) - 1
    code = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}[width]
    assert netlink.unsigned(struct.pack(code, number)) == number


def test_flag_bits_are_not_part_of_the_attribute_type() -> None:
    assert list(netlink.iter_attributes(netlink.pack_attribute(0x8000 | 22, b"x"))) == [(22, b"x")]


@pytest.mark.parametrize("capped", [True, False])
def test_an_error_has_the_errno_and_the_extended_message(capped: bool) -> None:
    request = message(18, b"\1\2\3\4\5\6")
    flags = netlink.NLM_F_ACK_TLVS | (netlink.NLM_F_CAPPED if capped else 0)
    body = struct.pack("=i", -errno.EINVAL) + (
        request[: netlink.HEADER.size] if capped else request
    )
    data = message(
        netlink.NLMSG_ERROR,
        body + netlink.pack_text(netlink.NLMSGERR_ATTR_MSG, "no such thing"),
        flags,
    )
    kind, seen, _, start, end = next(netlink.messages(data))
    with pytest.raises(netlink.NetlinkError) as caught:
        netlink.raise_error(data, kind, seen, start, end)
    assert (caught.value.errno, caught.value.strerror) == (errno.EINVAL, "no such thing")


@pytest.mark.parametrize("number", [-(2**31), 1 - 2**31, -4096, -134])
def test_an_unknown_errno_is_raised_with_its_number(number: int) -> None:
    """The negated minimum of a 32-bit integer is not a 32-bit integer."""
    data = message(netlink.NLMSG_ERROR, struct.pack("=i", number))
    kind, flags, _, start, end = next(netlink.messages(data))
    with pytest.raises(netlink.NetlinkError) as caught:
        netlink.raise_error(data, kind, flags, start, end)
    assert caught.value.errno == -number and str(-number) in str(caught.value)


@given(
    st.binary(max_size=80),
    st.integers(0, 0xFFFF),
    st.sampled_from([netlink.NLMSG_ERROR, netlink.NLMSG_DONE]),
)
def test_any_error_message_raises_netlink_error_or_nothing(
    body: bytes, flags: int, kind: int
) -> None:
    try:
        netlink.raise_error(body, kind, flags, 0, len(body))
    except netlink.NetlinkError as error:
        assert error.errno and error.errno > 0


def test_request_of_one_link() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink:
        replies = rtnetlink.request(
            RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, socket.if_nametoindex("lo"), 0, 0)
        )
    assert [kind for kind, _ in replies] == [RTM_NEWLINK]
    fields = dict(netlink.iter_attributes(replies[0][1][LINK_BY_INDEX.size :]))
    assert netlink.text(fields[IFLA_IFNAME]) == "lo"


def test_the_socket_is_usable_after_an_error() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink:
        with pytest.raises(netlink.NetlinkError) as caught:
            rtnetlink.request(RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, 2**30, 0, 0))
        assert caught.value.errno == errno.ENODEV
        names = {
            netlink.text(dict(netlink.iter_attributes(body[LINK_BY_INDEX.size :]))[IFLA_IFNAME])
            for _, body in rtnetlink.dump(RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, 0, 0, 0))
        }
    assert names == {name for _, name in socket.if_nameindex()}


def test_messages_of_other_processes_are_refused() -> None:
    """Even from root: a forged reply would show a wrong number."""
    family = socket.AF_NETLINK
    with (
        netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink,
        socket.socket(family, socket.SOCK_RAW) as sender,
    ):
        with pytest.raises(OSError) as caught:
            sender.sendto(message(16, bytes(16)), (rtnetlink.socket.getsockname()[0], 0))
        assert caught.value.errno in (errno.ECONNREFUSED, errno.EPERM)
        assert rtnetlink.request(
            RTM_GETLINK, LINK_BY_INDEX.pack(0, 0, socket.if_nametoindex("lo"), 0, 0)
        )


@pytest.fixture
def kernel_pair() -> Iterator[tuple[netlink.NetlinkSocket, socket.socket]]:
    """A netlink socket, and the other end of a socket pair in place of the kernel."""
    opened = netlink.NetlinkSocket(netlink.NETLINK_ROUTE, timeout=5)
    here, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in (here, kernel):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * netlink.MAX_DATAGRAM_BYTES)
    opened.close()
    opened.socket = here
    with opened, kernel:
        yield opened, kernel


def test_a_message_larger_than_the_receive_buffer_is_complete(
    kernel_pair: tuple[netlink.NetlinkSocket, socket.socket],
) -> None:
    """As for a link with hundreds of virtual functions."""
    opened, kernel = kernel_pair
    body = bytes(range(256)) * 400
    assert len(body) > netlink.RECEIVE_BUFFER_BYTES
    kernel.send(message(16, body, sequence=1))
    kernel.send(message(netlink.NLMSG_ERROR, bytes(4), sequence=1))
    assert opened.request(RTM_GETLINK, b"") == [(16, body)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may send so much at once")
def test_a_truncated_message_is_an_error(
    kernel_pair: tuple[netlink.NetlinkSocket, socket.socket],
) -> None:
    opened, kernel = kernel_pair
    kernel.setsockopt(socket.SOL_SOCKET, 32, 4 * netlink.MAX_DATAGRAM_BYTES)  # SO_SNDBUFFORCE
    kernel.send(message(16, bytes(netlink.MAX_DATAGRAM_BYTES), sequence=1))
    with pytest.raises(netlink.NetlinkError) as caught:
        opened.request(RTM_GETLINK, b"")
    assert caught.value.errno == errno.EMSGSIZE


def test_unwanted_replies_are_dropped() -> None:
    """A router has a million routes; the inventory uses two."""
    with netlink.NetlinkSocket(netlink.NETLINK_ROUTE) as rtnetlink:
        index = socket.if_nametoindex("lo")
        replies = rtnetlink.dump(
            RTM_GETLINK,
            LINK_BY_INDEX.pack(0, 0, 0, 0, 0),
            keep=lambda data, start: LINK_BY_INDEX.unpack_from(data, start)[2] == index,
        )
        assert [LINK_BY_INDEX.unpack_from(body)[2] for _, body in replies] == [index]


def test_generic_families() -> None:
    with netlink.NetlinkSocket(netlink.NETLINK_GENERIC) as generic:
        assert generic.family("nlctrl") == netlink.GENL_ID_CTRL
        assert generic.multicast_group("nlctrl", "notify")
        assert generic.multicast_group("nlctrl", "no such group") is None
        with pytest.raises(netlink.NetlinkError) as caught:
            generic.family("no such family")
        assert caught.value.errno == errno.ENOENT


def test_a_request_without_reply_times_out() -> None:
    rtnetlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE, timeout=0.05)
    silent, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    silent.setsockopt(
        socket.SOL_SOCKET,
        socket.SO_RCVTIMEO,
        rtnetlink.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16),
    )
    rtnetlink.close()
    rtnetlink.socket = silent
    with rtnetlink, other, pytest.raises(netlink.NetlinkError) as caught:
        rtnetlink.request(RTM_GETLINK, b"")
    assert caught.value.errno == errno.ETIMEDOUT
