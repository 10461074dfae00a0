"""``nictop check``: exit codes, formats, and pages of rules; names of hosts cannot control
terminals, pages or shells."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nictop.cli.main import main
from nictop.model.facts import width
from nictop.model.text.glyphs import ASCII
from nictop.report.findings.check import (
    CheckDocument,
    check_json,
    check_schema,
    check_text,
    has_severity,
)
from nictop.report.findings.markdown import check_markdown
from nictop.report.findings.rule_pages import (
    UnknownRule,
    rule_list,
    rule_named,
    rule_page,
    rule_table,
)
from nictop.report.findings.rule_texts import read_rules
from nictop.report.render.markdown import escape_markdown
from nictop.rules import RULES, Diagnosis, Evidence, HostFacts, Severity, Skipped, diagnose
from nictop.rules.finding import Cause
from nictop.rules.fixes.commands import stored_line
from nictop.wire.source import SourceState
from tests.cli.commands.test_report import check as matches_schema
from tests.cli.test_main import DEMO, ROOT, run
from tests.support.findings import RENAME, finding, host_of_case, lines_of_case
from tests.support.hostile import NAME as HOSTILE
from tests.support.rule_cases import host_facts
from tests.support.sources import ScriptedSource
from tests.support.terminal import ESCAPES, TerminalProgram


def sick() -> tuple[HostFacts, ...]:
    return (host_facts(host_of_case("profiles", "profile_is_generated")),)


def healthy() -> tuple[HostFacts, ...]:
    return (host_facts({"base": "kvm-guest"}),)


def hostile() -> Diagnosis:
    fix = replace(
        RENAME,
        title=HOSTILE,
        commands=(stored_line(HOSTILE), stored_line("```")),
        undo=(stored_line(HOSTILE),),
        note=HOSTILE,
    )
    found = finding(
        host=HOSTILE,
        subject=HOSTILE,
        title=HOSTILE,
        why=HOSTILE,
        evidence=(Evidence(*[HOSTILE] * 3),),
        fixes=(fix,),
    )
    return Diagnosis((found,), (Skipped("a_rule", HOSTILE, HOSTILE, HOSTILE),))


PORT_IS_DOWN = "+75"
"""A time of the demo with a critical finding."""


def drawn_on_terminal(**environment: str) -> str:
    """``nictop check`` of the demo on a terminal."""
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "nictop", "check", DEMO, "--at", PORT_IS_DOWN]
    with TerminalProgram(
        command, ROOT, {**known, "TERM": "xterm", **environment}, (120, 30)
    ) as program:
        assert program.wait_for_end() == 1
        return program.output.decode()


def test_severities_and_commands_have_colors_on_a_terminal() -> None:
    text = drawn_on_terminal()
    assert "\x1b[1;31m✖ critical alma-load-002 ens224: no carrier" in text
    assert "\x1b[1mnmcli con mod uuid " in text
    plain = run("check", DEMO, "--at", PORT_IS_DOWN).stdout
    assert "critical" in plain and "\x1b" not in plain
    answer = (
        ESCAPES.sub("", text).rpartition("\r ")[2].rpartition(" \r")[2]
    )  # behind what was told meanwhile
    assert answer.splitlines() == plain.splitlines()  # a pipe has 120 columns too


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_no_colors_where_they_are_not_wanted_or_not_known(environment: dict[str, str]) -> None:
    text = drawn_on_terminal(**environment)
    assert "critical" in text and "\x1b" not in text


def test_hosts_are_asked_before_the_rules_are_imported() -> None:
    """They are imported while readings are waited for."""
    code = (
        "import sys, nictop.cli.commands.check, nictop.hosts.connect, nictop.hosts.observe, "
        "nictop.wire.local\n"
        "print([name for name in ('nictop.rules', 'nictop.report') if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        == b"[]\n"
    )


# --------------------------------------------------------------------------------------------- text


def test_text_has_evidence_reason_and_commands() -> None:
    text = check_text(sick(), diagnose(sick()), 120)
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0].startswith(
        "vmware-guest · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 10.0 s"
    )
    assert '▲ warning ens224: uses the auto-generated profile "Wired connection 1"' in lines
    assert any(line.startswith("evidence") and "Wired connection 1" in line for line in lines)
    assert any(line.startswith("fix") and line.endswith("survives a reboot)") for line in lines)
    assert any(line.startswith("nmcli con mod uuid 7777") for line in lines)
    assert "undo:" in lines
    assert lines[-1] == f"1 warning ({len(RULES)} of {len(RULES)} checks ran)"
    assert text.endswith("\n") and not text.endswith("\n\n")


def test_text_of_a_healthy_host() -> None:
    text = check_text(healthy(), diagnose(healthy()), 80)
    ran = f"{len(RULES)} of {len(RULES)} checks ran"
    read = "settings read 10 s before the last values"
    assert f"✓ No problems found ({ran}; {read})\n" in " ".join(text.split("\n")).replace(
        ") ", ")\n"
    )


def test_text_lists_skipped_checks_by_reason() -> None:
    diagnosis = Diagnosis(
        (), tuple(Skipped(rule, "guest", "", "needs root: /dev/kmsg") for rule in ("one", "two"))
    )
    assert "--skipped" in check_text(healthy(), diagnosis, 80)
    text = check_text(healthy(), diagnosis, 80, skipped=True)
    assert "skipped: needs root: /dev/kmsg" in text
    assert text.split()[-2:] == ["one,", "two"]
    assert text.count("needs root: /dev/kmsg") == 1


@pytest.mark.parametrize("room", [-1, 40, 60, 80, 120, 200, 999])
def test_text_fits_the_width(room: int) -> None:
    limit = max(40, min(200, room))
    for hosts, diagnosis in (
        (sick(), diagnose(sick())),
        (healthy(), hostile()),
        ((*sick(), *healthy()), hostile()),
    ):
        text = check_text(hosts, diagnosis, room, skipped=True)
        lines = [line for line in text.splitlines() if width(line) > limit]
        assert all(" " not in line.strip().removesuffix(" \\") for line in lines), (
            "single words of commands alone"
        )
        assert room < 60 or lines == []


def test_findings_name_their_host_if_there_are_several() -> None:
    hosts = (*sick(), *healthy())
    assert "guest ens224: uses the auto-generated" in check_text(hosts, diagnose(hosts), 120)


def test_no_control_character_reaches_the_terminal() -> None:
    text = check_text(healthy(), hostile(), 120, skipped=True)
    assert all(character == "\n" or character.isprintable() for character in text)
    assert "ev\\x1b[2J\\u202eil[/x]\\x0a" in text


def test_ascii() -> None:
    text = ASCII.encode(check_text(sick(), diagnose(sick()), 80, glyphs=ASCII))
    assert text.isascii()
    assert "! warning ens224" in text


# ----------------------------------------------------------------------------------------- Markdown


def test_markdown_has_sections_and_fences() -> None:
    text = check_markdown(sick(), diagnose(sick()))
    assert '### ▲ warning: ens224: uses the auto-generated profile "Wired connection 1"' in text
    assert "```\nnmcli con mod uuid 7777" in text
    assert text.count("```") % 2 == 0
    assert "| evidence | value | source |" in text


def test_hostile_text_is_escaped_in_markdown() -> None:
    text = check_markdown(healthy(), hostile(), skipped=True)
    outside, fence = [], ""
    for line in text.splitlines():
        if len(line) >= 3 and set(line) == {"`"} and (not fence or len(line) >= len(fence)):
            fence = "" if fence else line
        elif not fence:
            outside.append(line)
    assert not fence
    prose = "\n".join(outside)
    assert "<b>" not in prose.replace("\\<b\\>", "")
    assert "[/x]" not in prose.replace("\\[/x\\]", "")
    assert all(
        line.count("|") - line.count("\\|") == 4 for line in outside if line.startswith("| ev")
    )
    assert all(character == "\n" or character.isprintable() for character in text)


AUTOLINKS = (
    "www.evil.example",
    "(www.evil.example/path?a=b)",
    "http://evil.example",
    "https://evil.example/a_b_",
    "HTTPS://evil.example",
    "ftp://evil.example",
    "//evil.example/a",
    "mailto:me@evil.example",
    "xmpp:me@evil.example/x",
    "me@evil.example",
    "me.and_you+x@evil.example.",
    "me\\@evil.example",
    "@team",
    "evil.example",
    "evil.com",
    "http:\\//evil.example",
    "<http://evil.example>",
    "[a](http://evil.example)",
    "a www.evil.example b http://evil.example c me@evil.example d",
)


@pytest.mark.parametrize("text", AUTOLINKS)
@pytest.mark.parametrize("around", ["{}", "({})", "x{}", "a, {}: b", "*{}*"])
def test_no_text_becomes_a_link_in_markdown(text: str, around: str) -> None:
    """Rendered as GitHub does, with its search for mail addresses and names, which the escapes do
    not stop."""
    shown = around.replace("{}", text)
    html = MarkdownIt("gfm-like").render(escape_markdown(shown))
    assert "<a" not in html and "<em>" not in html
    pieces = re.split(r"<[^>]*>", html)
    assert not [piece for piece in pieces if re.search(r"@[\w-]", piece)]
    assert unescape("".join(pieces)).strip() == shown.strip(), "and nothing of it is lost"


PARTS = ("www", "http", ":", "/", ".", "@", "evil", "com", "\\", "<", " ", "-", "_")


@given(parts=st.lists(st.sampled_from(PARTS)))
def test_no_mixture_becomes_a_link_in_markdown(parts: list[str]) -> None:
    assert "<a" not in MarkdownIt("gfm-like").render(escape_markdown("".join(parts)))


def test_versions_addresses_and_interfaces_are_readable_in_markdown() -> None:
    for text in ("192.0.2.1/24", "5.14.0", "ens192.100", "1.5 Gbit/s", "/sys/class/net"):
        assert escape_markdown(text) == text


# --------------------------------------------------------------------------------------------- JSON


def test_json_matches_the_schema() -> None:
    schema = json.loads(check_schema())
    assert schema["$ref"] == "#/$defs/CheckDocument"
    assert set(schema["$defs"]["CheckDocument"]["properties"]) == set(
        CheckDocument.__dataclass_fields__
    )
    for hosts, diagnosis in (
        (sick(), diagnose(sick())),
        (healthy(), hostile()),
        ((), Diagnosis((), ())),
    ):
        text = check_json(hosts, diagnosis)
        assert text.isascii()
        matches_schema(json.loads(text), schema, schema["$defs"])


def test_json_has_unchanged_names() -> None:
    document = json.loads(check_json(healthy(), hostile()))
    assert document["findings"][0]["subject"] == HOSTILE
    assert document["skipped"][0]["reason"] == HOSTILE
    assert document["counts"] == {"critical": 0, "warning": 1, "info": 0}
    assert document["rules"] == len(RULES)
    assert document["hosts"][0]["root"] is True
    assert document["hosts"][0]["seconds"] == pytest.approx(10)


# --------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("severity", "fails"),
    [
        ("critical", ("critical", "warning", "info")),
        ("warning", ("warning", "info")),
        ("info", ("info",)),
    ],
)
def test_the_threshold(severity: Severity, fails: tuple[str, ...]) -> None:
    diagnosis = Diagnosis((finding(severity=severity),), ())
    assert [one for one in ("critical", "warning", "info") if has_severity(diagnosis, one)] == list(
        fails
    )
    assert not has_severity(Diagnosis((), ()), "info")


CAUSES = {"no_answer": (4, 4), "rights": (0, 4), "not_watched": (0, 4)}
"""Why a check was skipped → exit codes without and with --strict, when there is no finding."""


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
def test_skipped_checks_have_an_exit_code_of_their_own(
    scripted: ScriptedSource, monkeypatch: pytest.MonkeyPatch, cause: Cause, strict: bool
) -> None:
    diagnosis = Diagnosis((), (Skipped("a_rule", "guest", "", "it does not answer", cause),))
    monkeypatch.setattr("nictop.rules.diagnose", lambda hosts: diagnosis)
    assert main(["check", *(["--strict"] if strict else [])]) == CAUSES[cause][strict]


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 1), ("critical", 4)])
def test_findings_come_before_skipped_checks(
    scripted: ScriptedSource, monkeypatch: pytest.MonkeyPatch, fail_on: str, code: int
) -> None:
    diagnosis = Diagnosis(
        (finding(severity="warning"),), (Skipped("a_rule", "guest", "", "it does not answer"),)
    )
    monkeypatch.setattr("nictop.rules.diagnose", lambda hosts: diagnosis)
    assert main(["check", "--fail-on", fail_on]) == code


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> ScriptedSource:
    """A source in the place of the local probe, whose host has "Wired connection 1" and a warning
    for it."""
    source = ScriptedSource("guest")
    source.send(*lines_of_case("profiles", "profile_is_generated"))
    monkeypatch.setattr("nictop.wire.local.LocalSource", lambda *_, **__: source)
    return source


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("warning", 1), ("info", 1)])
def test_exit_codes(
    scripted: ScriptedSource, capsys: pytest.CaptureFixture[str], fail_on: str, code: int
) -> None:
    assert main(["check", "--fail-on", fail_on]) == code
    streams = capsys.readouterr()
    assert "1 warning" in streams.out
    assert streams.err == ""
    assert scripted.closed


@pytest.mark.parametrize(
    ("form", "first"), [("json", "{"), ("markdown", "## nictop check"), ("text", "guest · ")]
)
def test_formats(
    scripted: ScriptedSource, capsys: pytest.CaptureFixture[str], form: str, first: str
) -> None:
    assert main(["check", "--format", form]) == 1
    assert capsys.readouterr().out.startswith(first)


def test_every_link_with_a_device_is_watched_for_the_given_time(
    scripted: ScriptedSource, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--watch", "5", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"][0]["seconds"] == pytest.approx(5)
    (watched,) = [one.watch for one in scripted.requests if one.watch is not None]
    assert len(watched) == 2


def test_a_lost_host_is_unreachable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ScriptedSource("guest")
    source.send(SourceState("lost", "the probe ended with signal 9", 2.0))
    monkeypatch.setattr("nictop.wire.local.LocalSource", lambda *_, **__: source)
    assert main(["check"]) == 3
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "signal 9" in streams.err


def test_this_host_with_the_real_probe() -> None:
    done = run("check", "--format", "json", "--watch", "1", "--fail-on", "critical")
    document = json.loads(done.stdout)
    assert done.stderr == ""
    assert done.returncode == (1 if document["counts"]["critical"] else 0)
    assert document["hosts"][0]["host"] == os.uname().nodename
    assert document["hosts"][0]["seconds"] >= 0.9
    failed = [one for one in document["skipped"] if one["reason"].startswith("check failed")]
    assert failed == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("check", "--watch", "0.5"), "'0.5' is not a number of seconds (1 to 60)"),
        (("check", "--format", "xml"), "invalid choice: 'xml'"),
        (("check", "--fail-on", "never"), "invalid choice: 'never'"),
        (("check", "--explain", "profile_is_generate"), "did you mean profile_is_generated?"),
        (("check", "--explain", "\x1b[2Jzzzz"), "unknown rule"),
    ],
)
def test_wrong_usage(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert expected in streams.err
    assert "\x1b" not in streams.err


# ----------------------------------------------------------------------------------- pages of rules


def test_explain_prints_the_page_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--explain", "profile_is_generated"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("profile_is_generated  (profiles and names; ")
    squeezed = " ".join(page.split())
    assert " ".join(RULES["profile_is_generated"].explanation.split()) in squeezed


def test_explain_alone_lists_all_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--explain"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in RULES if f"  {name}  (" not in listed] == []
    assert listed == rule_list(120)


@pytest.mark.parametrize("room", [40, 80, 120])
def test_pages_fit_the_width(room: int) -> None:
    for rule in read_rules().values():
        assert (
            max(
                width(line)
                for line in rule_page(rule, room).splitlines()
                if not line.startswith(" ")
            )
            <= room
        )
    assert all(width(line) <= room or "  (" in line for line in rule_list(room).splitlines()[:-1])


def test_unknown_rules_are_an_error_with_similar_names() -> None:
    with pytest.raises(UnknownRule) as error:
        rule_named("generated")
    assert "profile_is_generated" in error.value.hint
    with pytest.raises(UnknownRule) as error:
        rule_named("qqqqqq")
    assert "lists all rules" in error.value.hint


def test_the_table_has_every_rule_once() -> None:
    table = rule_table()
    assert [name for name in RULES if table.count(f"| `{name}` |") != 1] == []
    assert all(
        line.count("|") - line.count("\\|") == 4
        for line in table.splitlines()
        if line.startswith("|")
    )
