"""Invalid plans and incapable hosts are refused before a run starts; failures of a run are
classified."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.pairs import pairs
from nictop.probe.records import Address, FilterChain, Firewalls, TrafficTools, Unreadable
from nictop.probe.traffic.builtin.options import parse_options
from nictop.probe.traffic.iperf3 import checked_options
from nictop.traffic.failures import failure, kind_of, opening_commands
from nictop.traffic.generators.builtin import builtin_client_arguments, builtin_server_arguments
from nictop.traffic.generators.iperf3 import iperf3_client_arguments, iperf3_server_arguments
from nictop.traffic.plan.plan import Endpoint, RunPlan, dscp_number, endpoint_pairs
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.tools import iperf3_differences, iperf3_version, refusals
from nictop.traffic.run.failure_cause import SECONDARY_KINDS
from tests.model.hosts import HELLO, LOOPBACK, inventory, make_link, snapshot_of
from tests.traffic.plans import PLAN, error_text, tools


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"length": 2 << 20}, "block size of iperf3 must be at most 1048576, not 2097152"),
        ({"length": 0}, "block size must be at least 1, not 0"),
        ({"protocol": "udp", "length": 15}, "block size must be at least 16, not 15"),
        (
            {"protocol": "udp", "length": 15, "generator": "builtin"},
            "block size must be at least 16, not 15",
        ),
        (
            {"generator": "builtin", "length": 9 << 20},
            "block size of the built-in generator must be at most 8388608, not 9437184",
        ),
        ({"omit": 100000}, "omit must be 0 to 600, not 100000"),
        ({"omit": 600, "time": 86000}, "time must be 1 to 85400, not 86000"),
        ({"protocol": "udp", "zerocopy": True}, "zerocopy is an option of TCP, not of UDP"),
        ({"mss": 87}, "mss must be 88 to 32767, not 87"),
        ({"time": 0}, "time must be 1 to 86000, not 0"),
        ({"streams": 129}, "streams must be 1 to 128, not 129"),
        ({"interval": 0.05}, "interval must be 0.1 to 60 s, not 0.05"),
        ({"interval": float("nan")}, "interval must be 0.1 to 60 s, not nan"),
        (
            {"test": "rr", "generator": "builtin", "time": 86000},
            "interval must be at least 4.3 s in a run of 86000 s, not 0.5",
        ),
        ({"protocol": "udp", "mss": 100}, "mss is an option of TCP, not of UDP"),
        (
            {"protocol": "udp", "length": 70000},
            "block size of UDP must be at most 65507, not 70000",
        ),
        ({"congestion": "bbr; rm"}, 'congestion control: "bbr; rm" is not a name'),
        (
            {"server": Endpoint("b", 5, "2001:db8::2")},
            "one end has an IPv4 address, the other an IPv6 address",
        ),
        ({"server": Endpoint("b", 5, "b.example")}, '"b.example" is not an IP address'),
        ({"server": PLAN.client}, "client and server are the same address"),
        (
            {"generator": "builtin", "direction": "bidirectional"},
            "bidirectional needs iperf3: the built-in generator sends in one direction",
        ),
        ({"dscp": 64}, "dscp must be 0 to 63, not 64"),
    ],
)
def test_invalid_plan(overrides: dict[str, object], problem: str) -> None:
    (found,) = plan_problems(replace(PLAN, **overrides))  # type: ignore[arg-type]
    assert found.sentence.endswith(problem)


def test_every_problem_of_a_plan_is_about_a_field_of_a_request() -> None:
    """Or about the endpoints: a screen shows it beside the field, whatever its words are."""
    names = {field.name for field in fields(RunRequest)}
    wrong = replace(PLAN, time=0, omit=-1, streams=0, mss=1, window=1, bitrate=0, dscp=64, port=0)
    wrong = replace(wrong, client_cpu=-1, server_cpu=-1, interval=0.0, length=0, congestion=";")
    of_requests = replace(wrong, test="crr", files=0, rate=1, request_size=0, zerocopy=True)
    for plan in (wrong, of_requests, replace(wrong, protocol="udp", request_size=1, files=1)):
        found = plan_problems(plan)
        assert len(found) > 10 and all(problem.field in names for problem in found), found


def test_a_refusal_names_the_field_of_the_option() -> None:
    old = iperf3_3_5("--bidir")
    (found,) = refusals(replace(PLAN, direction="bidirectional"), tools("3.21"), old)
    assert (found.field, found.sentence) == (
        "direction",
        "b: iperf3 3.5 has no --bidir (bidirectional traffic), 3.7 or later needed",
    )
    (found,) = refusals(
        replace(PLAN, server_cpu=7), tools("3.21"), replace(tools("3.21"), cpus=(0,))
    )
    assert (found.field, found.sentence) == (
        "server_cpu",
        "b: CPU 7 not available to the generator",
    )


def test_valid_plan() -> None:
    assert plan_problems(PLAN) == ()
    assert plan_problems(replace(PLAN, generator="builtin", length=8 << 20)) == ()
    assert plan_problems(replace(PLAN, time=86000)) == ()
    assert (
        plan_problems(replace(PLAN, test="rr", generator="builtin", time=86000, interval=4.3)) == ()
    )
    link_local = replace(
        PLAN, client=Endpoint("a", 4, "fe80::1%ens4"), server=Endpoint("b", 5, "fe80::2%ens4")
    )
    assert plan_problems(link_local) == () and link_local.ip_version == 6


@given(
    st.builds(
        RunPlan,
        st.just(PLAN.client),
        st.just(PLAN.server),
        st.sampled_from(("iperf3", "builtin")),
        direction=st.sampled_from(("forward", "reverse", "bidirectional")),
        protocol=st.sampled_from(("tcp", "udp")),
        bitrate=st.none() | st.integers(1, 10**12),
        time=st.integers(1, 1000),
        omit=st.integers(0, 600),
        streams=st.integers(1, 128),
        length=st.none() | st.integers(16, 1 << 20),
        mss=st.none() | st.integers(88, 9216),
        window=st.none() | st.integers(1024, 1 << 30),
        congestion=st.none() | st.sampled_from(("cubic", "bbr", "reno")),
        dscp=st.none() | st.integers(0, 63),
        client_cpu=st.none() | st.integers(0, 300),
        server_cpu=st.none() | st.integers(0, 300),
        zerocopy=st.booleans(),
    )
)
def test_probe_accepts_the_iperf3_arguments_of_any_plan(plan: RunPlan) -> None:
    for installed in (tools("3.12"), tools("3.21")):
        for arguments in (
            iperf3_client_arguments(plan, installed),
            iperf3_server_arguments(plan, installed),
        ):
            assert checked_options(list(arguments)) == list(arguments)


@given(
    st.integers(88, 32767), st.integers(16, 65507), st.booleans(), st.none() | st.integers(0, 63)
)
def test_builtin_generator_parses_the_arguments_of_every_plan(
    mss: int, length: int, udp: bool, dscp: int | None
) -> None:
    plan = replace(
        PLAN,
        generator="builtin",
        mss=mss,
        length=length,
        protocol="udp" if udp else "tcp",
        dscp=dscp,
    )
    plan = replace(
        plan, omit=1, streams=3, bitrate=10**9, window=1 << 20, congestion="cubic", client_cpu=1
    )
    client = parse_options(builtin_client_arguments(plan))
    assert (client.mss, client.length, client.udp, client.tos) == (
        mss,
        length,
        udp,
        (dscp or 0) << 2,
    )
    assert (client.streams, client.omit, client.time, client.affinity) == (3, 1.0, 2.0, 1)
    server = parse_options(builtin_server_arguments(plan))
    assert (server.mss, server.udp, server.affinity) == (mss, udp, None)
    # the server does what nictop tells it, not what its client asks for
    own = {"affinity": None, "bind": "", "accept": 0.0}
    assert vars(server) | own == vars(client) | own


def test_dscp_name_and_number() -> None:
    assert [dscp_number(word) for word in ("EF", "af41", "46", "0x2e", "64", "-1", "x", "")] == [
        46,
        34,
        46,
        46,
        None,
        None,
        None,
        None,
    ]


# -------------------------------------------------------------------------------------------- tools


def test_iperf3_version() -> None:
    assert iperf3_version(tools("3.12").version) == (3, 12)
    assert iperf3_version("iperf 3.19.1 (cJSON 1.7.15)\n") == (3, 19, 1)
    assert [iperf3_version(text) for text in ("", "iperf version 2.1.9", "zsh: not found")] == [
        None
    ] * 3


def iperf3_3_5(*missing: str, version: str = "iperf 3.5") -> TrafficTools:
    known = tools("3.12")
    return replace(
        known,
        version=version,
        options=tuple(installed for installed in known.options if installed not in missing),
    )


@pytest.mark.parametrize(
    ("overrides", "server", "reason"),
    [
        (
            {"direction": "bidirectional"},
            iperf3_3_5("--bidir"),
            "b: iperf3 3.5 has no --bidir (bidirectional traffic)",
        ),
        ({}, TrafficTools(), "b: iperf3 is not installed"),
        ({}, iperf3_3_5(version="iperf 3.1.3"), "b: iperf3 3.1.3 is too old, 3.5"),
        ({}, iperf3_3_5(version="hello"), "b: /usr/bin/iperf3 is not iperf3"),
        ({"mss": 10000}, iperf3_3_5(), "b: iperf3 3.5 supports an MSS of at most 9216"),
        (
            {"congestion": "bbr"},
            iperf3_3_5(),
            "b: congestion control bbr not available (reno, cubic)",
        ),
        ({"server_cpu": 7}, iperf3_3_5(), "b: CPU 7 not available"),
    ],
)
def test_plan_is_refused_for_what_an_older_end_lacks(
    overrides: dict[str, object], server: TrafficTools, reason: str
) -> None:
    able = replace(tools("3.21"), congestion_controls=("bbr", "cubic"))
    found = refusals(replace(PLAN, **overrides), able, server)  # type: ignore[arg-type]
    assert len(found) == 1 and found[0].sentence.startswith(reason), found


def test_builtin_generator_needs_no_iperf3() -> None:
    assert refusals(replace(PLAN, generator="builtin"), TrafficTools(), TrafficTools()) == ()


def test_refusal_names_the_reason_of_an_iperf3_that_hangs() -> None:
    hangs = replace(
        tools(), version="", unreadable={"version": Unreadable("failed", "no answer within 2 s")}
    )
    assert [problem.sentence for problem in refusals(PLAN, hangs, tools())] == [
        "a: /usr/bin/iperf3 is not iperf3: no answer within 2 s",
    ]


def test_different_versions_are_noted_and_not_refused() -> None:
    assert refusals(PLAN, tools("3.12"), tools("3.21")) == ()
    assert iperf3_differences(tools("3.12"), tools("3.12")) == ()
    (difference,) = iperf3_differences(tools("3.12"), tools("3.21"))
    assert difference.startswith(
        "client iperf3 3.12, server iperf3 3.21; only one of them uses a thread per stream"
    )


# ----------------------------------------------------------------------------------- endpoint pairs


def test_endpoint_pairs_have_devices_first_and_no_duplicate_addresses() -> None:
    def machine(  # type: ignore[no-untyped-def]
        name: str, *addresses: tuple[str, str | None], boot: str = "", namespace: int = 0
    ):
        links = [
            make_link(
                number,
                f"ens{number}",
                bus=bus,
                kind=None if bus else "bridge",
                addresses=(Address("ipv4", address, 24, "global", ("permanent",)),),
            )
            for number, (address, bus) in enumerate(addresses, 2)
        ]
        return snapshot_of(
            replace(HELLO, boot_id=boot or name, network_namespace=namespace),
            inventory(links=(LOOPBACK, *links), pci=()),
            host=name,
        )

    hosts = [
        machine("a", ("192.0.2.1", None), ("198.51.100.1", "pci")),
        machine("b", ("192.0.2.2", None), ("198.51.100.2", "pci")),
        machine("c", ("198.51.100.2", "pci")),
    ]
    found = endpoint_pairs(pairs(hosts).subnets, hosts)
    assert [(installed.client.address, installed.server.address) for installed in found] == [
        ("192.0.2.1", "192.0.2.2"),
        ("192.0.2.2", "192.0.2.1"),
    ]
    fast = [*hosts[:2], machine("c", ("198.51.100.3", "pci"))]
    first = endpoint_pairs(pairs(fast).subnets, fast)[0]
    assert (first.network, first.client) == ("198.51.100.0/24", Endpoint("a", 3, "198.51.100.1"))
    same_machine = [
        machine("a", ("192.0.2.1", "pci"), boot="x"),
        machine("b", ("192.0.2.2", "pci"), boot="x"),
    ]
    assert endpoint_pairs(pairs(same_machine).subnets, same_machine) == ()
    for other, number in ((4026531840, 0), (4026532001, 2)):
        namespaces = [
            machine("a", ("192.0.2.1", "pci"), boot="x", namespace=4026531840),
            machine("b", ("192.0.2.2", "pci"), boot="x", namespace=other),
        ]
        assert len(endpoint_pairs(pairs(namespaces).subnets, namespaces)) == number


# ----------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("version", ["3.12", "3.21"])
@pytest.mark.parametrize(
    ("name", "seconds", "kind"),
    [
        ("refused.client", 0.1, "refused"),
        ("timeout.client", 5.0, "timeout"),
        ("no_route.client", 0.1, "no_route"),
        ("no_host.client", 3.1, "no_neighbour"),
        ("no_host.client", 0.02, "prohibited"),
        ("busy.client", 0.1, "busy"),
        ("in_use.server", 0.1, "address_in_use"),
        ("server_killed.client", 3.0, "control_message"),
        ("client_killed.server", 3.0, "control_message"),
    ],
)
def test_kind_of_captured_iperf3_errors(version: str, name: str, seconds: float, kind: str) -> None:
    assert kind_of(error_text(version, name), seconds) == kind
    assert failure(PLAN, error_text(version, name), seconds).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "unable to write to stream socket: Broken pipe",
        "unable to read from stream socket: Connection reset by peer",
        "unable to initialize stream: Transport endpoint is not connected",
    ],
)
def test_stream_closed_by_the_other_end_is_a_secondary_failure(text: str) -> None:
    """Messages of iperf_error.c in iperf3; the run then waits for the failure of the other end."""
    assert kind_of(text, 3.0) in SECONDARY_KINDS


@given(st.text(), st.floats(0, 100))
def test_sentence_of_any_error_text_is_printable(text: str, seconds: float) -> None:
    found = failure(PLAN, text, seconds)
    assert found.sentence and found.sentence.isprintable()


INPUT_CHAIN = FilterChain("inet", "fence", "in", "drop")


def test_firewall_commands_open_the_port_for_the_run_and_quote_names() -> None:
    plan = replace(PLAN, time=30, omit=2)
    (command,) = opening_commands(
        plan, "ens4; reboot", Firewalls(firewalld=7, chains=(INPUT_CHAIN,))
    )
    zone = "\"$(firewall-cmd --get-zone-of-interface='ens4; reboot')\""
    assert command == f"firewall-cmd --zone={zone} --add-port=5201/tcp --timeout=152"
    both = opening_commands(
        replace(plan, protocol="udp"), None, Firewalls(ufw=True, chains=(INPUT_CHAIN,))
    )
    rules = [
        f"allow proto {protocol} from 192.0.2.1 to any port 5201" for protocol in ("tcp", "udp")
    ]
    assert list(both) == [
        f"(trap '' HUP; ufw {rule}; sleep 152; ufw delete {rule}) &" for rule in rules
    ]


def test_firewall_commands_cover_each_chain_of_the_address_family() -> None:
    chains = (
        INPUT_CHAIN,
        FilterChain("ip6", "filter", "INPUT", "accept"),
        FilterChain("inet", "a; reboot", "in", "drop"),
    )
    (command,) = opening_commands(PLAN, None, Firewalls(chains=chains))
    assert "insert rule inet fence in ip saddr 192.0.2.1 tcp dport 5201 accept" in command
    assert "nft delete rule inet fence in $h" in command
    local = replace(
        PLAN,
        client=replace(PLAN.client, address="fe80::1%ens4"),
        server=Endpoint("b", 5, "fe80::2%ens4"),
    )
    found = opening_commands(local, None, Firewalls(chains=chains))
    assert (
        "inet fence in ip6 saddr fe80::1 " in found[0] and "ip6 filter INPUT ip6 saddr" in found[1]
    )
    assert len(found) == 2


def test_firewall_commands_for_unknown_and_no_firewalls() -> None:
    assert [command.split()[0] for command in opening_commands(PLAN, None)] == [
        "firewall-cmd",
        "(trap",
        "(trap",
    ]
    unreadable = Firewalls(unreadable={"chains": Unreadable("needs_root", "nf_tables: EPERM")})
    assert opening_commands(PLAN, None, unreadable) == opening_commands(PLAN, None)
    found = failure(PLAN, "Connection timed out", 5.0, firewalls=Firewalls())
    assert (found.commands, found.host) == ((), "")
    assert "; possible: a firewall on a, " in found.sentence
    assert found.sentence.endswith("; excluded: firewall of b (input)")


def test_rules_of_iptables_legacy_are_not_excluded() -> None:
    """Only the names of its tables are read; for rules that are not known there are no commands."""
    unread = Firewalls(unreadable={"iptables": Unreadable("failed", "rules of iptables-legacy")})
    found = failure(PLAN, "Connection timed out", 5.0, firewalls=unread, client_firewalls=unread)
    for host in ("a", "b"):
        assert f"iptables-legacy on {host} (rules not read)" in found.sentence
    assert "excluded" not in found.sentence and found.commands == ()


def test_what_an_error_may_come_from_is_not_said_to_come_from_one() -> None:
    """ECONNREFUSED and ENETUNREACH may be the ICMP of a router, EHOSTUNREACH that of one that does
    not reach the host (net/ipv4/icmp.c, icmp_err_convert; net/ipv4/tcp_ipv4.c, tcp_v4_err)."""
    refused = failure(PLAN, "Connection refused", 0.1).sentence
    assert refused == "connection refused at 192.0.2.2 port 5201"
    unreachable = failure(PLAN, "Network is unreachable", 0.1).sentence
    assert unreachable == "a, or a router, has no route to 192.0.2.2"
    at_once = failure(PLAN, "No route to host", 0.1).sentence
    assert at_once.startswith("192.0.2.2 port 5201 rejected by a firewall or a router; possible: ")
    late = failure(PLAN, "No route to host", 3.1).sentence
    assert late.startswith("no ARP or neighbour reply for 192.0.2.2 or a gateway to it; possible: ")


def test_permission_denied_by_bind_and_by_connect() -> None:
    assert (
        kind_of("iperf3: error - unable to connect to server: Permission denied", 0.1)
        == "prohibited"
    )
    assert (
        kind_of("iperf3: error - unable to start listener for connections: Permission denied", 0.1)
        == "cannot_bind"
    )


def test_refused_connection_to_a_listening_server_is_blamed_on_a_firewall() -> None:
    text = "unable to connect to server: Connection refused"
    assert not failure(PLAN, text, 0.1).commands
    found = failure(PLAN, text, 0.1, firewalls=Firewalls(chains=(INPUT_CHAIN,)), listens=True)
    assert found.sentence.startswith(
        "connections to 192.0.2.2 port 5201 are refused although the server listens"
    )
    assert found.commands
    assert (found.kind, found.host) == ("refused", "b")
