"""Words become values or a sentence; the ends that are meant are found, or what to type is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nictop.errors import NictopError
from nictop.probe.records import TrafficTools
from nictop.traffic.plan.plan import Endpoint, RunPlan, dscp_number
from nictop.traffic.plan.quantities import seconds, yes_or_no
from nictop.traffic.plan.request import (
    RunRequest,
    amount,
    bit_rate,
    choose,
    cpu,
    dscp,
    generator_of,
    plan_of,
    values,
    whole_number,
)
from tests.traffic.machines import between, machine, nic, two
from tests.traffic.plans import tools

WISH = RunRequest("a", "b")
IPERF3, NONE = tools(), TrafficTools(congestion_controls=("reno", "cubic"), cpus=(0, 1))


# ------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("word", "expected"),
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
def test_amounts_are_binary(word: str, expected: int) -> None:
    assert amount(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [("1G", 10**9), ("2.5G", 2_500_000_000), ("500m", 5 * 10**8), ("10Mb/s", 10**7), ("9600", 9600)],
)
def test_bit_rates_are_decimal(word: str, expected: int) -> None:
    assert bit_rate(word) == expected


@given(st.integers(0, 10**12), st.sampled_from("KMG"))
def test_amounts_and_rates_are_exact(number: int, prefix: str) -> None:
    power = "KMG".index(prefix) + 1
    assert amount(f"{number}{prefix}") == number * 1024**power
    assert bit_rate(f"{number}{prefix}") == number * 1000**power
    assert whole_number(str(number)) == number


@pytest.mark.parametrize("parse", [amount, bit_rate, whole_number, cpu, dscp, seconds, yes_or_no, values])
@given(text=st.one_of(st.text(), st.from_regex(r"[0-9.]{0,20}[ kKMGTb/si]{0,4}"), st.just("9" * 100_000)))
@example(text="0\x1f")
def test_a_word_is_a_value_or_a_short_sentence_fit_for_a_terminal(parse: Callable[[str], object], text: str) -> None:
    try:
        value = parse(text)
    except NictopError as error:
        assert error.message.isprintable() and len(error.message) < 600
        assert error.hint.isprintable()
    else:
        assert not isinstance(value, (int, float)) or value >= 0


@pytest.mark.parametrize("word", ["", "1.0001", "-1", "1e3", "١٢", "1P", "0x10", "K", "1..5K", "nan", "inf", "1K2"])
def test_what_is_no_whole_number_of_bytes_is_refused(word: str) -> None:
    with pytest.raises(NictopError):
        amount(word)


def test_dscp_is_what_the_plan_takes() -> None:
    for word in ("ef", "AF41", "46", "0x2e"):
        assert dscp(word) == dscp_number(word)
    with pytest.raises(NictopError, match="DSCP: '64' is none"):
        dscp("64")


def test_values_of_a_variable() -> None:
    assert values("length=512, 4K,8M") == ("length", ("512", "4K", "8M"))
    assert values("MSS=default,100") == ("mss", ("default", "100"))
    assert values("setup=passthrough,v switch") == ("setup", ("passthrough", "v switch"))
    for word, why in (
        ("length", "names no values"),
        ("color=red", "cannot be varied"),
        ("length=512,,1K", "'' is no value"),
        ("length=4x", "is no number of bytes"),
        ("queues=0", "is no value"),
        ("queues=/", "is no value"),
        ("direction=up", "is none"),
        ("setup=\x1b[31mred", "is no value"),
        (f"streams={','.join(map(str, range(1, 100)))}", "more than 64"),
    ):
        with pytest.raises(NictopError, match=re.escape(why)) as caught:
            values(word)
        assert caught.value.message.isprintable()


# -------------------------------------------------------------------------------------------------------------- ends


def test_the_only_subnet_needs_no_words() -> None:
    offers, hosts = between(machine("a", nic(3, "ens3", "192.0.2.1")), machine("b", nic(5, "ens7", "192.0.2.2")))
    chosen = choose(WISH, offers, hosts)
    assert (chosen.client, chosen.server) == (Endpoint("a", 3, "192.0.2.1"), Endpoint("b", 5, "192.0.2.2"))
    assert choose(RunRequest("b", "a"), offers, hosts).client.host == "b"


def test_of_several_ways_one_is_named() -> None:
    offers, hosts = two()
    with pytest.raises(NictopError, match="several ways lead from a to b") as caught:
        choose(WISH, offers, hosts)
    assert "--client-nic ens3 --server-nic ens3" in caught.value.hint
    assert choose(replace(WISH, client_nic="ens3"), offers, hosts).server == Endpoint("b", 5, "192.0.2.2")
    assert choose(replace(WISH, server_address="192.0.2.2"), offers, hosts).client == Endpoint("a", 3, "192.0.2.1")


def test_where_only_the_ip_version_is_open_it_is_ipv4() -> None:
    offers, hosts = two()
    wish = replace(WISH, client_nic="ens4")
    assert choose(wish, offers, hosts).network == "198.51.100.0/24"
    assert choose(replace(wish, ip_version=6), offers, hosts).network == "2001:db8::/64"
    # an address may be written in another way than the kernel does
    assert choose(replace(WISH, client_address="2001:DB8:0::1"), offers, hosts).server.address == "2001:db8::2"


def test_two_addresses_of_one_nic_are_told_apart_by_address() -> None:
    offers, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1", "192.0.2.9")), machine("b", nic(5, "ens3", "192.0.2.2"))
    )
    with pytest.raises(NictopError) as caught:
        choose(WISH, offers, hosts)
    assert caught.value.hint == (
        "--client-address 192.0.2.1 --server-address 192.0.2.2 or --client-address 192.0.2.9 --server-address 192.0.2.2"
    )
    assert choose(replace(WISH, client_address="192.0.2.9"), offers, hosts).client == Endpoint("a", 3, "192.0.2.9")


def test_named_ends_need_no_common_subnet() -> None:
    offers, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1")),
        machine("b", nic(5, "ens3", "203.0.113.2", "2001:db8::2"), nic(6, "ens4", "198.51.100.2")),
    )
    with pytest.raises(NictopError, match="a and b share no subnet") as caught:
        choose(WISH, offers, hosts)
    for words in ("--client-nic ens3 (192.0.2.1)", "--server-nic ens4 (198.51.100.2)"):
        assert words in caught.value.hint
    chosen = choose(replace(WISH, client_nic="ens3", server_address="203.0.113.2"), offers, hosts)
    assert (chosen.network, chosen.client, chosen.server) == (
        "",
        Endpoint("a", 3, "192.0.2.1"),
        Endpoint("b", 5, "203.0.113.2"),
    )


def test_loopback_and_one_machine_under_two_names_by_address() -> None:
    offers, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1"), boot="x"), machine("b", nic(5, "ens3", "192.0.2.2"), boot="x")
    )
    assert offers == ()
    both = replace(WISH, client_address="192.0.2.1", server_address="192.0.2.2")
    assert choose(both, offers, hosts).server == Endpoint("b", 5, "192.0.2.2")
    loopback = RunRequest("a", "a", client_address="127.0.0.1", server_address="127.0.0.1")
    assert choose(loopback, offers, hosts).client == Endpoint("a", 1, "127.0.0.1")
    with pytest.raises(NictopError, match="a is both ends"):
        choose(RunRequest("a", "a"), offers, hosts)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"client": "c"}, "'c' is not watched"),
        ({"client_nic": "eth9"}, "a has no NIC 'eth9'"),
        ({"server_address": "192.0.2.77"}, "b has no address '192.0.2.77'"),
        ({"server_address": "b.example"}, "'b.example' is no IP address"),
        ({"client_nic": "ens3", "server_nic": "ens4", "ip_version": 6}, "no way between a and b fits"),
    ],
)
def test_what_is_not_there_is_said_with_what_there_is(more: dict[str, str], message: str) -> None:
    offers, hosts = two()
    with pytest.raises(NictopError, match=re.escape(message)) as caught:
        choose(replace(WISH, **more), offers, hosts)  # type: ignore[arg-type]
    assert "--" in caught.value.hint or "watched: a, b" in caught.value.hint


def test_names_of_machines_are_quoted_and_clean_in_hints() -> None:
    evil = nic(3, "e;reboot\x1b", "192.0.2.1"), nic(4, "ens4", "198.51.100.1")
    offers, hosts = between(
        machine("a\x1b]0;x", *evil), machine("b", nic(5, "ens3", "192.0.2.2"), nic(6, "ens4", "198.51.100.2"))
    )
    with pytest.raises(NictopError) as caught:
        choose(RunRequest("a\x1b]0;x", "b"), offers, hosts)
    assert (caught.value.message + caught.value.hint).isprintable()
    assert "--client-nic $'e;reboot\\x1b'" in caught.value.hint


# --------------------------------------------------------------------------------------------------- plan, generator


def test_every_option_of_a_wish_is_in_its_plan() -> None:
    offers, hosts = two()
    options = {
        "direction": "reverse", "protocol": "udp", "bitrate": 7, "time": 3, "omit": 1, "streams": 2, "length": 99,
        "mss": 500, "window": 2048, "congestion": "bbr", "dscp": 46, "client_cpu": 1, "server_cpu": 0, "zerocopy": True,
        "port": 6000, "interval": 0.25,
    }  # fmt: skip
    wish = replace(WISH, client_nic="ens3", **options)  # type: ignore[arg-type]
    plan = plan_of(wish, choose(wish, offers, hosts), "builtin")
    assert {name: getattr(plan, name) for name in options} == options
    assert plan.generator == "builtin" and plan.client == Endpoint("a", 3, "192.0.2.1")
    known = {"client", "server", "generator"} | options.keys()
    assert known == set(plan.__dataclass_fields__)


def made(**more: object) -> tuple[RunRequest, list[RunPlan]]:
    wish = replace(WISH, client_nic="ens3", **more)  # type: ignore[arg-type]
    return wish, [plan_of(wish, choose(wish, *two()), "iperf3")]


def test_iperf3_comes_first_where_both_have_it() -> None:
    wish, plans = made()
    assert generator_of(wish, plans, IPERF3, IPERF3) == ("iperf3", "")
    generator, why = generator_of(wish, plans, IPERF3, NONE)
    assert generator == "builtin" and why.startswith(
        "the built-in generator carries the run: b: iperf3 is not installed"
    )
    assert generator_of(replace(wish, generator="iperf3"), plans, NONE, NONE) == ("iperf3", "")


def test_one_message_that_iperf3_cannot_send_moves_all_runs_to_the_builtin_generator() -> None:
    wish, plans = made()
    (plan,) = plans
    every = [replace(plan, length=length) for length in (512, 1 << 20, 8 << 20)]
    generator, why = generator_of(wish, every, IPERF3, IPERF3)
    assert generator == "builtin" and "all runs" in why and "8388608" in why
    assert generator_of(wish, every[:2], IPERF3, IPERF3) == ("iperf3", "")


def test_what_neither_can_do_is_refused_with_both_reasons() -> None:
    wish, plans = made(direction="bidirectional")
    with pytest.raises(NictopError, match=r"iperf3 is not installed.*in one direction only"):
        generator_of(wish, plans, NONE, NONE)
    wish, plans = made(client_cpu=99)
    with pytest.raises(NictopError, match="the hosts cannot run it: a: there is no CPU 99"):
        generator_of(wish, plans, IPERF3, NONE)
