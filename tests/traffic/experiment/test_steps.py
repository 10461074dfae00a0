"""A request becomes runs in an order that treats all values alike, or every reason why that is
impossible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.errors import NictopError
from nictop.probe.records import TrafficTools
from nictop.traffic.experiment.steps import Experiment, experiment_of
from nictop.traffic.plan.request import RunRequest, parse_values
from tests.traffic.machines import between, machine, nic, two
from tests.traffic.plans import tools

REQUEST = RunRequest("a", "b", client_nic="ens3", time=3, rest=1.0)
TOOLS = {"a": tools(), "b": tools()}


def experiment(**more: object) -> Experiment:
    return experiment_of(replace(REQUEST, **more), *two(queues=2), TOOLS)  # type: ignore[arg-type]


def test_single_run() -> None:
    one = experiment(observers=("b", "a"), label="first")
    assert (one.kind, one.variable, one.label, one.hosts, one.notes) == (
        "run",
        "",
        "first",
        ("a", "b"),
        (),
    )
    (step,) = one.steps
    assert (step.label, step.group, step.change, step.plan.generator) == ("", "", "", "iperf3")


def test_missing_observer_does_not_prevent_the_run() -> None:
    one = experiment(observers=("z",))
    assert (one.hosts, one.notes) == (("a", "b"), ("z is not connected, not monitored",))


def test_repeats_are_numbered_and_have_an_estimated_duration() -> None:
    one = experiment(repeat=3, omit=1)
    assert (one.kind, [step.label for step in one.steps]) == (
        "repeat",
        ["1 of 3", "2 of 3", "3 of 3"],
    )
    # three runs of 4 s, their overhead, and two pauses
    assert 3 * 4 + 2 * 1.0 < one.seconds < 3 * 4 + 2 * 1.0 + 3 * 4
    assert one.seconds > one.seconds_from(2) > one.seconds_from(3) > 4


def test_comparison_alternates() -> None:
    one = experiment(compare=parse_values("mss=default,100"), repeat=3)
    assert one.kind == "compare"
    assert [step.group for step in one.steps] == ["A", "B", "B", "A", "A", "B"]
    assert [step.plan.mss for step in one.steps] == [None, 100, 100, None, None, 100]
    assert one.steps[1].label == "B: MSS 100, 1 of 3"
    assert one.notes == ()
    assert "needs 3 runs" in experiment(compare=parse_values("mss=default,100")).notes[0]


def test_sweep_alternates_forwards_and_backwards() -> None:
    one = experiment(sweep=parse_values("length=512,4K,128K"), repeat=2)
    assert [step.value for step in one.steps] == ["512", "4K", "128K", "128K", "4K", "512"]
    assert [step.group for step in one.steps] == [step.value for step in one.steps]
    assert one.steps[3].label == "block size 128K, 2 of 2"


def test_all_runs_of_a_sweep_use_one_generator() -> None:
    one = experiment(sweep=parse_values("length=512,8M"))
    assert {step.plan.generator for step in one.steps} == {"builtin"}
    assert "built-in generator used" in one.notes[0]
    with pytest.raises(NictopError, match=r"block size .* not 8388608 \(length 8M\)"):
        experiment(sweep=parse_values("length=512,8M"), generator="iperf3")
    comparison = experiment(compare=parse_values("generator=iperf3,builtin"))
    assert [step.plan.generator for step in comparison.steps] == ["iperf3", "builtin"]


def test_nics_are_compared_by_name() -> None:
    one = experiment_of(
        replace(REQUEST, client_nic="", compare=("nic", ("ens3", "ens4"))), *two(), TOOLS
    )
    assert [(step.plan.client.ifindex, step.plan.server.ifindex) for step in one.steps] == [
        (3, 5),
        (4, 6),
    ]
    three = between(
        machine("a", nic(3, "ens3", "192.0.2.1"), nic(4, "ens4", "192.0.2.3")),
        machine("b", nic(5, "x", "192.0.2.2")),
    )
    one = experiment_of(
        replace(REQUEST, client_nic="", sweep=("nic", ("ens4/x", "ens3"))), *three, TOOLS
    )
    assert [step.plan.client.address for step in one.steps] == ["192.0.2.3", "192.0.2.1"]
    with pytest.raises(NictopError, match='neither a nor b has a NIC "ens9"'):
        experiment_of(replace(REQUEST, client_nic="", sweep=("nic", ("ens9",))), *three, TOOLS)


def test_hint_for_a_host_without_iperf3() -> None:
    with pytest.raises(
        NictopError, match=r"^not supported: b: iperf3 is not installed$"
    ) as refused:
        experiment_of(replace(REQUEST, generator="iperf3"), *two(), {**TOOLS, "b": TrafficTools()})
    assert refused.value.hint == "--generator builtin needs no installation"
    with pytest.raises(NictopError, match="CPU 4000 not available") as other:
        experiment(generator="iperf3", client_cpu=4000)
    assert other.value.hint == ""


def test_manual_variable_is_a_change_before_every_step() -> None:
    one = experiment(
        client_nic="ens4", compare=parse_values("queues=1,4"), repeat=3, between="ssh a ethtool …"
    )
    assert one.steps[1].change == "queues of ens4 on a: 4, ens4 on b: 4"
    assert one.between == "ssh a ethtool …"
    setup = experiment(sweep=parse_values("setup=passthrough,vswitch"))
    assert [step.change for step in setup.steps] == ["setup passthrough", "setup vswitch"]
    assert "believed" in setup.notes[0]


def test_differences_between_the_ends_are_noted() -> None:
    pairs, hosts = between(
        machine("a", nic(3, "ens3", "192.0.2.1", mtu=9000)),
        machine("b", nic(5, "ens3", "192.0.2.2")),
    )
    one = experiment_of(REQUEST, pairs, hosts, {"a": tools("3.12"), "b": tools("3.21")})
    assert one.notes[0] == "mtu differs: 1500 and 9000"
    assert "iperf3 3.12, server iperf3 3.21" in one.notes[1]


def test_run_of_one_second_is_noted_as_too_short() -> None:
    assert experiment(time=1).notes[0].startswith("2 s are the least that can be ranked")
    assert experiment(time=2).notes == ()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sweep": ("length", ("1K",)), "compare": ("mss", ("1", "2"))}, "exclude each other"),
        ({"compare": ("mss", ("100",))}, "compare needs 2 values, not 1"),
        ({"sweep": ("mss", ("100", "100"))}, 'mss: duplicate value "100"'),
        ({"sweep": ("mss", ())}, "mss: value missing"),
        ({"sweep": ("mss", ("x",))}, 'mss: "x" is not a size'),
        ({"sweep": ("colour", ("x",))}, '"colour" cannot be varied'),
        ({"repeat": 0}, "runs must be 1 to 1000, not 0"),
        ({"rest": float("nan")}, "pause must be .*, not nan"),
        ({"rest": -1.0}, "pause must be .*, not -1"),
        ({"label": "a\x1b[31m"}, "control characters"),
        ({"between": "true"}, "a setup command is for variants"),
        ({"between": "true", "sweep": ("mss", ("100", "200"))}, "a setup command is for variants"),
        (
            {"mss": 1, "port": 0, "generator": "iperf3"},
            "mss must be .*, not 1; port must be .*, not 0",
        ),
        ({"client_cpu": 99}, "a: CPU 99 not available"),
        (
            {"repeat": 1000, "sweep": ("streams", tuple(map(str, range(1, 60))))},
            "59000 runs: more than",
        ),
    ],
)
def test_invalid_requests(more: dict[str, object], message: str) -> None:
    with pytest.raises(NictopError, match=message) as caught:
        experiment(**more)
    assert (caught.value.message + caught.value.hint).isprintable()


def test_generators_that_are_not_known_are_said() -> None:
    with pytest.raises(NictopError, match="b: iperf3 not checked yet"):
        experiment_of(REQUEST, *two(), {"a": TrafficTools()})
