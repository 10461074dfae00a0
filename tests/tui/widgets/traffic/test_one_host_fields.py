"""What is typed of a command, or of a host without a login: the request that it makes, the same as
the command line makes, and what is wrong with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest

from nictop.cli.arguments import parse
from nictop.cli.traffic.options import request_of
from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.validation import unused_value_text, validate_request
from nictop.tui.widgets.base.form import Field, presets
from nictop.tui.widgets.traffic.one_host_fields import (
    CLIENT_THERE,
    command_fields,
    command_request,
    foreign_fields,
    foreign_request,
)

COMMAND = command_fields(["ens4", "ens5"], "automatic: ens4")
FOREIGN = foreign_fields(["ens4", "ens5"], "5201")


def command(**words: str) -> tuple[RunRequest, dict[str, str]]:
    return command_request("vm1", "fio job.fio", COMMAND, presets(COMMAND) | words, ("pve",))


def foreign(options: RunRequest, **words: str) -> tuple[RunRequest, dict[str, str]]:
    return foreign_request("vm1", FOREIGN, presets(FOREIGN) | words, options)


def typed(request: RunRequest) -> RunRequest:
    """What the command line that is shown means."""
    _, *words = shlex.split(command_line(request, {}))
    return replace(request_of(parse(words), plain=False), observers=request.observers)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"vary": "bs=4K,64K,1M", "repeat": "3"},
        {"vary": "setup=on,off", "between": "./switch $NICTOP_VALUE", "judged_by": "duration"},
        {"vary": "nic=ens4,ens5", "judged_by": "smaller-value", "value_pattern": r"took (\d+)"},
        {"client_nic": "ens5", "time": "60", "label": "files"},
    ],
)
def test_a_command_is_that_of_the_command_line(words: dict[str, str]) -> None:
    request, problems = command(**words)
    assert problems == {}
    validate_request(request)
    assert typed(request) == request and request.observers == ("pve",)


def test_an_expression_that_python_only_warns_of_is_taken_in_silence() -> None:
    assert command(value_pattern="t[[you]")[1] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"value_pattern": "(x"}, "not a regular expression: missing )"),
        ({"vary": "4K,64K"}, "has no values"),
        ({"vary": "queues=many,4"}, '"many" is not an integer'),
        ({"repeat": "often"}, '"often" is not an integer'),
        ({"time": "1h"}, '"1h" is not an integer'),
    ],
)
def test_what_is_wrong_with_a_command_is_said_of_its_field(
    words: dict[str, str], said: str
) -> None:
    _, problems = command(**words)
    assert list(problems) == list(words) and said in next(iter(problems.values()))


@pytest.mark.parametrize("used", ["$NICTOP_VALUE", "${NICTOP_VALUE}", '"$NICTOP_VALUE"'])
def test_a_value_that_would_be_empty_is_refused(used: str) -> None:
    request, _ = command_request("vm1", f"fio --bs={used}", COMMAND, presets(COMMAND), ())
    with pytest.raises(NictopError, match=r"has \$NICTOP_VALUE, but nothing is varied"):
        validate_request(request)
    validate_request(replace(request, sweep=("bs", ("4K", "64K"))))
    validate_request(replace(request, compare=("setup", ("on", "off"))))


def test_a_value_with_a_default_is_not_refused() -> None:
    request, _ = command_request(
        "vm1", "fio --bs=${NICTOP_VALUE:-4K}", COMMAND, presets(COMMAND), ()
    )
    validate_request(request)


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("bs", "./copy", "with each bs it does the same, unless a program in it reads that"),
        ("bs", "./copy $NICTOP_VALUE", ""),
        ("bs", "./copy ${NICTOP_VALUE:-4K}", ""),
        ("setup", "./copy", ""),
    ],
)
def test_a_command_that_does_not_have_the_value_is_remarked(
    name: str, line: str, said: str
) -> None:
    request, _ = command_request("vm1", line, COMMAND, presets(COMMAND), ())
    checked = validate_request(replace(request, sweep=(name, ("1", "2"))))
    text = unused_value_text(checked)
    assert said in text and bool(text) == bool(said)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({}, "nictop traffic vm1 192.0.2.50 --foreign --reverse --streams 4"),
        (
            {"role": CLIENT_THERE},
            "nictop traffic 192.0.2.50 vm1 --foreign --reverse --streams 4",
        ),
        (
            {"nic": "ens5", "port": "5300"},
            "nictop traffic vm1 192.0.2.50 --client-nic ens5 --foreign --reverse --streams 4 "
            "--port 5300",
        ),
        (
            {"nic": "ens5", "role": CLIENT_THERE},
            "nictop traffic 192.0.2.50 vm1 --server-nic ens5 --foreign --reverse --streams 4",
        ),
    ],
)
def test_a_foreign_end_has_the_options_of_the_form(words: dict[str, str], line: str) -> None:
    options = RunRequest("vm1", "", direction="reverse", streams=4)
    request, problems = foreign(options, address="192.0.2.50", **words)
    assert problems == {} and command_line(request, {}) == line
    validate_request(request)
    assert typed(request) == request


def test_a_name_is_no_foreign_end() -> None:
    _, problems = foreign(RunRequest("vm1", ""), address="nas.example")
    assert problems == {"address": '"nas.example" is not an IP address'}
    assert foreign(RunRequest("vm1", ""), port="x")[1] == {"port": '"x" is not an integer'}


@pytest.mark.parametrize("fields", [COMMAND, FOREIGN])
def test_texts_fit_beside_their_fields(fields: Sequence[Field]) -> None:
    """In a dialog on a terminal of 80 columns; choices are wider."""
    for field in fields:
        assert len(field.example) <= 40 and len(field.label) <= 14, field
