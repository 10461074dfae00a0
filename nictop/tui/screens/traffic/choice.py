"""The request that the form and the chosen path make: its command line, what is wrong with it, the
tools of both ends.

The tools of a host are requested through the `TrafficController`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.model.facts import clean
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import TrafficTools
from nictop.traffic.experiment.steps import experiment_of
from nictop.traffic.plan.command_line import command_line
from nictop.traffic.plan.endpoints import select_pair
from nictop.traffic.plan.plan import EndpointPair
from nictop.traffic.plan.problem import InvalidRequest
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.plan.tools import iperf3_text, iperf3_version
from nictop.traffic.plan.validation import validate_request
from nictop.tui.widgets.traffic.form_fields import (
    NOBODY,
    form_field_of,
    label_of,
    rate_question,
    request_of_form,
)
from nictop.tui.widgets.traffic.pair_table import PairRow

if TYPE_CHECKING:
    from nictop.tui.controllers.traffic import TrafficController

TOOLS_MAX_AGE_SECONDS = 30.0
"""After which generators are requested again: iperf3 may be installed meanwhile."""


@dataclass(frozen=True)
class Choice:
    """What would be started."""

    request: RunRequest | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    """Name of a field → what is wrong with it."""
    complaints: tuple[str, ...] = ()
    """What is wrong beyond the fields."""
    notes: tuple[str, ...] = ()
    """Remarks before it starts."""
    is_self_test: bool = False

    @classmethod
    def of(
        cls,
        row: PairRow | None,
        words: Mapping[str, str],
        snapshots: Mapping[str, Snapshot],
        tools: Mapping[str, TrafficTools],
        pairs: Sequence[EndpointPair],
    ) -> Choice:
        """`snapshots`: of all watched hosts; `tools`: of the hosts that have reported them;
        `pairs`: of all paths."""
        client = server = ""
        if row is not None:
            client, server = row.pair.client.host, row.pair.server.host
        others = tuple(name for name in snapshots if name not in (client, server))
        request, problems = request_of_form(words, client, server, others)
        if row is not None:
            request = _with_ends(request, row, snapshots, pairs)
        if problems:
            return cls(request, problems)
        has_tools = client in tools and server in tools
        try:
            if row is None or not has_tools:
                validate_request(request)
                return cls(request)
            experiment = experiment_of(request, (row.pair,), snapshots, tools)
        except NictopError as error:
            return cls(request, *_shown(error, request, words))
        return cls(request, notes=experiment.notes)

    def for_self_test(self, words: Mapping[str, str]) -> Choice:
        """The same options, between two ends on this machine."""
        request, problems = request_of_form({**words, "observers": NOBODY}, "", "", ())
        complaints: tuple[str, ...] = ()
        if not problems:
            try:
                validate_request(request)
            except NictopError as error:
                problems, complaints = _shown(error, request, words)
        return Choice(request, problems, complaints, is_self_test=True)

    def command(self, arguments: Mapping[str, str]) -> str:
        """The command line that starts the same; "": it cannot be started. `arguments`: name of a
        host → the word for it."""
        request = self.request
        if request is None or self.problems or self.complaints:
            return ""
        has_ends = bool(request.client) or self.is_self_test
        return command_line(request, arguments, self_test=self.is_self_test) if has_ends else ""


def start_text(
    choice: Choice, words: Mapping[str, str], why_no_path: str, tools: RunTools
) -> tuple[str, str]:
    """(What Start does with what the form says, style); ("", ""): it starts the test, and there is
    nothing to say."""
    request = choice.request
    if request is None or not request.client:
        return f"Start does nothing: {why_no_path}", "warn"
    if choice.problems:
        fields = ", ".join(label_of(name, words) for name in choice.problems)
        return f"Start does nothing before this is corrected: {fields}", "warn"
    if choice.complaints:
        return "Start does nothing before this is corrected, see above", "warn"
    unknown = [
        name for name in dict.fromkeys((request.client, request.server)) if name not in tools.known
    ]
    silent = [clean(name) for name in unknown if tools.has_failed(name)]
    if silent:
        return f"Start asks {' and '.join(silent)} again; without an answer no test", "warn"
    if unknown:
        return "Start waits for the check of both hosts", "dim"
    if choice.notes or rate_question(words):
        return "Start runs it as it is", "dim"
    return "", ""


def _with_ends(
    request: RunRequest,
    row: PairRow,
    snapshots: Mapping[str, Snapshot],
    pairs: Sequence[EndpointPair],
) -> RunRequest:
    """The request with as few names of NICs and addresses as select this path; without any if the
    NIC is varied."""
    varied = request.compare or request.sweep
    if varied is not None and varied[0] == "nic":
        return request
    with_nics = _with_nics(request, row, snapshots)
    addresses = (row.pair.client.address, row.pair.server.address)
    with_addresses = _with_addresses(request, *addresses)
    for candidate in (request, with_nics, with_addresses):
        try:
            if select_pair(candidate, pairs, snapshots) == row.pair:
                return candidate
        except NictopError:
            continue  # it selects several paths
    return _with_addresses(with_nics, *addresses)


def _with_nics(request: RunRequest, row: PairRow, snapshots: Mapping[str, Snapshot]) -> RunRequest:
    client, server = row.pair.client.link_in(snapshots), row.pair.server.link_in(snapshots)
    if client is None or server is None:
        return request
    return replace(request, client_nic=client.name, server_nic=server.name)


def _with_addresses(request: RunRequest, client: str, server: str) -> RunRequest:
    return replace(request, client_address=client, server_address=server)


def _shown(
    error: NictopError, request: RunRequest, words: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What is wrong, beside the fields that it is about, and the rest."""
    if not isinstance(error, InvalidRequest):
        return {}, tuple(filter(None, (error.message, error.hint)))
    problems: dict[str, str] = {}
    rest: list[str] = []
    for problem in error.problems:
        field = form_field_of(problem.field, request, words)
        if field:
            problems.setdefault(field, problem.sentence)
        else:
            rest.append(problem.sentence)
    if rest and error.hint:
        rest.append(error.hint)
    return problems, tuple(rest)


class RunTools:
    """Generators of the hosts that have reported them."""

    def __init__(self) -> None:
        self.known: dict[str, TrafficTools] = {}
        self._requested_at: dict[str, float] = {}
        self._why_not: dict[str, str] = {}

    def has_failed(self, name: str) -> bool:
        """The last request had no answer, or an error."""
        return name in self._why_not

    def missing(self, names: Sequence[str]) -> tuple[str, ...]:
        """Hosts whose generators are unknown or outdated, and not requested."""
        old = monotonic() - TOOLS_MAX_AGE_SECONDS
        return tuple(
            name for name in dict.fromkeys(names) if self._requested_at.get(name, old) <= old
        )

    async def ask(self, traffic: TrafficController, name: str) -> None:
        """What it has, or why that is not known."""
        self._requested_at[name] = monotonic()
        try:
            self.known[name] = await traffic.tools(name)
            self._why_not.pop(name, None)
        except NictopError as error:
            self._why_not[name] = error.message.removeprefix(f"{clean(name)}: ")

    def words(self, row: PairRow) -> str:
        """What both ends have."""
        names = (row.pair.client.host, row.pair.server.host)
        return " · ".join(self._of(name) for name in dict.fromkeys(names))

    def _of(self, name: str) -> str:
        tools = self.known.get(name)
        if tools is None:
            return f"{clean(name)}: {clean(self._why_not.get(name, 'checking iperf3'))}"
        if tools.path is None:
            return f"{clean(name)}: iperf3 not installed, built-in generator only"
        return f"{clean(name)}: {iperf3_text(iperf3_version(tools.version))}"
