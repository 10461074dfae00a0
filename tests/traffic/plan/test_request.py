"""Quantities are parsed or rejected with a message; endpoints are selected, or the hint lists the
options to type."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nictop.errors import NetworkFault, NictopError
from nictop.model.snapshot import advance
from nictop.probe.records import Line, LinkChange, TrafficTools
from nictop.traffic.plan.endpoints import chosen_addresses_text, select_pair
from nictop.traffic.plan.plan import Endpoint, RunPlan, dscp_number
from nictop.traffic.plan.quantities import (
    parse_bit_rate,
    parse_byte_count,
    parse_cpu,
    parse_dscp,
    parse_seconds,
    parse_whole_number,
    parse_yes_or_no,
)
from nictop.traffic.plan.request import RunRequest, generator_of, parse_values, plan_of
from tests.traffic.machines import between, machine, nic, two
from tests.traffic.plans import tools

REQUEST = RunRequest("a", "b")
IPERF3, NO_IPERF3 = tools(), TrafficTools(congestion_controls=("reno", "cubic"), cpus=(0, 1))


# --------------------------------------------------------------------------------------- quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128K", 131072),
        ("1M", 1 << 20),
        ("8m", 8 << 20),
        ("512", 512),
        ("0.5M", 1 << 19),
        ("1GiB", 1 << 30),
        ("4KB", 4096),
    ],
)
def test_sizes_are_binary(text: str, expected: int) -> None:
    assert parse_byte_count(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1G", 10**9),
        ("2.5G", 2_500_000_000),
        ("500m", 5 * 10**8),
        ("10Mb/s", 10**7),
        ("9600", 9600),
    ],
)
def test_bit_rates_are_decimal(text: str, expected: int) -> None:
    assert parse_bit_rate(text) == expected


@given(st.integers(0, 10**12), st.sampled_from("KMG"))
def test_sizes_and_rates_are_exact(number: int, prefix: str) -> None:
    power = "KMG".index(prefix) + 1
    assert parse_byte_count(f"{number}{prefix}") == number * 1024**power
    assert parse_bit_rate(f"{number}{prefix}") == number * 1000**power
    assert parse_whole_number(str(number)) == number


@pytest.mark.parametrize(
    "parse",
    [
        parse_byte_count,
        parse_bit_rate,
        parse_whole_number,
        parse_cpu,
        parse_dscp,
        parse_seconds,
        parse_yes_or_no,
        parse_values,
    ],
)
@given(
    text=st.one_of(
        st.text(), st.from_regex(r"[0-9.]{0,20}[ kKMGTb/si]{0,4}"), st.just("9" * 100_000)
    )
)
@example(text="0\x1f")
def test_any_text_is_parsed_or_rejected_with_a_short_printable_message(
    parse: Callable[[str], object], text: str
) -> None:
    try:
        value = parse(text)
    except NictopError as error:
        assert error.message.isprintable() and len(error.message) < 600
        assert error.hint.isprintable()
    else:
        assert not isinstance(value, (int, float)) or value >= 0


@pytest.mark.parametrize(
    "text", ["", "1.0001", "-1", "1e3", "١٢", "1P", "0x10", "K", "1..5K", "nan", "inf", "1K2"]
)
def test_invalid_sizes(text: str) -> None:
    with pytest.raises(NictopError):
        parse_byte_count(text)


def test_dscp_equals_dscp_number() -> None:
    for text in ("ef", "AF41", "46", "0x2e"):
        assert parse_dscp(text) == dscp_number(text)
    with pytest.raises(NictopError, match='DSCP: "64" is not a DSCP'):
        parse_dscp("64")


def test_values_of_a_variable() -> None:
    assert parse_values("length=512, 4K,8M") == ("length", ("512", "4K", "8M"))
    assert parse_values("MSS=default,100") == ("mss", ("default", "100"))
    assert parse_values("setup=passthrough,v switch") == ("setup", ("passthrough", "v switch"))
    for text, why in (
        ("length", "has no values"),
        ("color=red", "cannot be varied"),
        ("length=512,,1K", '"" is not a value'),
        ("length=4x", "is not a size"),
        ("queues=0", "is not a value"),
        ("queues=/", "is not a value"),
        ("direction=up", "is unknown"),
        ("setup=\x1b[31mred", "is not a value"),
        (f"streams={','.join(map(str, range(1, 100)))}", "at most 64"),
    ):
        with pytest.raises(NictopError, match=re.escape(why)) as caught:
            parse_values(text)
        assert caught.value.message.isprintable()


# ---------------------------------------------------------------------------------------- endpoints


def test_the_only_shared_subnet_needs_no_options() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1")), machine("b", nic(5, "ens7", "192.0.2.2"))
    )
    chosen = select_pair(REQUEST, pairs, hosts)
    assert (chosen.client, chosen.server) == (
        Endpoint("a", 3, "192.0.2.1"),
        Endpoint("b", 5, "192.0.2.2"),
    )
    assert select_pair(RunRequest("b", "a"), pairs, hosts).client.host == "b"


def test_one_of_several_pairs_is_selected_by_nic_or_address() -> None:
    pairs, hosts = two()
    with pytest.raises(NictopError, match="3 paths from a to b") as caught:
        select_pair(REQUEST, pairs, hosts)
    assert "--client-nic ens3 --server-nic ens3" in caught.value.hint
    assert select_pair(replace(REQUEST, client_nic="ens3"), pairs, hosts).server == Endpoint(
        "b", 5, "192.0.2.2"
    )
    assert select_pair(
        replace(REQUEST, server_address="192.0.2.2"), pairs, hosts
    ).client == Endpoint("a", 3, "192.0.2.1")


def test_ipv4_is_preferred_if_only_the_ip_version_is_open() -> None:
    pairs, hosts = two()
    request = replace(REQUEST, client_nic="ens4")
    assert select_pair(request, pairs, hosts).network == "198.51.100.0/24"
    assert select_pair(replace(request, ip_version=6), pairs, hosts).network == "2001:db8::/64"
    # an address may be written in another way than the kernel does
    assert (
        select_pair(replace(REQUEST, client_address="2001:DB8:0::1"), pairs, hosts).server.address
        == "2001:db8::2"
    )


def test_one_of_several_ipv6_addresses_is_chosen_and_told() -> None:
    """Every NIC may have several; privacy addresses and deprecated ones are not chosen if there is
    another one."""
    first = nic(3, "ens3", "2001:db8::99", "2001:db8::1", "2001:db8::2")
    flags: tuple[tuple[str, ...], ...] = (("temporary",), ("permanent",), ("deprecated",))
    addresses = tuple(
        replace(one, flags=flag) for one, flag in zip(first.addresses, flags, strict=True)
    )
    pairs, hosts = between(
        machine("a", replace(first, addresses=addresses)),
        machine("b", nic(5, "ens3", "2001:db8::7")),
    )
    request = replace(REQUEST, ip_version=6)
    chosen = select_pair(request, pairs, hosts)
    assert (chosen.client.address, chosen.server.address) == ("2001:db8::1", "2001:db8::7")
    assert (
        chosen_addresses_text(request, chosen, hosts)
        == "chosen: 2001:db8::1 of 3 IPv6 addresses of a"
    )
    asked = replace(request, client_address="2001:db8::2")
    other = select_pair(asked, pairs, hosts)
    assert (
        other.client.address == "2001:db8::2" and chosen_addresses_text(asked, other, hosts) == ""
    )


def test_hint_distinguishes_two_addresses_of_one_nic() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1", "192.0.2.9")),
        machine("b", nic(5, "ens3", "192.0.2.2")),
    )
    with pytest.raises(NictopError) as caught:
        select_pair(REQUEST, pairs, hosts)
    assert caught.value.hint == (
        "--client-address 192.0.2.1 --server-address 192.0.2.2 or --client-address 192.0.2.9 "
        "--server-address 192.0.2.2"
    )
    assert select_pair(
        replace(REQUEST, client_address="192.0.2.9"), pairs, hosts
    ).client == Endpoint("a", 3, "192.0.2.9")


def test_explicit_ends_need_no_shared_subnet() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1")),
        machine("b", nic(5, "ens3", "203.0.113.2", "2001:db8::2"), nic(6, "ens4", "198.51.100.2")),
    )
    with pytest.raises(NictopError, match="a and b share no subnet") as caught:
        select_pair(REQUEST, pairs, hosts)
    for words in ("--client-nic ens3 (192.0.2.1)", "--server-nic ens4 (198.51.100.2)"):
        assert words in caught.value.hint
    chosen = select_pair(
        replace(REQUEST, client_nic="ens3", server_address="203.0.113.2"), pairs, hosts
    )
    assert (chosen.network, chosen.client, chosen.server) == (
        "",
        Endpoint("a", 3, "192.0.2.1"),
        Endpoint("b", 5, "203.0.113.2"),
    )


def test_subnet_in_which_a_third_host_has_the_address_too_is_not_said_to_be_none() -> None:
    """The pair is left out because it is ambiguous; both ends by their NICs are not."""
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1")),
        machine("b", nic(5, "ens3", "192.0.2.2")),
        machine("c", nic(7, "ens3", "192.0.2.1")),
    )
    with pytest.raises(
        NictopError,
        match=r"a and b have no unambiguous pair of addresses: 192\.0\.2\.1 is on a and c: give NIC",
    ):
        select_pair(REQUEST, pairs, hosts)
    chosen = select_pair(replace(REQUEST, client_nic="ens3", server_nic="ens3"), pairs, hosts)
    assert chosen.client == Endpoint("a", 3, "192.0.2.1")


def test_a_host_that_is_read_in_part_is_not_said_to_share_no_subnet() -> None:
    whole = machine("a", nic(3, "ens3", "192.0.2.1"))
    assert whole.inventory is not None
    partly = replace(whole, inventory=replace(whole.inventory, pending=("platform",)))
    pairs, hosts = between(partly, machine("b", nic(5, "ens3", "192.0.2.2")))
    with pytest.raises(NictopError, match="what a is connected to is not read yet: give NIC"):
        select_pair(REQUEST, pairs, hosts)


def test_two_names_of_one_machine_are_not_reported_as_two_subnets() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1"), boot="x"),
        machine("b", nic(5, "ens3", "192.0.2.2"), boot="x"),
    )
    with pytest.raises(
        NictopError, match=r"a and b are the same machine \(equal boot ID\)"
    ) as caught:
        select_pair(REQUEST, pairs, hosts)
    assert "--client-nic ens3 (192.0.2.1)" in caught.value.hint


def test_loopback_and_two_names_of_one_machine_need_addresses() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1"), boot="x"),
        machine("b", nic(5, "ens3", "192.0.2.2"), boot="x"),
    )
    assert pairs == ()
    both = replace(REQUEST, client_address="192.0.2.1", server_address="192.0.2.2")
    assert select_pair(both, pairs, hosts).server == Endpoint("b", 5, "192.0.2.2")
    loopback = RunRequest("a", "a", client_address="127.0.0.1", server_address="127.0.0.1")
    assert select_pair(loopback, pairs, hosts).client == Endpoint("a", 1, "127.0.0.1")
    with pytest.raises(NictopError, match="a is client and server"):
        select_pair(RunRequest("a", "a"), pairs, hosts)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"client": "c"}, '"c" is not watched'),
        ({"client_nic": "eth9"}, 'a has no NIC "eth9"'),
        ({"server_address": "192.0.2.77"}, 'b has no address "192.0.2.77"'),
        ({"server_address": "b.example"}, '"b.example" is not an IP address'),
        (
            {"client_nic": "ens3", "server_nic": "ens4", "ip_version": 6},
            "no path between a and b matches --client-nic ens3 --server-nic ens4 IPv6",
        ),
    ],
)
def test_unknown_host_nic_or_address_is_rejected_with_the_known_ones(
    more: dict[str, str], message: str
) -> None:
    pairs, hosts = two()
    with pytest.raises(NictopError, match=re.escape(message)) as caught:
        select_pair(replace(REQUEST, **more), pairs, hosts)  # type: ignore[arg-type]
    assert "--" in caught.value.hint or "watched: a, b" in caught.value.hint


def test_nic_names_are_quoted_and_printable_in_hints() -> None:
    evil = nic(3, "e;reboot\x1b", "192.0.2.1"), nic(4, "ens4", "198.51.100.1")
    pairs, hosts = between(
        machine("a\x1b]0;x", *evil),
        machine("b", nic(5, "ens3", "192.0.2.2"), nic(6, "ens4", "198.51.100.2")),
    )
    with pytest.raises(NictopError) as caught:
        select_pair(RunRequest("a\x1b]0;x", "b"), pairs, hosts)
    assert (caught.value.message + caught.value.hint).isprintable()
    assert "--client-nic $'e;reboot\\x1b'" in caught.value.hint


# ---------------------------------------------------------------------------------- plan, generator


def test_plan_has_every_option_of_the_request() -> None:
    pairs, hosts = two()
    options = {
        "direction": "reverse", "protocol": "udp", "bitrate": 7, "time": 3, "omit": 1,
        "streams": 2, "length": 99, "mss": 500, "window": 2048, "congestion": "bbr", "dscp": 46,
        "client_cpu": 1, "server_cpu": 0, "zerocopy": True, "port": 6000, "interval": 0.25,
        "test": "rr", "request_size": 64, "response_size": 128, "files": 5, "rate": 7,
        "workload": "true", "value_pattern": "x", "judged_by": "cpu", "variable_value": "4K", "variable_name": "bs",
        "foreign": True, "foreign_client": True, "wait": 20, "guest": "win10",
        "guest_vf": 3,
    }  # fmt: skip
    request = replace(REQUEST, client_nic="ens3", **options)  # type: ignore[arg-type]
    plan = plan_of(request, select_pair(request, pairs, hosts), "builtin")
    assert {name: getattr(plan, name) for name in options} == options
    assert plan.generator == "builtin" and plan.client == Endpoint("a", 3, "192.0.2.1")
    known = {"client", "server", "generator"} | options.keys()
    assert known == set(plan.__dataclass_fields__)


def request_and_plans(**more: object) -> tuple[RunRequest, list[RunPlan]]:
    request = replace(REQUEST, client_nic="ens3", **more)  # type: ignore[arg-type]
    return request, [plan_of(request, select_pair(request, *two()), "iperf3")]


def test_iperf3_is_preferred_if_both_hosts_have_it() -> None:
    request, plans = request_and_plans()
    assert generator_of(request, plans, IPERF3, IPERF3) == ("iperf3", "")
    generator, why = generator_of(request, plans, IPERF3, NO_IPERF3)
    assert generator == "builtin" and why.startswith(
        "built-in generator used: b: iperf3 is not installed"
    )
    assert generator_of(replace(request, generator="iperf3"), plans, NO_IPERF3, NO_IPERF3) == (
        "iperf3",
        "",
    )


def test_all_runs_use_the_builtin_generator_if_iperf3_cannot_send_one_of_them() -> None:
    request, plans = request_and_plans()
    (plan,) = plans
    every = [replace(plan, length=length) for length in (512, 1 << 20, 8 << 20)]
    generator, why = generator_of(request, every, IPERF3, IPERF3)
    assert generator == "builtin" and "built-in generator used" in why and "8388608" in why
    assert generator_of(request, every[:2], IPERF3, IPERF3) == ("iperf3", "")


def test_request_that_no_generator_can_run_is_refused_with_both_reasons() -> None:
    request, plans = request_and_plans(direction="bidirectional")
    with pytest.raises(NictopError, match=r"iperf3 is not installed.*in one direction"):
        generator_of(request, plans, NO_IPERF3, NO_IPERF3)
    request, plans = request_and_plans(client_cpu=99)
    with pytest.raises(NictopError, match="not supported: a: CPU 99 not available"):
        generator_of(request, plans, IPERF3, NO_IPERF3)


def test_what_only_an_event_has_made_known_is_not_said_to_be_absent() -> None:
    """The address may be on the NIC that is not read yet."""
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1")), machine("b", nic(5, "ens3", "203.0.113.2"))
    )
    new = LinkChange(2.0, 9, gone=False, name="ens9", operstate="up", carrier=True, flags=1, mtu=1)
    hosts["b"] = advance(hosts["b"], Line(link_change=new))
    with pytest.raises(NictopError) as caught:
        select_pair(REQUEST, pairs, hosts)
    assert "share no known subnet (not read yet: b ens9)" in caught.value.message
    with pytest.raises(NictopError) as caught:
        select_pair(replace(REQUEST, server_address="192.0.2.2"), pairs, hosts)
    assert caught.value.message == 'address "192.0.2.2" is not known; not read yet: b ens9'


def test_a_fault_of_the_network_is_no_usage_error() -> None:
    """The exit code is that of a failed test (4), and what is wrong is named."""
    own, other = nic(3, "ens3", "192.0.2.1"), nic(5, "ens3", "192.0.2.2", "192.0.2.1")
    pairs, hosts = between(machine("a", own), machine("b", other))
    with pytest.raises(NetworkFault) as caught:
        select_pair(REQUEST, pairs, hosts)
    assert caught.value.exit_code == 4
    assert caught.value.message == ("no path between a and b: b ens3: 192.0.2.1 is also on a ens3")
    assert caught.value.hint == "nictop check a b"
    pairs, hosts = between(machine("a", own), machine("b", nic(5, "ens3")))
    with pytest.raises(NetworkFault, match="b has no IP address, or link-local ones only"):
        select_pair(REQUEST, pairs, hosts)


def test_an_address_that_is_no_duplicate_is_not_called_a_fault() -> None:
    """A virtual address (VRRP, anycast)."""
    own = nic(9, "ens9", "172.17.0.1")
    own = replace(own, addresses=(replace(own.addresses[0], prefix_length=32),))
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1"), own),
        machine("b", nic(5, "ens3", "203.0.113.2"), own),
    )
    with pytest.raises(NictopError, match=r"a and b both have 172\.17\.0\.1") as caught:
        select_pair(REQUEST, pairs, hosts)
    assert caught.value.exit_code == 2
