"""The words of the form: what they come to, and what is said of those that make no sense."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.traffic.plan.plan import TestKind
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import validate_request
from nictop.tui.widgets.traffic.form_fields import (
    BY_NAME,
    DIRECTIONS,
    FIELDS,
    NOBODY,
    TESTS,
    belongs,
    field_of,
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
    assert list(TESTS) == list(get_args(TestKind)) and BY_NAME["test"].choices == tuple(TESTS)
    assert all(name in BY_NAME for kind in TESTS.values() for name in (*kind.without, *kind.texts))


@pytest.mark.parametrize("test", TESTS)
def test_fields_that_do_not_apply_are_ignored(test: TestKind) -> None:
    """Whatever was typed for another kind of test, invalid or not: no field that is hidden makes the test invalid."""
    typed = {
        "direction": "both", "length": "big", "bitrate": "1G", "zerocopy": "yes", "generator": "iperf3",
        "size": "4K", "files": "100", "protocol": "udp",
    }  # fmt: skip
    words = {**presets(), **{name: word for name, word in typed.items() if not belongs(name, {"test": test})}}
    request, problems = request_of_form({**words, "test": test}, "a", "b", ())
    assert problems == {} and request == RunRequest("a", "b", test=test)
    assert validate_request(request).kind == "run"


def test_sizes_of_requests_and_responses() -> None:
    rr = {**presets(), "test": "rr"}
    one, problems = request_of_form({**rr, "size": "64:4K"}, "a", "b", ())
    assert (one.request_size, one.response_size, problems) == (64, 4096, {})
    several, problems = request_of_form({**rr, "size": "1,64,4K"}, "a", "b", ())
    assert (several.sweep, several.request_size, problems) == (("size", ("1", "64", "4K")), None, {})
    _, problems = request_of_form({**rr, "size": "1,64", "vary": "streams=1,4,8"}, "a", "b", ())
    assert problems == {"size": "several sizes are a sweep, which excludes another sweep or comparison"}
    assert request_of_form({**rr, "size": "1,big"}, "a", "b", ())[1]["size"].startswith('"big" is not a size')


@given(WORDS)
def test_any_words_make_a_request_or_an_error(words: dict[str, str]) -> None:
    request, problems = request_of_form({**presets(), **words}, "a", "b", ())
    assert request.client == "a"
    assert all(name in words and said for name, said in problems.items())


@given(st.text(max_size=60))
def test_any_sentence_is_about_a_field_or_none(sentence: str) -> None:
    found = field_of(sentence)
    assert found is None or found in BY_NAME


def test_a_sentence_about_a_plan_stands_beside_its_field() -> None:
    assert field_of("streams must be 1 to 128, not 0") == "streams"
    assert field_of("client CPU must be 0 to 65535, not 70000") == "client_cpu"
    assert field_of("a: CPU 7 not available") is None


@given(st.text(max_size=10), st.integers(-3, 3))
def test_a_choice_goes_round(word: str, step: int) -> None:
    for field in FIELDS:
        if field.choices:
            assert next_choice(field, word, step) in field.choices
            assert next_choice(field, next_choice(field, field.choices[0], 1), -1) == field.choices[0]
