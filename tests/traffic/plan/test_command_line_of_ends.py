"""The command line of a request with an end that is not watched, or of a guest, is read as the same
request."""

from __future__ import annotations

import shlex

import pytest

from nictop.cli.arguments import parse
from nictop.cli.traffic.options import request_of
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.request import RunRequest


@pytest.mark.parametrize(
    "request_",
    [
        RunRequest("192.0.2.5", "b", foreign=True, foreign_client=True, wait=60),
        RunRequest("a", "192.0.2.5", foreign=True, generator="ntttcp", streams=4),
        RunRequest("pve", "pve", test="manual", guest="win 10", time=3600),
    ],
)
def test_it_is_read_as_the_same_request(request_: RunRequest) -> None:
    words = shlex.split(command_line(request_, {}))
    assert request_of(parse(words[1:]), plain=False) == request_
