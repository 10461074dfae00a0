"""The sentence names the bottleneck, and no other limit behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.devices.ceiling import Ceiling
from nictop.model.devices.netdevs import End
from nictop.probe.records import Qdisc
from nictop.traffic.analysis.bottleneck import bottleneck, examined_bottleneck
from nictop.traffic.analysis.judgement import loads_of_machines
from nictop.traffic.analysis.path_limits import reachable_rate
from nictop.traffic.analysis.setup_facts import NicSetup, SendQueueing
from nictop.traffic.drops.counted_losses import CountedLoss
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Total
from nictop.traffic.results.host_load import Busy, BusyCpu, HostLoad, Machine, ThreadLoad
from nictop.traffic.results.path_proof import Carried, HostProof, PathProof
from nictop.traffic.results.port_load import PortLoad
from nictop.traffic.results.result import Flow, Result, SocketFigures
from tests.traffic.plans import PLAN
from tests.traffic.runs import BLACK_HOLE, BUSY, PROVEN, flow, load, path_test, result

SEEN = "seen there (time on all CPUs, in % of one): "
SETUPS = {
    "a": NicSetup(None, (SendQueueing("ens4", "fq_codel"),)),
    "b": NicSetup(1, (SendQueueing("ens5", "mq"),)),
}
ALL_EXCLUDED = (
    "not determined; possible: network between the hosts, hypervisor of a guest; excluded: "
)
FULL_WINDOW = SocketFigures("a", 20_000, 1448, 40, 0.8, 0.0, "cubic", 12_500_000)
"""12.5 MB / 20 ms = 5 Gb/s."""
FULL_BUFFER = replace(FULL_WINDOW, window_limited=0.0, buffer_limited=0.6)
FULL_CWND = SocketFigures("a", 200, 1448, 90, 0.0, 0.0, "cubic", 4 << 20)
"""86 segments are in flight at 5 Gb/s and 200 µs."""
FREE_CWND = replace(FULL_CWND, congestion_window=4000)
BBR = replace(FULL_CWND, congestion_control="bbr")
BUSY_RECEIVER = load("b", "server", hottest=2, hottest_busy=0.99, hottest_softirq=0.98)
BUSY_SENDER = load(
    "a",
    hottest=1,
    hottest_busy=0.97,
    hottest_softirq=0.1,
    threads=(ThreadLoad("iperf3", 900, 0.9, (1,), True),),
)
LOST_DATAGRAMS = Total(False, False, 10.0, 5e9, packets=1000, lost=200)
MANY_RETRANSMITS = (flow(5.0, retransmits=850),)
"""Of 4.3 million segments: 0.02 %, which lets CUBIC reach 5.1 Gb/s at 200 µs."""
FEW_RETRANSMITS = (flow(5.0, retransmits=100),)
"""0.0023 %: 14.7 Gb/s."""
UDP = replace(PLAN, protocol="udp")
LOCAL = PathProof("failed", "both ends are on one machine", one_machine=True)
MACHINES = (Machine("vm1", 0.95, 0.11, (1,)), Machine("vm2", 0.8, None, (0,)))
TWO_CORES = {
    "cores": 2,
    "user": 1.2,
    "system": 0.4,
    "softirq": 0.23,
    "hottest": 1,
    "hottest_busy": 0.92,
}
"""1.83 of 2 cores busy."""
SMALL = replace(FULL_CWND, snd_mss=88)
SLOW_CEILING = Ceiling(4.94e9, 7e6, "4.94 Gb/s: 10 GbE, MTU 1500, IPv4, MSS 100, TCP timestamps")


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (result(9.40), "line rate: 100 % of 9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps"),
        (
            result(0.99, plan=replace(PLAN, bitrate=500_000_000, streams=2)),
            "requested rate 1.00 Gb/s",
        ),
        (
            result(hosts=(load("a", steal=0.4, hottest_busy=0.97), BUSY_RECEIVER)),
            "hypervisor of a: 10 % CPU steal",
        ),
        (
            result(hosts=(BUSY_SENDER, BUSY_RECEIVER)),
            "CPU 2 on b (receiver), 98 % softirq, single queue",
        ),
        (
            result(hosts=(BUSY_SENDER, load("b", "server"))),
            "CPU 1 on a (sender), 97 % (softirq 10 %), generator thread "
            f"{SEEN}iperf3 (pid 900) 90 %",
        ),
        (
            result(sockets=(FULL_WINDOW,)),
            "receive window: full 80 % of the time: 11.9 MiB / 20.0 ms = 5.00 Gb/s",
        ),
        (
            result(sockets=(replace(FULL_WINDOW, send_window=None),)),
            "receive window: full 80",
        ),
        (
            result(sockets=(FULL_BUFFER,)),
            "send buffer: full 60 % of the time: 11.9 MiB in flight per rtt of 20.0 ms",
        ),
        (result(flows=(flow(5.0, received=LOST_DATAGRAMS),), plan=UDP), "lost datagrams: 20 %"),
        (
            result(
                flows=MANY_RETRANSMITS,
                hosts=(load("a"), load("b", "server", ring_drops=900)),
                sockets=(FULL_CWND,),
            ),
            "RX ring of b: 900 packets dropped: retransmits 0.02 %, limit 5.0",
        ),
        (
            result(
                flows=MANY_RETRANSMITS,
                hosts=(load("a"), load("b", "server", backlog_drops=900)),
                sockets=(FULL_CWND,),
            ),
            "receive backlog of b: 900 packets dropped (net.core.netdev_max_backlog): retransmits "
            "0.02 %",
        ),
        (
            result(),
            "not determined; possible: TCP windows and buffers (sockets of a not read); excluded: "
            "root",
        ),
        (
            result(ceiling=Ceiling(None, None, "no ceiling"), hosts=()),
            "not determined; possible: TCP windows and buffers",
        ),
    ],
)
def test_cause(run: Result, sentence: str) -> None:
    assert bottleneck(run, SETUPS).startswith(sentence)


UNSEEN = "not known: a shows no steal"


def test_a_hypervisor_whose_guest_shows_no_steal_is_not_excluded() -> None:
    run = result(hosts=(load("a", steal_unseen=True), load("b", "server")), sockets=(FREE_CWND,))
    _, limits = examined_bottleneck(run, SETUPS)
    rows = {(one.limit, one.value, one.verdict) for one in limits}
    assert {("hypervisor of a", UNSEEN, "possible"), ("steal", "b 0 %", "excluded")} <= rows
    assert ("network between the hosts", "", "possible") in rows
    both = replace(
        run, hosts=(load("a", steal_unseen=True), load("b", "server", steal_unseen=True))
    )
    sentence = bottleneck(both, SETUPS)
    assert "hypervisor of b (not known: b shows no steal)" in sentence and "steal (" not in sentence
    # beside another possible cause, and below the cause
    assert f"hypervisor of a ({UNSEEN})" in bottleneck(replace(run, sockets=()), SETUPS)
    full = examined_bottleneck(replace(run, hosts=(run.hosts[0], BUSY_RECEIVER)), SETUPS)[1]
    assert full[0].verdict == "cause" and "hypervisor of a" in {one.limit for one in full}


def test_cpu_ready_of_a_watched_esxi_host_shows_what_steal_does_not() -> None:
    hypervisor = load(
        "esxi", "observer", machines=(Machine("vm a", 0.5, None, ready=0.0, end="a"),)
    )
    run = result(
        hosts=(load("a", steal_unseen=True), load("b", "server"), hypervisor), sockets=(FREE_CWND,)
    )
    assert "hypervisor of a (" not in bottleneck(run, SETUPS)


@pytest.mark.parametrize(
    ("run", "rows"),
    [
        (
            result(hosts=(BUSY_SENDER, BUSY_RECEIVER)),
            [
                ("CPU 2 on b (receiver)", "98 % softirq, single queue", "cause"),
                ("TCP windows and buffers", "sockets of a not read", "possible"),
                ("root qdisc fq_codel of ens4 on a", "no rate limit", "excluded"),
                ("line rate", "53 % of it", "excluded"),
                ("steal", "b 0 %, a 0 %", "excluded"),
            ],
        ),
        (
            result(sockets=(FULL_WINDOW,), hosts=(load("a"), BUSY_RECEIVER)),
            [
                ("CPU 2 on b (receiver)", "98 % softirq, single queue", "cause"),
                # its arithmetic gives the rate as well
                (
                    "receive window",
                    "full 80 % of the time: 11.9 MiB / 20.0 ms = 5.00 Gb/s",
                    "possible",
                ),
                ("send buffer", "full 0 % of the time", "excluded"),
            ],
        ),
        (
            result(flows=(flow(5.0, retransmits=0),), sockets=(FULL_CWND,)),
            [
                ("network between the hosts", "", "possible"),
                ("hypervisor of a guest", "", "possible"),
                ("receive window", "full 0 % of the time", "excluded"),
                ("retransmits", "0", "excluded"),
            ],
        ),
    ],
    ids=["cause", "second cause", "not determined"],
)
def test_every_limit_that_was_examined_has_a_row(
    run: Result, rows: list[tuple[str, str, str]]
) -> None:
    sentence, limits = examined_bottleneck(run, SETUPS)
    found = [(one.limit, one.value, one.verdict) for one in limits]
    assert set(rows) <= set(found)
    assert [one.verdict for one in limits] == sorted(
        (one.verdict for one in limits), key=["cause", "possible", "excluded"].index
    )
    assert sentence == bottleneck(run, SETUPS) and sentence.startswith(rows[0][0]) == (
        rows[0][2] == "cause"
    )
    if rows[0][2] != "cause":
        assert all(one.limit in sentence and one.value in sentence for one in limits), (
            "the sentence says no less"
        )


def test_the_table_says_no_less_than_the_sentence() -> None:
    """Packet rate and retransmits, which no limit explains, have rows of their own."""
    run = result(0.5, flows=(flow(0.5, retransmits=0),), sockets=(SMALL,), ceiling=SLOW_CEILING)
    sentence, limits = examined_bottleneck(run, SETUPS)
    (rate,) = (one.value for one in limits if one.limit == "packet rate")
    assert rate in sentence and rate.endswith(" of 88 B each, limited by packet rate")
    many = (flow(5.0, retransmits=40_000),)
    run = result(
        flows=many, sockets=(replace(FULL_CWND, rtt=20_000),), hosts=(BUSY_SENDER, BUSY_RECEIVER)
    )
    sentence, limits = examined_bottleneck(run, SETUPS)
    shares = [one for one in limits if "retransmit" in f"{one.limit} {one.value}"]
    assert sentence.endswith(f"; possible: losses ({shares[0].value})")
    assert len(shares) == 1 and shares[0].verdict == "possible"


def test_a_run_without_a_rate_has_no_limits() -> None:
    assert examined_bottleneck(result(failure=Failure("stall", "no more data")), SETUPS) == ("", ())


BUFFERS = {
    "net.ipv4.tcp_rmem": (4096, 131072, 25 << 20),
    "net.ipv4.tcp_wmem": (4096, 16384, 25 << 20),
}
MAXIMA = {"net.core.rmem_max": 212_992, "net.core.wmem_max": 212_992}
SMALL_BUFFERS = {
    host: replace(one, tcp_buffers=BUFFERS, socket_buffers=MAXIMA, host=host)
    for host, one in SETUPS.items()
}


@pytest.mark.parametrize(
    ("run", "setups", "setting"),
    [
        (
            result(sockets=(FULL_WINDOW,)),
            SMALL_BUFFERS,
            "; net.ipv4.tcp_rmem of b allows 25.0 MiB, 9.41 Gb/s at this rtt needs 45.0 MiB: "
            'sysctl -w net.ipv4.tcp_rmem="4096 131072 47185920"',
        ),
        (
            result(sockets=(FULL_BUFFER,)),
            SMALL_BUFFERS,
            "; net.ipv4.tcp_wmem of a allows 25.0 MiB, 9.41 Gb/s at this rtt needs 45.0 MiB: "
            'sysctl -w net.ipv4.tcp_wmem="4096 16384 47185920"',
        ),
        (
            result(sockets=(FULL_WINDOW,), ceiling=Ceiling(None, None, "none: link speed unknown")),
            SMALL_BUFFERS,
            '; net.ipv4.tcp_rmem of b allows 25.0 MiB; larger: sysctl -w net.ipv4.tcp_rmem="4096 '
            '131072 104857600"',
        ),
        (
            result(sockets=(FULL_WINDOW,), plan=replace(PLAN, window=13 << 20)),
            SMALL_BUFFERS,
            "; -w 13.0 MiB exceeds net.core.rmem_max 208 KiB of b: sysctl -w "
            "net.core.rmem_max=13631488",
        ),
        (result(sockets=(FULL_WINDOW,), plan=replace(PLAN, window=200_000)), SMALL_BUFFERS, ""),
        (result(sockets=(replace(FULL_WINDOW, rtt=200, send_window=125_000),)), SMALL_BUFFERS, ""),
        (result(sockets=(FULL_WINDOW,)), SETUPS, ""),
    ],
    ids=[
        "window",
        "send buffer",
        "ceiling unknown",
        "set by the program",
        "allowed",
        "reader is slow",
        "not recorded",
    ],
)
def test_setting_that_limits_a_socket_buffer(
    run: Result, setups: dict[str, NicSetup], setting: str
) -> None:
    """The bandwidth-delay product at the ceiling is 22.4 MiB, and half of a buffer is payload."""
    full = bottleneck(run, setups)
    plain = bottleneck(run, SETUPS)
    assert full == plain + setting


def test_limit_of_a_cloud_instance() -> None:
    """4.3 million segments: from 432 packets on it is the cause; the other direction only makes it
    possible."""

    def limited(host: str, **limits: int) -> dict[str, NicSetup]:
        return {**SETUPS, host: replace(SETUPS[host], instance_limits=limits)}

    run = result(sockets=(FULL_CWND,))
    exceeded = bottleneck(run, limited("a", bw_out_allowance_exceeded=14368))
    assert exceeded == "instance limit of a: bw_out_allowance_exceeded 14368 packets"
    assert bottleneck(run, limited("b", pps_allowance_exceeded=5000)).startswith(
        "instance limit of b: pps_allow"
    )
    for setups in (
        limited("a", bw_out_allowance_exceeded=9),
        limited("a", bw_in_allowance_exceeded=14368),
    ):
        found = bottleneck(run, setups)
        assert found.startswith("not determined; possible: instance limit of a: bw_")


def test_rate_above_the_ceiling_is_no_cause() -> None:
    """Something else is the bottleneck, here a core."""
    assert bottleneck(result(11.0, hosts=(BUSY_SENDER, BUSY_RECEIVER))).startswith(
        "CPU 2 on b (receiver)"
    )
    assert bottleneck(result(9.55, hosts=(BUSY_SENDER, BUSY_RECEIVER))).startswith(
        "line rate: 101 % of 9.41"
    )
    assert (
        bottleneck(result(11.0))
        .partition("; excluded: ")[2]
        .startswith("line rate (exceeded), steal")
    )


def test_short_run_may_read_late() -> None:
    def of(seconds: float) -> Result:
        return result(flows=(flow(10.35, received=Total(False, False, seconds, 10.35e9)),))

    assert bottleneck(of(1.0)).startswith("line rate: 110 % of 9.41")
    assert "line rate (exceeded)" in bottleneck(of(10.0))


def test_failed_run_has_no_bottleneck() -> None:
    assert (
        bottleneck(
            result(hosts=(BUSY_SENDER, BUSY_RECEIVER), failure=Failure("stall", "no more data"))
        )
        == ""
    )


# ----------------------------------------------------------------------------------- not determined


IDLE = (load("a", send_drops=0), load("b", "server", ring_drops=0, backlog_drops=0))


def test_network_is_possible_if_both_hosts_are_excluded() -> None:
    run = result(flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE)
    assert bottleneck(run, SETUPS) == (
        ALL_EXCLUDED
        + "root qdisc fq_codel of ens4 on a (no rate limit), root qdisc mq of ens5 on b (no rate "
        "limit), line rate (53 % of it), steal (b 0 %, a 0 %), "
        "CPU (hottest on average: b CPU 2 at 50 %, a CPU 2 at 50 %), receive window (full 0 % of the "
        "time), "
        "send buffer (full 0 % of the time), retransmits 0.0023 % (limit 14.7 Gb/s at "
        "rtt 200 µs, MSS 1448: CUBIC, RFC 9438), drops 0 by the NICs and the receive backlog"
    )


def test_retransmits_without_the_size_of_segments_are_said() -> None:
    """iperf3 counts those of a server without a login; its sockets are not read."""
    counted = result(flows=(flow(5.0, retransmits=297),), sockets=(), hosts=IDLE)
    sentence = bottleneck(counted, SETUPS)
    assert "losses (297 retransmits, of how many segments is not known)" in sentence
    assert "not counted" not in sentence


@pytest.mark.parametrize(
    ("change", "possible"),
    [
        ({"sockets": ()}, "TCP windows and buffers (sockets of a not read)"),
        (
            {"sockets": (replace(FULL_CWND, window_limited=None, send_window=None),)},
            "receive window (not counted by this",
        ),
        (
            {"sockets": (replace(FULL_CWND, buffer_limited=None),)},
            "send buffer (not counted by this kernel)",
        ),
        (
            {"sockets": (replace(FULL_CWND, window_limited=0.8),)},
            "receive window (full 80 % of the time, but 4.00 MiB / 200 µs = 168 Gb/s)",
        ),
        ({"flows": (flow(5.0, retransmits=None),)}, "losses (retransmits not counted)"),
        ({"hosts": (IDLE[0], replace(IDLE[1], busy=None))}, "CPUs of b (not measured)"),
        ({"hosts": (IDLE[0], load("b", "server", hottest_busy=0.9))}, "b CPU 2 at 90 %"),
        (
            {"hosts": (IDLE[0], load("b", "server", user=1.0))},
            "a full thread that moves between CPUs of b (threads not read; b CPU 2 at 50 % "
            "on average)",
        ),
        ({"hosts": (load("a", steal=0.4), IDLE[1])}, "steal on a (10 % of its CPU time)"),
    ],
)
def test_unread_and_not_excluded_causes_are_possible(
    change: dict[str, object], possible: str
) -> None:
    sentence = bottleneck(
        replace(result(flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE), **change),  # type: ignore[arg-type]
        SETUPS,
    )
    assert sentence.startswith("not determined; ") and f"; possible: {possible}" in sentence
    assert "between the hosts" not in sentence


@pytest.mark.parametrize("kind", ["tbf", "htb", "netem", "fq"])
@pytest.mark.parametrize("host", ["a", "b"])
def test_limiting_qdisc_is_possible(kind: str, host: str) -> None:
    """The qdisc of the receiver delays the acknowledgements."""
    setups = {
        **SETUPS,
        host: NicSetup(
            1, (SendQueueing("ens4.7", "noqueue"), SendQueueing("ens4", kind, read=False))
        ),
    }
    sentence = bottleneck(result(flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE), setups)
    assert f"; possible: root qdisc {kind} of ens4 on {host}" in sentence
    assert ": tc -s qdisc show dev ens4; excluded: " in sentence
    assert bottleneck(result(flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE)).startswith(
        "not determined; possible: root qdisc of a (not read), root qdisc of b (not read); "
        "excluded: "
    )


@pytest.mark.parametrize(
    ("host", "qdisc", "part"),
    [
        (
            "a",
            Qdisc("tbf", "1:", rate=5_250_000_000),
            "qdisc tbf rate 5.25Gbit of ens4 on a: sends at most 5.25 Gb/s",
        ),
        (
            "a",
            Qdisc("fq", "1:", rate=5_250_000_000, per_flow=True),
            "qdisc fq maxrate 5.25Gbit of ens4 on a: each connection",
        ),
        (
            "a",
            Qdisc("tbf", "1:", rate=9_000_000_000),
            "; possible: qdisc tbf rate 9Gbit of ens4 on a (5.00 Gb/s received)",
        ),
        (
            "a",
            Qdisc("htb", "1:", rate=5_250_000_000, limits_all=False),
            "; possible: qdisc htb ceil 5.25Gbit of ens4",
        ),
        (
            "a",
            Qdisc("netem", "1:", delay=0.02),
            "; possible: qdisc netem delay 20ms of ens4 on a, which delays packets",
        ),
        (
            "b",
            Qdisc("netem", "1:", loss=0.01),
            "; possible: qdisc netem loss 1% of ens4 on b, which drops packets: tc",
        ),
        (
            "b",
            Qdisc("tbf", "1:", rate=100_000_000),
            "; possible: qdisc tbf rate 100Mbit of ens4 on b (carries acknowledgements of 5.00 Gb/s): "
            "tc -s qdisc show",
        ),
    ],
)
def test_qdisc_with_known_parameters(host: str, qdisc: Qdisc, part: str) -> None:
    setups = {**SETUPS, host: NicSetup(1, (SendQueueing("ens4", qdisc.kind, (qdisc,)),))}
    sentence = bottleneck(result(flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE), setups)
    assert part in sentence and (part[0] == ";" or sentence.startswith(part))
    assert (
        "; excluded: " not in sentence
        or "tc -s qdisc show dev ens4" in sentence.partition("; excluded: ")[0]
    )


def test_qdisc_of_the_receiver_is_about_what_it_sends() -> None:
    """Acknowledgements of TCP, nothing of UDP, and in both directions data, too."""
    slow = Qdisc("tbf", "1:", rate=9_000_000_000)
    setups = {**SETUPS, "b": NicSetup(1, (SendQueueing("ens4", "tbf", (slow,)),))}
    limit = "qdisc tbf rate 9Gbit of ens4 on b"
    one_way = result(flows=FEW_RETRANSMITS, hosts=IDLE)
    assert f"{limit} (carries acknowledgements of 5.00 Gb/s)" in bottleneck(one_way, setups)
    udp = replace(one_way, plan=replace(one_way.plan, protocol="udp"))
    assert f"{limit} (carries acknowledgements" not in bottleneck(udp, setups)
    (there,) = one_way.flows
    back = replace(there, sender=there.receiver, receiver=there.sender)
    both = bottleneck(replace(one_way, flows=(there, back)), setups)
    assert f"possible: {limit} (carries 5.00 Gb/s the other way, too): tc -s qdisc" in both


@pytest.mark.parametrize(
    ("host", "qdisc"),
    [
        ("a", Qdisc("tbf", "1:", rate=20_000_000_000)),
        ("b", Qdisc("tbf", "1:", rate=1_000_000_000)),
        ("a", Qdisc("fq", "1:", rate=3_000_000_000, per_flow=True)),
    ],
)
def test_qdisc_limit_far_above_the_rate_is_excluded(host: str, qdisc: Qdisc) -> None:
    """The last one: of four connections together."""
    setups = {**SETUPS, host: NicSetup(1, (SendQueueing("ens4", qdisc.kind, (qdisc,)),))}
    run = result(
        flows=FEW_RETRANSMITS, sockets=(FULL_CWND,), hosts=IDLE, plan=replace(PLAN, streams=4)
    )
    sentence = bottleneck(run, setups)
    assert sentence.startswith(ALL_EXCLUDED) and f"qdisc {qdisc.kind} " in sentence
    plain = {**SETUPS, "a": NicSetup(1, (SendQueueing("ens4", "fq"),))}
    assert bottleneck(run, plain).startswith(
        ALL_EXCLUDED + "root qdisc fq of ens4 on a (no rate limit), "
    )


# --------------------------------------------------------------------------------------------- CPUs


@pytest.mark.parametrize("busy", [1.0, 0.9])
def test_a_full_cpu_of_which_the_threads_are_not_known_is_possible(busy: float) -> None:
    """Another program may have filled it; softirq is work of the run."""
    crowded = load("b", "server", hottest_busy=busy, user=1.9, system=0.2)
    rows = examined_bottleneck(result(hosts=(load("a"), crowded), sockets=(SMALL,)))[1]
    found = {one.limit: (one.verdict, one.value) for one in rows}
    told = f"at {round(100 * busy)} %, by which programs is not known: threads not read"
    verdict, value = found["b CPU 2"]
    assert verdict == "possible" and value.replace(" (softirq 20 %)", "") == told
    assert not any(one.verdict == "cause" for one in rows)


OTHER_THREAD = ThreadLoad("yes", 812, 0.52, (1,))
GENERATOR_THREAD = ThreadLoad("iperf3", 900, 0.46, (1,), True)
FULL_CPU = BusyCpu(1, 1.0, 0.05, 0.5, 0.45, 0.0)


def receiver(*threads: ThreadLoad, full: tuple[BusyCpu, ...] = (FULL_CPU,)) -> Result:
    """A run with the full CPU 1 of the server, or with `full`."""
    busy = load(
        "b", "server", hottest=1, hottest_busy=1.0 if full else 0.5, full=full, threads=threads
    )
    return result(hosts=(load("a", threads=()), busy))


def test_other_process_on_the_receivers_cpu_is_named() -> None:
    assert bottleneck(receiver(OTHER_THREAD, GENERATOR_THREAD)) == (
        "CPU 1 on b (receiver), 100 % (user 50 %, system 45 %, softirq 5.0 %), shared with "
        f"other processes {SEEN}yes (pid 812) 52 %; generator iperf3 (pid 900) 46 %"
    )


def test_shares_beside_a_cpu_are_not_said_to_be_its_load() -> None:
    """99 % and 17 % were written beside a CPU at 84 %."""
    nearly = replace(FULL_CPU, busy=0.84)
    probe = replace(OTHER_THREAD, pid=753, share=0.17, cpus=(0, 1), probe=True)
    sentence = bottleneck(receiver(replace(OTHER_THREAD, share=0.99), probe, full=(nearly,)))
    assert f"b CPU 1 at 84 %; {SEEN}yes (pid 812) 99 %, nictop's probe (pid 753) 17 %" in sentence


def test_a_process_of_several_threads_is_named_once() -> None:
    """iperf3 has a thread for each stream from 3.16 on."""
    threads = [replace(GENERATOR_THREAD, share=share) for share in (0.18, 0.16, 0.12)]
    assert "; generator iperf3 (pid 900) 46 % in 3 threads" in bottleneck(
        receiver(OTHER_THREAD, *threads)
    )
    busy = [replace(OTHER_THREAD, pid=pid, share=share) for pid, share in ((5, 0.3), (6, 0.25))]
    assert f"processes {SEEN}yes (pid 6) 50 % in 2 threads, yes (pid 5) 30 %;" in bottleneck(
        receiver(busy[0], busy[1], busy[1], *threads)
    )


def test_the_probe_of_nictop_is_named() -> None:
    own = replace(OTHER_THREAD, name="python3", probe=True)
    assert f"shared with other processes {SEEN}nictop's probe (pid 812) 52 %;" in bottleneck(
        receiver(own, GENERATOR_THREAD)
    )
    idle = replace(GENERATOR_THREAD, cpus=(3,))
    assert f"most of it not by this test; {SEEN}nictop's probe (pid 812) 100 %" in bottleneck(
        receiver(replace(own, share=1.0), idle)
    )


def test_generator_of_the_other_end_is_named() -> None:
    """The ends are two names of one machine, or two namespaces."""
    other = replace(GENERATOR_THREAD, pid=901, other_end=True, generator=False)
    assert (
        f"shared with other processes {SEEN}iperf3 (pid 901, the other end) 46 %; generator"
        in bottleneck(receiver(GENERATOR_THREAD, other))
    )


def test_cpu_filled_by_the_generator() -> None:
    assert bottleneck(receiver(replace(GENERATOR_THREAD, share=0.94))) == (
        "CPU 1 on b (receiver), 100 % (user 50 %, system 45 %, softirq 5.0 %), generator thread "
        f"{SEEN}iperf3 (pid 900) 94 %"
    )


def test_full_cpu_that_the_run_does_not_use_is_no_cause() -> None:
    """A busy loop on its own CPU does not limit the run."""
    sentence = bottleneck(
        receiver(replace(OTHER_THREAD, share=1.0, cpus=(1,)), replace(GENERATOR_THREAD, cpus=(3,)))
    )
    assert sentence.startswith("not determined")
    told = "(user 50 %, system 45 %, softirq 5.0 %), most of it not by this test"
    assert f"b CPU 1 at 100 % {told}; {SEEN}yes (pid 812) 100" in sentence
    # nor a CPU that the generator hardly uses
    sentence = bottleneck(
        receiver(replace(OTHER_THREAD, share=0.95), replace(GENERATOR_THREAD, share=0.05))
    )
    assert sentence.startswith("not determined")
    assert (
        f"most of it not by this test; {SEEN}yes (pid 812) 95 %, iperf3 (pid 900) 5.0 %" in sentence
    )
    # nor one of which others use most, whatever part the generator got
    sentence = bottleneck(
        receiver(replace(OTHER_THREAD, share=1.0), replace(GENERATOR_THREAD, share=0.2))
    )
    assert f"test; {SEEN}yes (pid 812) 100 %, iperf3 (pid 900) 20 %" in sentence


def test_full_cpu_of_the_generator_is_named_before_others() -> None:
    other = replace(FULL_CPU, cpu=0)
    sentence = bottleneck(
        receiver(
            replace(OTHER_THREAD, cpus=(0,)),
            replace(GENERATOR_THREAD, share=0.95),
            full=(other, FULL_CPU),
        )
    )
    assert sentence.startswith("CPU 1 on b (receiver), 100 % (user 50 %")


def test_softirq_and_other_processes() -> None:
    soft = BusyCpu(1, 1.0, 0.7, 0.25, 0.05, 0.0)
    daemon = ThreadLoad("ksoftirqd/1", 17, 0.6, (1,))
    sentence = bottleneck(receiver(daemon, replace(OTHER_THREAD, share=0.25), full=(soft,)), SETUPS)
    assert (
        sentence
        == f"CPU 1 on b (receiver), 70 % softirq, single queue, also {SEEN}yes (pid 812) 25 %"
    )
    assert bottleneck(receiver(daemon, full=(soft,)), SETUPS).endswith("70 % softirq, single queue")


def test_steal_of_a_full_cpu() -> None:
    stolen = BusyCpu(1, 1.0, 0.1, 0.2, 0.3, 0.4)
    assert bottleneck(receiver(GENERATOR_THREAD, full=(stolen,))).startswith(
        "hypervisor of b: 40 % steal on CPU 1"
    )


def test_full_thread_that_moves_between_cpus() -> None:
    moving = replace(GENERATOR_THREAD, share=0.98, cpus=(3, 1))
    assert bottleneck(receiver(moving, full=())).startswith(
        "thread iperf3 (pid 900) on b (receiver), 98 % of a core, CPUs 1, 3"
    )


def readings(*busy: tuple[float, int]) -> tuple[Busy, ...]:
    """One a second: (share, number) of the hottest CPU."""
    return tuple(
        replace(BUSY, time=time, hottest=cpu, hottest_busy=share)
        for time, (share, cpu) in enumerate(busy, start=1)
    )


IDLE_THREAD = replace(GENERATOR_THREAD, share=0.3, cpus=(0, 2))


@pytest.mark.parametrize(
    "threads", [None, (), (IDLE_THREAD,)], ids=["not read", "none", "not full"]
)
def test_a_cpu_that_was_full_in_some_readings_is_not_excluded_by_its_average(
    threads: tuple[ThreadLoad, ...] | None,
) -> None:
    series = readings((1.0, 0), (0.7, 2), (0.96, 2), (1.0, 0))
    moving = load("a", hottest=2, hottest_busy=0.78, series=series, threads=threads)
    run = result(hosts=(moving, load("b", "server", threads=())), plan=replace(PLAN, time=10))
    rows = {(one.limit, one.value, one.verdict) for one in examined_bottleneck(run, SETUPS)[1]}
    value = "a CPU was full in 3 of 4 readings: CPU 0, CPU 2; a CPU 2 at 78 % on average"
    assert ("a full thread that moves between CPUs of a", value, "possible") in rows
    assert ("other CPUs", "hottest on average: b CPU 2 at 50 %", "excluded") in rows
    # one CPU alone: nothing has moved
    alone = replace(moving, series=readings((1.0, 0), (0.7, 2), (1.0, 0)), threads=threads)
    one_cpu = {
        one.limit
        for one in examined_bottleneck(replace(run, hosts=(alone, run.hosts[1])), SETUPS)[1]
    }
    assert "a CPU 0 at times" in one_cpu and not any("moves" in limit for limit in one_cpu)
    # readings outside of the measured seconds are of something else, as is a CPU that is not full
    early = (
        replace(series[0], time=0.1),
        replace(series[0], time=11.0),
        replace(series[0], hottest_busy=0.9),
    )
    quiet = replace(run, hosts=(replace(moving, series=early, threads=()), run.hosts[1]))
    assert "moves between CPUs" not in bottleneck(quiet, SETUPS)


def test_a_process_whose_threads_were_not_read_may_have_a_full_one() -> None:
    process = replace(GENERATOR_THREAD, share=1.4, cpus=())
    sentence = bottleneck(receiver(process, full=()))
    assert (
        "moves between CPUs of b (b CPU 1 at 50 % on average; threads of iperf3 (pid 900) not "
        "read, 140 %" not in sentence
    )
    busy = replace(load("b", "server", threads=(process,)), busy=replace(BUSY, user=1.2))
    sentence = bottleneck(result(hosts=(load("a", threads=()), busy)))
    assert "moves between CPUs of b (threads of iperf3 (pid 900) not read, 140 % of" in sentence


def test_a_hypervisor_with_a_full_cpu_in_some_readings_is_not_excluded() -> None:
    host = load("lab", "observer", machines=MACHINES, series=readings((0.5, 1), (0.99, 3)))
    run = result(hosts=(load("a"), load("b", "server"), host))
    possible = (
        "a CPU of hypervisor lab (lab CPU 2 at 50 % on average; a CPU was full in 1 of 2 "
        "readings: CPU 3)"
    )
    sentence = bottleneck(run)
    assert possible in sentence and "hypervisor CPU (" not in sentence


def test_other_processes_on_all_cpus_are_named() -> None:
    busy = load(
        "b",
        "server",
        threads=(OTHER_THREAD, replace(GENERATOR_THREAD, share=0.8, cpus=())),
        **TWO_CORES,
    )
    assert bottleneck(result(hosts=(load("a"), busy))) == (
        "all CPUs of b: 1.83 of 2 cores busy, CPU 1 at 92 %; other processes (in % of one "
        "CPU): yes (pid 812) 52 %"
    )
    little = (OTHER_THREAD, replace(GENERATOR_THREAD, share=0.03))
    idle = load("b", "server", threads=little, **{**TWO_CORES, "user": 1.5, "softirq": 0.01})
    sentence = bottleneck(result(hosts=(load("a"), idle)))
    assert sentence.startswith("not determined") and ", most of it not by this test" in sentence


# -------------------------------------------------------------------------------------- hypervisors


def test_busy_hypervisor_is_named_before_losses() -> None:
    host = load("lab", "observer", machines=MACHINES, **TWO_CORES)
    run = result(
        hosts=(load("a"), load("b", "server"), host), flows=MANY_RETRANSMITS, sockets=(FULL_CWND,)
    )
    assert bottleneck(run) == (
        "hypervisor lab: 1.83 of 2 cores busy, CPU 1 at 92 %; most for vm1 0.95 (vhost 0.11), "
        "vm2 0.80; 0.02 % of segments retransmitted"
    )
    # the same host with two more cores is not full
    roomy = load("lab", "observer", machines=MACHINES, **{**TWO_CORES, "cores": 4})
    run = replace(run, hosts=(*run.hosts[:2], roomy))
    assert bottleneck(run).startswith("packet loss: retransmits 0.02 %")


def test_full_core_of_a_hypervisor_with_a_virtual_machine() -> None:
    host = load("lab", "observer", machines=MACHINES, cores=64, hottest=1, hottest_busy=0.99)
    run = result(hosts=(load("a"), load("b", "server"), host))
    assert bottleneck(run).startswith("hypervisor lab: 0.60 of 64 cores busy, CPU 1 at 99 %")
    elsewhere = replace(host, machines=MACHINES[1:])
    sentence = bottleneck(replace(run, hosts=(*run.hosts[:2], elsewhere)))
    assert (
        sentence.startswith("not determined")
        and "a CPU of hypervisor lab (lab CPU 1 at 99 % on average, not known to be of virtual "
        "machines)"
        in sentence
    )


def test_busy_observer_without_virtual_machines_is_ignored() -> None:
    host = load("build", "observer", **TWO_CORES)
    assert bottleneck(result(hosts=(load("a"), load("b", "server"), host))).startswith(
        "not determined"
    )


def test_end_with_all_cpus_busy() -> None:
    threads = (replace(GENERATOR_THREAD, share=0.7, cpus=()),)
    busy = load("b", "server", threads=threads, **TWO_CORES)
    full = "all CPUs of b: 1.83 of 2 cores busy, CPU 1 at 92 %"
    assert bottleneck(result(hosts=(load("a"), busy))) == full
    unknown = bottleneck(result(hosts=(load("a"), replace(busy, threads=None))))
    assert unknown.startswith("not determined")
    assert f"{full}, by which programs is not known: threads not read" in unknown
    assert bottleneck(
        result(hosts=(load("a"), load("b", "server", **{**TWO_CORES, "user": 1.1})))
    ).startswith("not d")


def test_a_hypervisor_that_others_fill_is_no_cause() -> None:
    few = (Machine("vm1", 0.05, None, (1,)),)
    host = load("lab", "observer", machines=few, **TWO_CORES)
    sentence = bottleneck(result(hosts=(load("a"), load("b", "server"), host)))
    assert sentence.startswith("not determined") and "a CPU of hypervisor lab" in sentence


# ------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize(
    ("lost", "standard", "cubic"),
    [(1e-2, 12, 12), (1e-4, 122, 187), (1e-5, 387, 1054), (1e-6, 1225, 5927)],
)
def test_mean_windows_with_losses(lost: float, standard: int, cubic: int) -> None:
    """Segments at 100 ms: 1.22 / √p, and table 1 of RFC 8312 with C = 0.4."""
    for control, window in (("reno", standard), ("cubic", cubic)):
        found = reachable_rate(control, 1000, 0.1, lost)
        assert found is not None and found[0] == pytest.approx(8 * 1000 / 0.1 * window, rel=0.03)
    assert reachable_rate("vegas", 1000, 0.1, lost) is None
    four = reachable_rate("reno", 1000, 0.1, lost, 4)
    assert four is not None and four[0] == pytest.approx(4 * 8 * 1000 / 0.1 * standard, rel=0.03)


def bottleneck_with_losses(
    retransmits: int, setups: dict[str, NicSetup] = SETUPS, **more: object
) -> str:
    """The bottleneck with that many retransmits of 4.3 million segments, at 5 Gb/s."""
    run = result(flows=(flow(5.0, retransmits=retransmits),), hosts=IDLE, sockets=(FULL_CWND,))
    return bottleneck(replace(run, **more), setups)  # type: ignore[arg-type]


def test_losses_explain_the_rate() -> None:
    assert bottleneck_with_losses(850) == (
        "packet loss: retransmits 0.02 %, limit 5.06 Gb/s at rtt 200 µs, MSS 1448: CUBIC, "
        "RFC 9438; measured 5.00 Gb/s; cwnd 90 segments"
    )
    assert "Mathis" in bottleneck_with_losses(
        850, sockets=(replace(FULL_CWND, congestion_control="reno"),)
    )


def test_losses_in_a_tunnel_name_its_checksum_offload() -> None:
    """projectcalico/calico#11435: 200 Mb/s instead of 9 Gb/s. Not if a host counted drops, or
    without retransmits."""
    setups = {**SETUPS, "a": replace(SETUPS["a"], offloaded_tunnel="vxlan.calico")}
    hint = (
        "possible: checksum offload of the tunnel, try on a: ethtool -K vxlan.calico "
        "tx-checksum-ip-generic off"
    )
    assert bottleneck_with_losses(850, setups).endswith(f"; {hint}")
    assert hint not in bottleneck_with_losses(850)
    assert hint not in bottleneck_with_losses(0, setups)
    assert hint not in bottleneck_with_losses(
        850, setups, hosts=(IDLE[0], replace(IDLE[1], ring_drops=400))
    )


def test_few_losses_are_no_cause() -> None:
    """0.015 % at a round trip of 100 µs: a much higher rate is reachable."""
    sentence = bottleneck_with_losses(650, sockets=(replace(FULL_CWND, rtt=100),))
    assert "retransmits 0.015 % (limit 11.6 Gb/s at" in sentence and sentence.startswith(
        ALL_EXCLUDED
    )


def test_losses_whose_limit_is_below_the_rate_are_only_counted() -> None:
    """Independent losses would allow 1.87 of the measured 5 Gb/s."""
    sentence = bottleneck_with_losses(6250)
    assert sentence.startswith(ALL_EXCLUDED.partition(";")[0]) and "limit 1.87" not in sentence
    assert ", losses (0.14 % of segments retransmitted); excluded: " in sentence
    dropping = bottleneck_with_losses(6250, hosts=(IDLE[0], replace(IDLE[1], ring_drops=400)))
    assert dropping.startswith(
        "not determined; possible: drops: 400 received by the NIC of b, losses ("
    )


def test_a_limit_by_losses_that_was_exceeded_is_no_cause() -> None:
    """4.44 Gb/s of the measured 5 Gb/s: nothing but the share is known of the losses. If a counter
    says where they were lost, that is the cause, without that limit."""
    sentence = bottleneck_with_losses(1100)
    assert sentence.startswith("not determined; possible: network between the hosts, ")
    assert ", losses (0.025 % of segments retransmitted); excluded: " in sentence
    assert "4.44" not in sentence and "packet loss" not in sentence
    counted = bottleneck_with_losses(1100, hosts=(IDLE[0], replace(IDLE[1], ring_drops=900)))
    assert counted == "RX ring of b: 900 packets dropped: retransmits 0.025 %"


def carried(host: str, received: float, sent: float) -> HostProof:
    own = Carried(End(host, 4), "ens4", "chosen", received, sent)
    return HostProof(host, "proven", "physical", "", (own,))


BYTES = 4_235_553.0
SLOW_FLOW = Flow("a", "b", None, Total(False, False, 11.5, 2.82e6, 4_063_232.0), (), 6)
SLOW_RUN: dict[str, object] = {
    "flows": (SLOW_FLOW,),
    "sockets": (SocketFigures("a", 188_692, 1448, 69, 0.0, 0.0, "cubic", 633_920),),
    "ceiling": None,
}
"""Two guests of a slow machine: 0.21 % of the segments were retransmitted."""


def both_nics(sent: float, received: float, *, foreign: bool = False) -> PathProof:
    ends = (carried("a", 41_997.0, sent), carried("b", received, 41_997.0))
    return PathProof("proven", "", (ends[0], replace(ends[1], foreign=foreign)))


def slow_run(**change: object) -> Result:
    known: dict[str, object] = {"hosts": IDLE, "proof": both_nics(BYTES, BYTES), **SLOW_RUN}
    return replace(result(), **{**known, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("retransmits", [6, 1182])
def test_retransmits_of_segments_that_were_not_lost_are_spurious(retransmits: int) -> None:
    """The receiver's NIC received all bytes of the sender's NIC, and neither host dropped any."""
    run = slow_run(flows=(replace(SLOW_FLOW, retransmits=retransmits),))
    sentence, limits = examined_bottleneck(run, SETUPS)
    (row,) = (one for one in limits if one.limit == "packet loss")
    share = {6: "0.21 %", 1182: "30 %"}[retransmits]
    assert (row.value, row.verdict) == (
        f"retransmits {share}, probably spurious: ens4 of a sent 4.04 MiB, ens4 of b received "
        "4.04 MiB, no drops",
        "excluded",
    )
    assert sentence.startswith(ALL_EXCLUDED)


@pytest.mark.parametrize(
    "change",
    [
        {"proof": both_nics(BYTES, BYTES - 6 * 1514)},
        {"proof": both_nics(BYTES, BYTES * 1.03)},
        {"proof": both_nics(BYTES, BYTES, foreign=True)},
        {"proof": PROVEN},
        {"hosts": (IDLE[0], replace(IDLE[1], ring_drops=3))},
        {"hosts": (IDLE[0], replace(IDLE[1], ring_drops=None))},
        {"losses": (CountedLoss("b", "protocol", "TcpExt TCPBacklogDrop", 6),)},
    ],
    ids=[
        "lost",
        "headers counted once",
        "other traffic",
        "not counted",
        "dropped",
        "drops not counted",
        "in the socket",
    ],
)
def test_retransmits_are_not_called_spurious_without_evidence(change: dict[str, object]) -> None:
    assert "spurious" in bottleneck(slow_run(), SETUPS)
    assert "spurious" not in bottleneck(slow_run(**change), SETUPS)


def test_many_retransmits_without_drops() -> None:
    """No drop is no evidence for losses."""
    _, limits = examined_bottleneck(replace(many_lost(0.03), hosts=IDLE), SETUPS)
    verdicts = {one.limit: one.verdict for one in limits}
    assert verdicts["packet loss"] == "possible" and verdicts["drops"] == "excluded"


def test_excluded_limits_have_a_value() -> None:
    limiting = Qdisc("tbf", "1:", rate=20_000_000_000)
    setups = {
        "a": NicSetup(1, (SendQueueing("ens4", "tbf", (limiting,)),)),
        "b": NicSetup(1, (SendQueueing("ens5", "mq"), SendQueueing("br0", "tbf", (limiting,)))),
    }
    _, limits = examined_bottleneck(result(hosts=IDLE, sockets=(FULL_CWND,)), setups)
    excluded = [one for one in limits if one.verdict == "excluded"]
    assert len(excluded) > 5 and all(one.value for one in excluded)


def test_limit_below_the_rate_is_not_shown() -> None:
    slightly_smaller = replace(FULL_WINDOW, send_window=12_000_000)
    assert bottleneck_with_losses(0, sockets=(slightly_smaller,)) == (
        "receive window: full 80 % of the time, rtt 20.0 ms"
    )
    small = replace(FULL_CWND, window_limited=0.8, send_window=10_000)
    sentence = bottleneck_with_losses(0, sockets=(small,))
    assert sentence.startswith("not determined; possible: receive window (full 80 % of the time); ")
    sentence = bottleneck_with_losses(0, sockets=(replace(small, window_limited=None),))
    assert sentence.startswith(
        "not determined; possible: receive window (not counted by this kernel); "
    )


@pytest.mark.parametrize(
    ("figures", "retransmits", "phrase", "excluded"),
    [
        (
            FREE_CWND,
            850,
            "retransmits 0.02 % (the congestion window was not what limited it: 4000 segments, "
            "not full)",
            True,
        ),
        (BBR, 6250, "retransmits 0.14 % (BBR does not slow down below 2 %)", True),
        (replace(BBR, congestion_control="bbr3"), 6250, "retransmits 0.14 % (BBR does not", True),
        (BBR, 100_000, "retransmits 2.3 % (BBR may slow down above 2 %)", False),
        (
            replace(FULL_CWND, congestion_control="vegas"),
            850,
            "retransmits 0.02 % (limit of vegas with",
            False,
        ),
        (
            replace(FULL_CWND, rtt=None),
            850,
            "retransmits 0.02 % (rtt and congestion control not read)",
            False,
        ),
    ],
)
def test_excluded_and_possible_losses(
    figures: SocketFigures, retransmits: int, phrase: str, excluded: bool
) -> None:
    sentence = bottleneck_with_losses(retransmits, sockets=(figures,))
    before, _, after = sentence.partition("excluded: ")
    assert sentence.startswith("not determined") and phrase in (after if excluded else before)


def test_losses_with_a_shaper_are_possible() -> None:
    sentence = bottleneck_with_losses(
        850, {**SETUPS, "a": NicSetup(None, (SendQueueing("ens4", "tbf"),))}
    )
    assert (
        sentence.startswith("not determined; ") and ", packet loss: retransmits 0.02 %" in sentence
    )
    assert "root qdisc tbf of ens4 on a, which may limit" in sentence


def test_losses_within_one_machine_are_possible() -> None:
    sentence = bottleneck_with_losses(1100, proof=LOCAL)
    assert (
        sentence.startswith("not determined")
        and "; possible: retransmits 0.025 %; excluded" in sentence
    )
    assert bottleneck_with_losses(0, proof=LOCAL).startswith(
        "not determined; possible: both ends share this machine; excluded: "
    )


def test_retransmits_are_added_to_another_cause() -> None:
    sentence = bottleneck(
        result(flows=MANY_RETRANSMITS, sockets=(FULL_CWND,), hosts=(BUSY_SENDER, BUSY_RECEIVER))
    )
    assert sentence.startswith("CPU 2 on ") and sentence.endswith(
        "; 0.02 % of segments retransmitted"
    )
    assert "retransmitted" not in bottleneck(
        result(sockets=(FULL_CWND,), hosts=(BUSY_SENDER, BUSY_RECEIVER))
    )


def test_drops_without_losses_are_excluded() -> None:
    sentence = bottleneck(result(hosts=(load("a"), load("b", "server", ring_drops=40))))
    assert (
        sentence.startswith("not determined") and "drops: 40 received by the NIC of b" in sentence
    )


@pytest.mark.parametrize(
    ("sent", "received", "where"),
    [
        (
            6.5e9,
            5.2e9,
            ", lost before the NIC of b counted them (ens4 sent 6.05 GiB, ens4 received 4.84 GiB)",
        ),
        (
            6.5e9,
            6.5e9,
            ", dropped on b after the NIC (ens4 sent 6.05 GiB, ens4 received 6.05 GiB); see "
            "nstat -az UdpRcvbufErrors",
        ),
        (5.2e9, 5.2e9, ", dropped on a before the NIC"),
    ],
)
def test_location_of_lost_datagrams(sent: float, received: float, where: str) -> None:
    """A fifth of 6.25 GB is lost."""
    total = Total(True, True, 10.0, 5e9, 6.25e9)
    proof = PathProof("proven", "", (carried("a", 0.0, sent), carried("b", received, 0.0)))
    sentence = bottleneck(
        result(flows=(flow(4.0, sent=total, received=LOST_DATAGRAMS),), plan=UDP, proof=proof)
    )
    assert sentence.startswith(f"lost datagrams: 20 % of the 5.00 Gb/s that a sent{where}")

    def counted(ring_drops: int) -> str:
        lossy = flow(4.0, sent=total, received=LOST_DATAGRAMS)
        ends = (load("a"), load("b", "server", ring_drops=ring_drops))
        return bottleneck(result(flows=(lossy,), plan=UDP, proof=proof, hosts=ends))

    between = where.replace("before the NIC of b counted them", "between the NICs")
    assert f"that a sent{between}" in counted(0), "its NIC counts what it drops, and dropped none"
    assert counted(200).endswith(", dropped by the NIC of b (200 packets no free descriptor)")


# ------------------------------------------------------------------------------------------ packets


def test_number_of_small_segments_is_the_cost() -> None:
    """1.408 Gb/s in segments of 88 bytes are two million per second."""
    run = result(1.408, sockets=(SMALL,), hosts=(BUSY_SENDER, BUSY_RECEIVER), ceiling=SLOW_CEILING)
    assert bottleneck(run, SETUPS) == (
        "CPU 2 on b (receiver), 98 % softirq, single queue, at 2.00 Mpps of 88 B each, limited by "
        "packet rate"
    )
    assert "pps" not in bottleneck(replace(run, sockets=(FULL_CWND,)))
    idle = bottleneck(replace(run, hosts=(load("a"), load("b", "server"))))
    assert "not determined (2.00 Mpps of 88 B each, limited by packet rate); possible: " in idle
    # sockets were not read: the requested MSS
    assert "1.76 Mpps of 100 B" in bottleneck(replace(run, sockets=(), plan=replace(PLAN, mss=100)))


def test_datagrams_have_a_packet_rate() -> None:
    run = result(
        1.0,
        plan=replace(PLAN, protocol="udp", length=1250),
        hosts=(BUSY_SENDER, load("b", "server")),
    )
    assert bottleneck(run).endswith("iperf3 (pid 900) 90 %, at 100 kpps of 1250 B each")
    small = replace(run, plan=replace(run.plan, length=125))
    assert bottleneck(small).endswith("1.00 Mpps of 125 B each, limited by packet rate")


# -------------------------------------------------------------------------------------------- texts


def test_run_without_goodput_has_no_bottleneck() -> None:
    assert bottleneck(result(flows=())) == ""


def test_names_of_machines_are_escaped() -> None:
    hostile = load("b\x1b[2J", "server", hottest_busy=0.99, hottest_softirq=0.9)
    run = result(hosts=(hostile,), flows=(flow(5.0, receiver="b\x1b[2J"),))
    assert "\x1b" not in bottleneck(run)
    host = load("lab\x1b[2J", "observer", machines=(Machine("vm\x1b[1m", 1.0, None),), **TWO_CORES)
    sentence = bottleneck(result(hosts=(host,)))
    assert "vm" in sentence and "\x1b" not in sentence


NOTHING = Total(False, False, 10.0, 0.0, bytes=0)


def test_a_direction_in_which_nothing_arrived() -> None:
    lost = replace(flow(5.0, received=NOTHING), sent=Total(True, True, 10.0, 8e6, bytes=10_485_760))
    assert bottleneck(result(flows=(lost,), plan=UDP)) == (
        "nothing arrived from a to b; all 10.0 MiB that were sent are lost"
    )
    assert bottleneck(result(flows=(lost,))) == "nothing arrived from a to b; written: 10.0 MiB"
    silent = replace(lost, sent=None)
    both = replace(silent, sender="b", receiver="a")
    assert bottleneck(result(flows=(silent, both))) == "nothing arrived from a to b and from b to a"


def test_nothing_arrived_because_its_packets_are_too_large() -> None:
    """The path test before it has found the size."""
    lost = replace(flow(5.0, received=NOTHING), sent=Total(True, True, 10.0, 8e6, bytes=10_485_760))
    tested = path_test(BLACK_HOLE, largest=1404)
    assert bottleneck(result(flows=(lost,), plan=replace(UDP, length=1440), path_test=tested)) == (
        "nothing arrived from a to b; all 10.0 MiB that were sent are lost; path test: MTU black "
        "hole to b: packets above 1400 bytes are lost (MTU of this NIC: 1500); those of this run "
        "have 1468 bytes"
    )
    small = bottleneck(result(flows=(lost,), plan=replace(UDP, length=1000), path_test=tested))
    assert "path test" not in small
    back = replace(lost, sender="b", receiver="a")
    assert "path test" not in bottleneck(result(flows=(back,), plan=UDP, path_test=tested))


def test_the_other_direction_does_not_hide_it() -> None:
    lost = replace(flow(5.0, received=NOTHING), sender="b", receiver="a", sent=None)
    assert bottleneck(result(flows=(flow(9.4), lost))) == "nothing arrived from b to a"


def many_lost(share: float) -> Result:
    """A TCP run that retransmits that share of its segments, with a congestion window that is not
    full."""
    segments = 5e9 * 10 / 8 / 1448
    flows = (flow(5.0, retransmits=round(segments * share / (1 - share))),)
    return result(flows=flows, sockets=(replace(FREE_CWND, rtt=100),))


def test_formulas_exclude_nothing_above_their_range() -> None:
    """36 % loss was excluded, because a formula without timeouts gives a high rate at a short round
    trip."""
    found = bottleneck(many_lost(0.36), SETUPS)
    excluded = found.partition("; excluded: ")[2]
    assert (
        "retransmits" not in excluded
        and "packet loss: retransmits 36 %, TCP waits for timeouts" in found
    )
    assert "retransmits 1 % (" in bottleneck(many_lost(0.01), SETUPS).partition("; excluded: ")[2]


@pytest.mark.parametrize("control", ["cubic", "bbr", "dctcp"])
def test_counter_says_where_packets_were_lost(control: str) -> None:
    """The tc filters at ingress of the receiver: an ingress policer is named before the network."""
    run = many_lost(0.36)
    lost = run.flows[0].retransmits or 0
    policer = CountedLoss("b", "qdisc", "ingress", lost, "ens5", "ffff:")
    sockets = (replace(run.sockets[0], congestion_control=control),)
    found = bottleneck(replace(run, losses=(policer,), sockets=sockets), SETUPS)
    assert (
        found.startswith("b: ") and "dropped by the tc filters of ens5: retransmits 36 %" in found
    )
    for other in (replace(policer, on_path=False), replace(policer, count=lost // 3)):
        unnamed = bottleneck(replace(run, losses=(other,), sockets=sockets), SETUPS)
        assert unnamed.startswith("not determined") and "tc filters" not in unnamed


def test_lost_datagrams_are_attributed() -> None:
    run = result(flows=(flow(5.0, received=LOST_DATAGRAMS),), plan=UDP)
    full = CountedLoss("b", "protocol", "Udp RcvbufErrors", 190)
    assert "b: 190 datagrams for a full socket buffer" in bottleneck(
        replace(run, losses=(full,)), SETUPS
    )


def test_cgroup_that_waits_for_its_cpu_limit() -> None:
    waits = (CountedLoss("a", "cgroup", "throttled_usec", 4_000_000, where="/user.slice"),)
    found = bottleneck(replace(result(), losses=waits), SETUPS)
    assert found.startswith(
        "CPU limit of cgroup /user.slice on a: its threads waited 4.00 s (cpu.max), in a run of 10 s"
    )
    little = (replace(waits[0], count=200_000),)
    assert "possible: CPU limit of cgroup /user.slice" in bottleneck(
        replace(result(), losses=little), SETUPS
    )
    assert "cgroup" not in bottleneck(
        replace(result(), losses=(replace(waits[0], count=3000),)), SETUPS
    )


def test_run_in_which_nothing_arrived_says_what_was_counted() -> None:
    none = Total(False, False, 10.0, 0.0, packets=0, lost=0)
    fragments = (
        CountedLoss("b", "protocol", "Ip ReasmReqds", 157),
        CountedLoss("b", "softnet", "dropped", 3),
    )
    run = replace(result(flows=(flow(0.0, received=none),), plan=UDP), losses=fragments)
    assert not run.has_carried and bottleneck(run, SETUPS) == (
        "nothing arrived from a to b; b received 157 fragments and not one complete packet: other "
        "fragments are "
        "dropped, on the way or by a filter of b; b: 3 packets for a full backlog "
        "(net.core.netdev_max_backlog)"
    )
    unknown = replace(result(), flows=(Flow("a", "b", None, None),))
    assert not unknown.has_carried, (
        "no total and no interval: it is not known that anything arrived"
    )


# -------------------------------------------------------------------------------- ports with VFs

SHARED = PortLoad("a", "kvm1", "ens1f0", "eth-mac", 1e9, 9.6e9, 1.1e9, 9.9e9, 10_000)
"""The sender of the run is a guest with a VF of this port, which sends 99 % of 10 Gb/s."""


def test_a_port_that_other_vfs_fill_is_the_cause() -> None:
    sentence = bottleneck(result(2.0, ports=(SHARED,)), SETUPS)
    assert sentence == (
        "port ens1f0 of kvm1: 9.60 Gb/s with its VFs, 99 % of 10 GbE; goodput of this test "
        "2.00 Gb/s"
    )


def test_the_other_direction_of_a_port_does_not_limit() -> None:
    received = replace(SHARED, end="b")
    sentence = bottleneck(result(2.0, ports=(received,)), SETUPS)
    assert "port ens1f0 of kvm1 (1.00 Gb/s with its VFs, 11 % of 10 GbE)" in sentence
    assert sentence.startswith("not determined")


def test_a_port_that_is_not_counted_is_not_excluded() -> None:
    why = "not known, because the driver qede gives no port counters"
    sentence = bottleneck(result(2.0, ports=(PortLoad("a", "a", "eno1", unknown=why),)), SETUPS)
    possible = sentence.partition("excluded:")[0]
    assert f"port eno1 of a with its VFs ({why})" in possible


def test_a_run_that_fills_the_wire_alone_does_not_name_others() -> None:
    sentence = bottleneck(result(9.4, ports=(SHARED,)), SETUPS)
    assert sentence.startswith("line rate") and "ens1f0" not in sentence


# --------------------------------------------------------------------- both ends on one machine


def namespaces(*, full: float, filled_by: str = "iperf3") -> tuple[HostLoad, HostLoad]:
    """Two network namespaces: each end reads the same CPUs and the same processes."""
    both = []
    for host, role, own, other in (("a", "client", 900, 901), ("b", "server", 901, 900)):
        threads: tuple[ThreadLoad, ...] = (
            ThreadLoad("iperf3", own, 0.45, (1,), generator=True),
            ThreadLoad("iperf3", other, 0.5, (1,), other_end=True),
            ThreadLoad("stress", 70, 0.3, (0,)),
        )
        if filled_by == "stress":
            threads = (ThreadLoad("stress", 70, 0.99, (1,)),)
        made = load(host, role, **TWO_CORES)
        cpu = BusyCpu(1, full, 0.02, 0.4, 0.5, 0.0)
        both.append(replace(made, full=(cpu,), threads=threads))
    return both[0], replace(both[1], machine_of="a")


@pytest.mark.parametrize("proof", [None, LOCAL], ids=["by its boot id", "by the path proof"])
def test_one_machine_is_one_row_of_cpus(proof: PathProof | None) -> None:
    """What both ends of the run use of its CPUs is used by the run."""
    ends = namespaces(full=0.98)
    if proof is not None:
        ends = (ends[0], replace(ends[1], machine_of=""))
    sentence, rows = examined_bottleneck(result(hosts=ends, proof=proof, sockets=(FREE_CWND,)))
    assert sentence.startswith(
        "CPU 1 on a and b (one machine), 98 % (system 50 %, user 40 %, softirq 2.0 %), generator "
        f"thread {SEEN}iperf3 (pid 9"
    )
    of_cpus = [row for row in rows if "CPU" in row.limit]
    assert [row.verdict for row in of_cpus] == ["cause", "possible"]
    assert of_cpus[1].limit == "all CPUs of a and b"
    assert not any("other end" in row.value or "not by this" in row.value for row in rows)
    assert of_cpus[1].value.count("iperf3") == 0 and "stress (pid 70)" in of_cpus[1].value
    assert [row.value for row in rows if row.limit == "steal"] == ["a and b 0 %"]


def test_a_cpu_of_one_machine_that_others_fill_is_named_once() -> None:
    hosts = namespaces(full=0.99, filled_by="stress")
    rows = examined_bottleneck(result(hosts=hosts, sockets=(FREE_CWND,)))[1]
    of_cpus = [row.limit for row in rows if "CPU 1" in row.limit]
    assert of_cpus == ["a and b CPU 1"]


def test_generators_with_a_pid_of_two_pid_namespaces_are_two_processes() -> None:
    first, second = namespaces(full=0.98)
    thread = ThreadLoad("iperf3", 12, 0.4, (1,), generator=True)
    made = result(hosts=(replace(first, threads=(thread,)), replace(second, threads=(thread,))))
    (both,) = loads_of_machines(made)
    assert both.threads == (thread, thread)


def test_an_observer_of_the_same_machine_adds_no_cpus() -> None:
    ends = namespaces(full=0.98)
    observer = replace(load("switch", "observer"), machine_of="a")
    hosts = [one.host for one in loads_of_machines(result(hosts=(*ends, observer)))]
    assert hosts == ["a and b"]
