"""What is wrong with what the form says, and where it is said."""

from __future__ import annotations

import pytest

from nictop.errors import NictopError
from nictop.traffic.plan.problem import Problem
from nictop.traffic.plan.request import RunRequest, not_supported
from nictop.tui.screens.traffic.choice import Choice, _shown
from nictop.tui.widgets.traffic.form_fields import presets

TOO_OLD = "b: iperf3 3.5 has no --bidir (bidirectional traffic), 3.7 or later needed"


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        ({"streams": "129"}, {"streams": "streams must be 1 to 128, not 129"}),
        ({"vary": "streams=0,4,8"}, {"vary": "streams must be 1 to 128, not 0"}),
        (
            {"test": "rr", "size": "0,64,4K"},
            {"size": f"size must be 1 to {8 << 20}, not 0"},
        ),
        (
            {"test": "rr", "streams": "200", "interval": "0"},
            {
                "streams": "connections must be 1 to 128, not 200",
                "interval": "interval must be 0.1 to 60 s, not 0",
            },
        ),
        ({"repeat": "0"}, {"repeat": "runs must be 1 to 1000, not 0"}),
    ],
)
def test_a_problem_is_said_beside_its_field(
    words: dict[str, str], problems: dict[str, str]
) -> None:
    choice = Choice().for_self_test({**presets(), **words})
    assert (choice.problems, choice.complaints) == (problems, ())


def test_what_no_generator_supports_is_said_as_a_whole_too() -> None:
    words = {**presets(), "zerocopy": "yes", "length": "8M"}
    choice = Choice().for_self_test(words)
    assert list(choice.problems) == ["length", "zerocopy"]
    assert choice.complaints == (
        "no generator supports it: iperf3 (block size of iperf3 must be at most 1048576, not "
        "8388608), built-in (zerocopy needs iperf3)",
    )


def test_what_a_host_does_not_support_is_said_in_whole_sentences() -> None:
    request = RunRequest("a", "b", direction="bidirectional")
    error = not_supported(TOO_OLD, [Problem("direction", TOO_OLD)], "install a newer one")
    problems, rest = _shown(error, request, presets())
    assert problems == {"direction": TOO_OLD}
    assert rest == (f"not supported: {TOO_OLD}", "install a newer one")


def test_another_error_is_no_problem_of_a_field() -> None:
    error = NictopError("streams: 3 paths", "choose one")
    assert _shown(error, RunRequest("a", "b"), presets()) == (
        {},
        ("streams: 3 paths", "choose one"),
    )
