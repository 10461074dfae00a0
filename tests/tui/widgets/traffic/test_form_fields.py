"""The words of the form: what they come to, and what is said of those that make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.traffic.plan.plan import GENERATED_TESTS, TestKind
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request
from nictop.tui.widgets.traffic.form_fields import (
    BY_NAME,
    DIRECTIONS,
    FIELDS,
    NOBODY,
    TESTS,
    belongs,
    form_field_of,
    next_choice,
    presets,
    request_of_form,
)

WORDS = st.dictionaries(st.sampled_from([field.name for field in FIELDS]), st.text(max_size=40))


def test_what_stands_there_at_first_is_a_plain_run() -> None:
    request, problems = request_of_form(presets(), "a", "b", ("pve",))
    assert problems == {}
    assert request == RunRequest("a", "b", observers=("pve",))


@pytest.mark.parametrize(
    ("field", "word", "value"),
    [
        ("time", "20", 20),
        ("length", "128K", 131072),
        ("bitrate", "2.5G", 2_500_000_000),
        ("dscp", "ef", 46),
        ("zerocopy", "yes", True),
        ("observers", NOBODY, ()),
        ("label", "[b]words", "[b]words"),
    ],
)
def test_words_come_to_values(field: str, word: str, value: object) -> None:
    request, problems = request_of_form({**presets(), field: word}, "a", "b", ("pve",))
    assert problems == {}
    assert getattr(request, field) == value


def test_two_values_are_compared_and_more_are_a_sweep() -> None:
    two, problems = request_of_form({**presets(), "vary": "streams=1,4"}, "a", "b", ())
    assert (two.compare, two.sweep, problems) == (("streams", ("1", "4")), None, {})
    three, problems = request_of_form({**presets(), "vary": "length=512,4K,8M"}, "a", "b", ())
    assert (three.compare, three.sweep, problems) == (None, ("length", ("512", "4K", "8M")), {})


@pytest.mark.parametrize(("word", "direction"), DIRECTIONS.items())
def test_the_direction_is_a_choice(word: str, direction: str) -> None:
    assert request_of_form({**presets(), "direction": word}, "a", "b", ())[0].direction == direction


@pytest.mark.parametrize(
    ("field", "word", "said"),
    [
        ("time", "4k", '"4k" is not an integer'),
        ("length", "big", "is not a size"),
        ("dscp", "99", "0 to 63"),
        ("vary", "colour=red", "cannot be varied"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(field: str, word: str, said: str) -> None:
    request, problems = request_of_form({**presets(), field: word}, "a", "b", ())
    assert list(problems) == [field]
    assert said in problems[field]
    assert request == RunRequest("a", "b")


def test_every_kind_of_test_is_offered() -> None:
    assert tuple(TESTS) == GENERATED_TESTS and BY_NAME["test"].choices == tuple(TESTS)
    assert all(name in BY_NAME for kind in TESTS.values() for name in (*kind.without, *kind.texts))


@pytest.mark.parametrize("test", TESTS)
def test_fields_that_do_not_apply_are_ignored(test: TestKind) -> None:
    """Whatever was typed for another kind of test, invalid or not: no field that is hidden makes
    the test invalid."""
    typed = {
        "direction": "both", "length": "big", "bitrate": "1G", "zerocopy": "yes",
        "generator": "iperf3", "size": "4K", "files": "100", "protocol": "udp",
    }  # fmt: skip
    words = {
        **presets(),
        **{name: word for name, word in typed.items() if not belongs(name, {"test": test})},
    }
    request, problems = request_of_form({**words, "test": test}, "a", "b", ())
    assert problems == {} and request == RunRequest("a", "b", test=test)
    assert validate_request(request).kind == "run"


def test_sizes_of_requests_and_responses() -> None:
    rr = {**presets(), "test": "rr"}
    one, problems = request_of_form({**rr, "size": "64:4K"}, "a", "b", ())
    assert (one.request_size, one.response_size, problems) == (64, 4096, {})
    several, problems = request_of_form({**rr, "size": "1,64,4K"}, "a", "b", ())
    assert (several.sweep, several.request_size, problems) == (
        ("size", ("1", "64", "4K")),
        None,
        {},
    )
    _, problems = request_of_form({**rr, "size": "1,64", "vary": "streams=1,4,8"}, "a", "b", ())
    assert problems == {
        "size": "several sizes are a sweep, which excludes another sweep or comparison"
    }
    assert request_of_form({**rr, "size": "1,big"}, "a", "b", ())[1]["size"].startswith(
        '"big" is not a size'
    )


@given(WORDS)
def test_any_words_make_a_request_or_an_error(words: dict[str, str]) -> None:
    request, problems = request_of_form({**presets(), **words}, "a", "b", ())
    assert request.client == "a"
    assert all(name in words and said for name, said in problems.items())


@given(st.text(max_size=20), st.sampled_from([*TESTS]))
def test_any_problem_is_about_a_field_of_the_test_or_none(name: str, test: TestKind) -> None:
    found = form_field_of(name, RunRequest("a", "b"), {"test": test})
    assert found == "" or (found in BY_NAME and belongs(found, {"test": test}))


def test_a_problem_stands_beside_the_field_in_which_it_was_typed() -> None:
    plain = RunRequest("a", "b")
    assert form_field_of("streams", plain, presets()) == "streams"
    assert form_field_of("client_cpu", plain, presets()) == "client_cpu"
    assert (
        form_field_of("", plain, presets())
        == form_field_of("protocol", plain, {"test": "crr"})
        == ""
    )
    assert form_field_of("compare", plain, presets()) == "vary"
    varied = RunRequest("a", "b", sweep=("streams", ("0", "4")))
    assert form_field_of("streams", varied, {"vary": "streams=0,4"}) == "vary"
    assert form_field_of("mss", varied, {"vary": "streams=0,4"}) == "mss"
    # several sizes are a sweep that is typed in its own field
    sizes = RunRequest("a", "b", test="rr", sweep=("size", ("0", "4")))
    assert form_field_of("request_size", sizes, {"test": "rr", "size": "0,4"}) == "size"


@given(st.text(max_size=10), st.integers(-3, 3))
def test_a_choice_goes_round(word: str, step: int) -> None:
    for field in FIELDS:
        if field.choices:
            assert next_choice(field, word, step) in field.choices
            assert (
                next_choice(field, next_choice(field, field.choices[0], 1), -1) == field.choices[0]
            )
