"""The words of the form: what they come to, and what is said of those that make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.traffic.plan.request import RunRequest
from nictop.tui.widgets.traffic.form_fields import (
    BY_NAME,
    DIRECTIONS,
    FIELDS,
    NOBODY,
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
