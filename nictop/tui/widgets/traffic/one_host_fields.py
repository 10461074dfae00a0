"""The options of a measured command, and those of a test against an end that nictop cannot log in
to: two tables of fields, and the requests that they make.

Reads nothing. What a field has in common with that of a test is taken from `form_fields`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.traffic.plan.foreign import is_address
from nictop.traffic.plan.plan import DEFAULT_WORKLOAD_SECONDS, Judge
from nictop.traffic.plan.quantities import parse_whole_number, quoted
from nictop.traffic.plan.request import RunRequest, parse_values
from nictop.tui.widgets.base.form import Field
from nictop.tui.widgets.traffic.form_fields import BY_NAME, problem_text, varied_options

AUTOMATIC = "automatic"
SERVER_THERE, CLIENT_THERE = "a server runs there", "you start a client"


def command_fields(nics: Iterable[str], automatic: str) -> tuple[Field, ...]:
    """Of a command of the user, below its line. `nics`: names of the interfaces of its host;
    `automatic`: which one it is if none is chosen."""
    return (
        Field("client_nic", "NIC", automatic, None, choices(nics)),
        Field(
            "vary",
            "vary",
            "bs=4K,64K nic= setup= queues=",
            partial(parse_values, of_workload=True),
            empty="nothing",
        ),
        replace(BY_NAME["repeat"], example="per variant (5 recommended)"),
        Field(
            "value_pattern",
            "figure",
            "regular expression for it",
            parse_expression,
            empty="known formats",
        ),
        Field(
            "judged_by",
            "verdict by",
            "automatic: figure or duration",
            None,
            (AUTOMATIC, *get_args(Judge)),
        ),
        Field("between", "set-up", "run here, for setup= queues=", empty="you are asked"),
        Field(
            "time",
            "at most",
            "seconds, then it is ended",
            parse_whole_number,
            preset=str(DEFAULT_WORKLOAD_SECONDS),
        ),
        BY_NAME["label"],
    )


def foreign_fields(nics: Iterable[str], port: str) -> tuple[Field, ...]:
    """Of an end that nictop cannot log in to. `nics`: of the other end; `port`: the initial one."""
    return (
        Field("address", "address", "IP address of the other end", parse_address, empty="–"),
        Field("role", "there", "", None, (SERVER_THERE, CLIENT_THERE)),
        Field("nic", "NIC", "automatic: by the address", None, choices(nics)),
        replace(BY_NAME["port"], preset=port),
    )


def choices(nics: Iterable[str]) -> tuple[str, ...]:
    return (AUTOMATIC, *nics)


def parse_expression(text: str) -> str:
    """Raises NictopError unless it is a regular expression."""
    try:
        with warnings.catch_warnings():
            # "[[a" may mean something else in a later Python: a warning on stderr is on the screen
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text)
    except re.error as error:
        raise NictopError(f"figure: not a regular expression: {clean(str(error))}") from None
    return text


def parse_address(text: str) -> str:
    """Raises NictopError unless it is an IP address."""
    if not is_address(text):
        raise NictopError(f"{quoted(text)} is not an IP address")
    return text


def command_request(
    host: str,
    command: str,
    fields: Sequence[Field],
    words: Mapping[str, str],
    observers: tuple[str, ...],
) -> tuple[RunRequest, dict[str, str]]:
    """The request to run a command, and name of a field → why its text is invalid."""
    options, problems = _options(fields, words)
    options = {"time": DEFAULT_WORKLOAD_SECONDS} | options
    request = RunRequest(
        host, host, test="workload", workload=command, observers=observers, **options
    )
    return request, problems


def foreign_request(
    host: str, fields: Sequence[Field], words: Mapping[str, str], options: RunRequest
) -> tuple[RunRequest, dict[str, str]]:
    """The request for a test against a foreign end, and name of a field → why its text is invalid.
    `options`: all that is not about the ends."""
    chosen, problems = _options(fields, words)
    address, nic = chosen.get("address", ""), chosen.get("nic", "")
    is_client = words["role"] == CLIENT_THERE
    request = replace(
        options, foreign=True, foreign_client=is_client, port=chosen.get("port", options.port)
    )
    if is_client:
        return replace(request, client=address, server=host, server_nic=nic), problems
    return replace(request, client=host, server=address, client_nic=nic), problems


def _options(
    fields: Sequence[Field], words: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Name of a field → its value unless it is the default; and why texts are invalid."""
    options: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field in fields:
        word = words[field.name].strip()
        if not word or word == AUTOMATIC:
            continue
        try:
            value = word if field.parse is None else field.parse(word)
        except NictopError as error:
            problems[field.name] = problem_text(error)
            continue
        options |= varied_options(value) if field.name == "vary" else {field.name: value}
    return options, problems
