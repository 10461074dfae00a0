"""The key that begins and ends a measurement of what flows now, with two real hosts."""

from __future__ import annotations

import pytest

from nictop.traffic.plan.request import RunRequest
from nictop.tui.screens.dialogs.leave import StopScreen
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.traffic import run
from nictop.tui.screens.traffic.command import CommandEntry, RunCommandScreen
from nictop.tui.screens.traffic.foreign import ForeignScreen
from nictop.tui.screens.traffic.run import RunScreen
from nictop.tui.widgets.base.form import Form
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.traffic.form import RunForm
from nictop.wire.source import SourceState
from tests.support.lines import hello, inventory, link
from tests.support.screen import NARROW, WIDE, Screen, ScriptedHosts, screen_with_hosts, wait_until
from tests.support.traffic_screen import ScreenWithTraffic, two_hosts
from tests.traffic.pair import missing_requirement
from tests.traffic.test_foreign_runs import listening
from tests.tui.screens.test_traffic_screenshots import host

REASON = missing_requirement()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


@pytest.mark.parametrize("key", ["b", "enter"])
async def test_begin_and_end_by_hand(
    key: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the selected interface of the shown host, with the CPU of the other one; saved."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts() as runs:
        traffic = runs.nictop.traffic
        await runs.press("b")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        assert traffic.request is not None and traffic.request.observers == ("b",)
        await runs.wait_for_arrivals()
        assert traffic.measures_by_hand
        await runs.press(key)
        await runs.wait_until_finished()
        (stored,) = traffic.results
        figures = stored.result.workload
        assert figures is not None and figures.reason == "hand" and stored.result.stopped is None
        assert [load.host for load in stored.result.hosts] == ["a", "b"]
        await runs.until(lambda: "ended by hand" in runs.run_text())
        assert not runs.app.screen.check_action("end_measurement", ())


async def test_key_that_begins_a_measurement_ends_no_other_test() -> None:
    async with two_hosts() as runs:
        await runs.start(20)
        await runs.wait_for_arrivals()
        await runs.press("b")
        assert runs.nictop.traffic.running
        request = runs.nictop.traffic.request
        assert request is not None and request.test == "bulk"
        await runs.stop()
        await runs.wait_until_finished()


async def test_workload_on_the_screen_is_repeated_only_if_that_is_wanted(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is shown while it runs, and before it is run again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(run, "KEY_IGNORED_SECONDS", 0.0)
    request = RunRequest(
        "a", "a", client_nic="nictopt", test="workload", workload="sleep 1.2; echo done", time=30
    )
    async with two_hosts(request=request, options=("--allow-workload",)) as runs:
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        await runs.until(lambda: "sleep 1.2; echo done" in runs.text("#run-title"))
        await runs.wait_until_finished()
        await runs.until(lambda: "exit status 0" in runs.run_text())
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, run.RepeatScreen))
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        assert not runs.nictop.traffic.running and len(runs.nictop.traffic.ended) == 1
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, run.RepeatScreen))
        await runs.press("left", "enter")
        await runs.until(lambda: len(runs.nictop.traffic.ended) == 2)


async def test_long_command_is_cut_in_the_title_and_ended_with_its_processes(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command = "sleep 60; : with a comment for which the title of a narrow screen has no room"
    request = RunRequest("a", "a", client_nic="nictopt", test="workload", workload=command, time=90)
    async with two_hosts(NARROW, request=request, options=("--allow-workload",)) as runs:
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        await runs.until(lambda: "sleep 60; : wi" in runs.text("#run-title"))
        assert "…" in runs.text("#run-title")
        await runs.until(lambda: runs.nictop.traffic.view() is not None)
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, StopScreen))
        assert "The command and all that it started is ended." in words_of(runs)
        await runs.press("left", "enter")
        await runs.wait_until_finished()
        (stored,) = runs.nictop.traffic.results
        assert stored.result.stopped is not None


async def test_command_that_is_typed_on_the_screen(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown as it will run, and is run only after the answer, on a host that gets the right
    to run it by a new connection."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts() as runs:
        await runs.open_form()
        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "sleep 1.2; echo typed"
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        screen = runs.app.screen
        assert isinstance(screen, RunCommandScreen)
        shown = "".join(text for line in screen.text_lines(200) for text, _ in line)
        assert "On a: /bin/sh -c sleep 1.2; echo typed" in shown
        assert "connects to it once more" in shown
        assert "= nictop traffic a=a.example --workload 'sleep 1.2; echo typed'" in shown
        await runs.press("enter")  # Cancel is chosen
        await runs.until(lambda: not isinstance(runs.app.screen, RunCommandScreen))
        assert not runs.nictop.traffic.running and not runs.nictop.traffic.may_run

        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "sleep 1.2; echo typed"
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        await runs.press("left", "enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        await runs.wait_until_finished()
        (stored,) = runs.nictop.traffic.results
        assert stored.result.failure is None and stored.result.workload is not None
        assert stored.result.workload.stdout == ("typed",)
        assert [load.host for load in stored.result.hosts] == ["a", "b"]


async def test_command_is_swept_and_typed_again(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its options, which are there again the next time; mistakes are said beside them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts(NARROW) as runs:
        await runs.open_form()
        await begin_command(runs, "echo $NICTOP_VALUE points")
        await fill(runs, vary="n=1,2,3", value_pattern="(.+ points", time="30")
        await runs.press("enter")
        await runs.until(
            lambda: "To be corrected: figure: not a regular" in runs.text("#entry-error")
        )
        drawn = runs.drawn()
        assert any("not a regular expression: missing " in row for row in drawn)
        assert any("[ Next ]" in row for row in drawn)
        await fill(runs, value_pattern="(.+) points", vary="n=1")
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        await runs.press("escape")
        await begin_command(runs, None)
        entry = runs.app.screen
        assert isinstance(entry, CommandEntry) and entry.words["value_pattern"] == "(.+) points"
        await fill(runs, vary="n=1,2,3")
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunCommandScreen))
        screen = runs.app.screen
        assert isinstance(screen, RunCommandScreen)
        shown = "".join(text for line in screen.text_lines(300) for text, _ in line)
        assert "3 runs; $NICTOP_VALUE (n): 1, 2, 3" in shown
        assert "--value '(.+) points' --time 30 --sweep n=1,2,3" in shown
        await fill_and_run(runs)
        figures = [stored.result.workload for stored in runs.nictop.traffic.results]
        values = [one.figure.value for one in figures if one is not None and one.figure is not None]
        assert values == [1, 2, 3], figures


async def open_dialog(
    screen: Screen, hosts: ScriptedHosts, name: str, kind: type[CommandEntry] | type[ForeignScreen]
) -> None:
    """On Traffic, when the host is read."""
    hosts[name].send(*host("b1", 1, 1500))
    await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
    await screen.press("6")
    opening = "measure_command" if kind is CommandEntry else "test_foreign"
    getattr(screen.app.screen, opening)()
    await wait_until(screen, lambda: isinstance(screen.app.screen, kind))
    await screen.settle()


@pytest.mark.parametrize("rows", [24, 14, 10])
async def test_buttons_are_in_sight_on_a_low_screen(rows: int) -> None:
    """The options scroll there."""
    async with screen_with_hosts("vm1", size=(80, rows)) as (screen, hosts):
        await open_dialog(screen, hosts, "vm1", CommandEntry)
        drawn = "\n".join(screen.drawn())
        assert "[ Next ] [ Cancel ]" in drawn and "Command:" in drawn and "NIC  " in drawn
        await screen.press(*["tab"] * 8)
        assert "▸label " in "\n".join(screen.drawn())


async def test_that_no_nic_would_be_measured_is_said_before_the_command_is_run() -> None:
    async with screen_with_hosts("vm1", size=NARROW) as (screen, hosts):
        hosts["vm1"].send(hello(), inventory(link(2, "ens192"), link(3, "ens224")))
        await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
        await screen.press("6")
        screen.app.screen.measure_command()  # type: ignore[attr-defined]
        for nic, is_said in (("automatic", True), ("ens224", False)):
            await wait_until(screen, lambda: isinstance(screen.app.screen, CommandEntry))
            await screen.settle()
            assert "no default route: choose one" in "\n".join(screen.drawn())
            screen.app.screen.query_one(TextInput).value = "true"
            screen.app.screen.query_one(Form).set_word("client_nic", nic)
            screen.app.screen.query_one(TextInput).focus()
            await screen.press("enter")
            await wait_until(screen, lambda: isinstance(screen.app.screen, RunCommandScreen))
            asked = screen.app.screen
            assert isinstance(asked, RunCommandScreen)
            shown = "".join(text for line in asked.text_lines(200) for text, _ in line)
            assert ("No NIC is chosen (ens192, ens224)" in shown) is is_said
            await screen.press("enter")  # Cancel is chosen
            await wait_until(screen, lambda: not isinstance(screen.app.screen, RunCommandScreen))
            screen.app.screen.measure_command()  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(60, 20), NARROW])
async def test_what_is_beside_the_fields_of_a_dialog_is_not_cut(size: tuple[int, int]) -> None:
    name = "a-host-with-a-long-name"
    async with screen_with_hosts(name, size=size) as (screen, hosts):
        await open_dialog(screen, hosts, name, CommandEntry)
        assert not cut_rows(screen, "#command-form")
        await screen.press("escape")
        screen.app.screen.test_foreign()  # type: ignore[attr-defined]
        await wait_until(screen, lambda: isinstance(screen.app.screen, ForeignScreen))
        await screen.settle()
        assert not cut_rows(screen, "#foreign-form")
        await screen.press("tab", "right")
        assert not cut_rows(screen, "#foreign-form")


async def test_what_is_beside_the_chosen_field_has_room_on_a_narrow_screen() -> None:
    async with screen_with_hosts("vm1", "vm2", size=(60, 20)) as (screen, hosts):
        for number, name in enumerate(("vm1", "vm2"), 1):
            hosts[name].send(*host(f"b{number}", number, 1500))
        await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
        await screen.press("6")
        await wait_until(screen, lambda: bool(screen.app.screen.query(RunForm)))
        form = screen.app.screen.query_one(RunForm)
        for number, field in enumerate(form.shown):
            if field.name == "repeat":
                form.choose_index(number)
        await screen.settle()
        (row,) = [row for row in screen.drawn() if "runs  " in row]
        assert "runs per variant (5 recommended)" in row


def cut_rows(screen: Screen, form: str) -> list[str]:
    lines = screen.app.screen.query_one(form, Form).lines
    rows = ["".join(text for text, _ in line) for line in lines]
    assert rows
    return [row for row in rows if "…" in row]


async def test_an_address_that_is_being_typed_is_no_mistake() -> None:
    async with screen_with_hosts("vm1", size=NARROW) as (screen, hosts):
        await open_dialog(screen, hosts, "vm1", ForeignScreen)

        def beside() -> str:
            form = screen.app.screen.query_one("#foreign-form", Form)
            return "".join(text for text, _ in form.lines[0])

        assert "IP address of the other end" in beside()
        await screen.press("1", "9")
        assert "IP address of the other end" in beside()
        await screen.press("tab")
        assert '"19" is not an IP address' in beside()


async def test_a_host_that_is_not_connected_is_named_where_something_starts_on_it() -> None:
    async with screen_with_hosts("vm1", size=NARROW) as (screen, hosts):
        hosts["vm1"].send(*host("b1", 1, 1500))
        await wait_until(screen, lambda: screen.nictop.hosts.session.snapshot.inventory is not None)
        await screen.press("6")
        form = screen.app.screen
        for open_dialog in (form.test_foreign, form.measure_command):  # type: ignore[attr-defined]
            open_dialog()
            await wait_until(screen, lambda: screen.app.screen is not form)
            await screen.settle()
            assert "is not connected" not in "\n".join(screen.drawn())
            hosts["vm1"].send(SourceState("lost", "connection to vm1 lost", 5.0))
            said = "vm1 is not connected: connection lost"
            await wait_until(screen, lambda: said in "\n".join(screen.drawn()))  # noqa: B023
            hosts["vm1"].send(SourceState("live"), hello())
            await wait_until(screen, lambda: said not in "\n".join(screen.drawn()))  # noqa: B023
            await screen.press("escape")
            await wait_until(screen, lambda: screen.app.screen is form)


async def begin_command(runs: ScreenWithTraffic, command: str | None) -> None:
    """Type it; None: what was typed before."""
    runs.app.screen.measure_command()  # type: ignore[attr-defined]
    await runs.until(lambda: isinstance(runs.app.screen, CommandEntry))
    if command is not None:
        runs.app.screen.query_one(TextInput).value = command
    assert runs.app.screen.query_one(TextInput).value


async def fill(runs: ScreenWithTraffic, **words: str) -> None:
    for name, word in words.items():
        runs.app.screen.query_one(Form).set_word(name, word)
    await runs.settle()


async def fill_and_run(runs: ScreenWithTraffic) -> None:
    await runs.press("left", "enter")
    await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
    await runs.wait_until_finished()


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_host_without_a_login(
    size: tuple[int, int], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that nictop did not start, with the options of the form."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts(size) as runs:
        await runs.open_form()
        await runs.type("time", "1")
        runs.app.screen.test_foreign()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, ForeignScreen))
        assert "= nictop traffic a=a.example ADDRESS --foreign --time 1" in words_of(runs)
        await runs.press("enter")
        assert "missing" in runs.text("#foreign-form") and not runs.nictop.traffic.running
        await runs.press(*"198.18.0.2", "tab", "tab", "tab", *"5317")
        assert "= nictop traffic a=a.example 198.18.0.2 --foreign --time 1 --port" in words_of(runs)
        assert "iperf3 -s -p 5317" in runs.text("#foreign-form")
        with listening(runs.spaces["b"], 5317):
            await runs.press("enter")
            await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
            await runs.wait_until_finished()
        (stored,) = runs.nictop.traffic.results
        assert stored.result.failure is None and stored.result.foreign is not None
        await runs.until(lambda: "(reported" in runs.run_text())


def words_of(runs: ScreenWithTraffic) -> str:
    return " ".join(runs.text("#dialog-text").split())


async def test_client_of_a_host_without_a_login(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command to type there is shown while nictop waits."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with two_hosts(NARROW) as runs:
        await runs.open_form()
        runs.app.screen.test_foreign()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, ForeignScreen))
        await runs.press(*"198.18.0.2", "tab", "right")
        assert "nictop waits 300 s for it" in words_of(runs)
        await runs.press("enter")
        await runs.until(lambda: isinstance(runs.app.screen, RunScreen))
        wanted = "type on 198.18.0.2: iperf3 -c 198.18.0.1 -p 5201 -t 10 -P 1"
        await runs.until(lambda: wanted in " ".join(" ".join(runs.drawn()).split()))
        await runs.stop()
        await runs.wait_until_finished()
        assert runs.generators() == []


async def test_test_that_a_host_without_a_login_cannot_have() -> None:
    async with two_hosts(NARROW) as runs:
        await runs.open_form()
        runs.app.screen.query_one(RunForm).set_word("test", "rr")
        await runs.settle()
        runs.app.screen.test_foreign()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, ForeignScreen))
        await runs.press(*"198.18.0.2", "enter")
        assert isinstance(runs.app.screen, ForeignScreen) and not runs.nictop.traffic.running
        assert "a foreign server is one of iperf3: it has no test rr" in words_of(runs)


async def test_command_without_a_chosen_nic_was_measured(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its rate is not known: CPU and exit status are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    request = RunRequest("a", "a", test="workload", workload="sleep 1.2", time=30)
    async with two_hosts(NARROW, options=("--allow-workload",)) as runs:
        runs.spaces["a"].run(["ip", "link", "set", "nictopt", "down"])
        links = runs.nictop.hosts.by_name["a"]
        await runs.until(
            lambda: (
                not any(
                    link.carrier for link in links.snapshot.links.values() if link.name == "nictopt"
                )
            )
        )
        assert runs.nictop.traffic.start(request)
        runs.app.push_screen(RunScreen())
        await runs.until(lambda: bool(runs.nictop.traffic.ended))
        await runs.until(lambda: "exit status 0" in runs.run_text())
        text = "\n".join(runs.drawn())
        assert "no rate: no NIC was chosen" in text
        assert "Nothing was measured" not in text and "✖ reading" not in text


async def test_command_that_is_not_one_line_is_refused_while_it_is_typed() -> None:
    async with two_hosts() as runs:
        await runs.open_form()
        runs.app.screen.measure_command()  # type: ignore[attr-defined]
        await runs.until(lambda: isinstance(runs.app.screen, LineEntry))
        runs.app.screen.query_one(TextInput).value = "x" * 5000
        await runs.press("enter")
        await runs.until(lambda: "not one line" in runs.text("#entry-error"))
        assert isinstance(runs.app.screen, LineEntry)
