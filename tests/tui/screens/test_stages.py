"""Unread is not "none": at each stage of a slow host's start, no view and no dialog says what that
stage does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from textual.screen import ModalScreen

from nictop.model.chain import STEPS
from nictop.model.text.glyphs import UNICODE
from nictop.rules import Diagnosis
from nictop.tui.widgets.devices.table import DeviceTable
from tests.support.lines import hello
from tests.support.screen import Screen, screen_with_hosts, wait_until
from tests.support.stages import STAGES, items_of, links_only, recorded_hosts

SIZE = (150, 50)
VIEWS = "1234567"
DIALOG_KEYS = ("e", "f", "o")
CLAIM = re.compile(
    r"\b(no|none|not|never|nothing|without|cannot|does not|all|off)\b", re.IGNORECASE
)
"""Words of sentences that exclude something: they are true only when it was read."""
PASSED = re.compile(rf"\b({'|'.join(STEPS)}) {UNICODE.passed}")
"""A layer of a NIC that the checks have found nothing about: only when they have run."""
UNKNOWN = re.compile(
    r"not (read|checked|measured) yet|not known|not ranked|unknown|waiting|yet\b|so far|not "
    r"connected"
)
"""Sentences that claim nothing."""
KNOWN_FROM: Mapping[str, str] = {
    r"no errors, drops": "links",
    r"off (Virtual|Packets)|against a host without a login": "no link",
    r"route none$|gateway – none|IOMMU group none|PCIe none": "links",
    r"not reported by firmware|not supported$|no limit|no VLAN|LLDP frames|reach the PF": "links",
    r"^none$|^off$": "links",
    r"all idle|no rate|^All$|^all$|── All|no network threads|no dedicated interrupts": "links",
    r"no peer found on other hosts|no test path|No test path": "machine",
    r"without a(?! login)( device)?|interfaces without": "machine",
    r"not a q|Not available|^Not listed: ": "links",
    r"nothing is applied|changes nothing that is shown|^No finding is chosen": "no link",
    r"^Off$|not supported by|peers . not asked": "machine",
    r"adaptive-rx|autonegotiation off|not reported by (driver|this)|XPS|RPS|^off \d$|no "
    r"interrupts were|^all [\d.]+|does not report|too little traffic": "machine",
    r"offloads|Offloads|segmentation|ethtool -K|LRO|Causes|do not restore|that are off|ust be "
    r"off": "machine",
    r"turned|on purpose|workaround|Not reported|features|nearly all|them on|nothing shows|ff on hosts|no "
    r"traffic": "machine",
    r"No problems found|All checks": "all",
    r"NetworkManager|networkd|netplan|profile|Managed by|not managed|not restarted": "all",
}
"""Pattern → the first stage at which a sentence may exclude something of this kind: its source has
been read."""


@pytest.fixture(autouse=True)
def no_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of whoever runs the tests are not shown."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def sentences(screen: Screen) -> set[str]:
    """Parts of the drawn rows that exclude something; of a dialog alone, as it cuts the rows of the
    view."""
    rows = screen.drawn()
    if isinstance(screen.app.screen, ModalScreen):
        dialog = screen.app.screen.children[-1].region
        assert dialog.height
        rows = [row[dialog.x : dialog.right] for row in rows[dialog.y : dialog.bottom]]
    found = set()
    for row in rows:
        for part in re.split(r"[│╭╮╰╯▌]| {3,}", row):
            text = " ".join(part.split())
            if CLAIM.search(text) or PASSED.search(text):
                found.add(text)
    return found


def is_allowed(sentence: str, stage: str) -> bool:
    """It claims nothing, or rests on what was read by then."""
    if PASSED.search(sentence):
        return stage == "all"
    if UNKNOWN.search(sentence):
        return True
    first = [
        known_from for pattern, known_from in KNOWN_FROM.items() if re.search(pattern, sentence)
    ]
    return bool(first) and all(STAGES.index(stage) >= STAGES.index(one) for one in first)


async def shown(screen: Screen, *, has_links: bool) -> set[str]:
    """What all views and dialogs say now."""
    found: set[str] = set()

    async def note() -> None:
        """Notices are over what the views say: they are read apart from these."""
        await screen.settle()
        found.update(one.message for one in screen.app._notifications if CLAIM.search(one.message))
        screen.app.clear_notifications()
        await screen.settle()
        found.update(sentences(screen))

    for view in VIEWS:
        await screen.press(view)
        await note()
        if view == "1" and has_links:
            for keys in (("enter",), ("c",), ("escape", "escape", "escape", "1", "down")):
                await screen.press(*keys)
                await note()
        for key in DIALOG_KEYS:
            await screen.press(key)
            await note()
            for _ in range(3):
                if isinstance(screen.app.screen, ModalScreen):
                    await screen.press("escape")
    return found


async def test_no_sentence_says_more_than_the_stage_of_the_start_knows() -> None:
    """Texts that are there when nothing is known are not about the hosts."""
    names = tuple(recorded_hosts())
    async with screen_with_hosts(*names, size=SIZE) as (screen, hosts):
        about_nothing: set[str] = set()
        wrong = []
        for stage in STAGES[:-1]:
            for name in names:
                hosts[name].send(*items_of(name)[stage])
                await wait_until(screen, lambda name=name: hosts[name].is_drained)  # type: ignore[misc]
            await wait_until(screen, lambda: not screen.nictop.hosts.pending)
            found = await shown(screen, has_links=stage in ("links", "machine"))
            if stage == STAGES[0]:
                about_nothing = {one for one in found if not re.search("|".join(names), one)}
                claims = [pattern for pattern, first in KNOWN_FROM.items() if first == "all"]
                assert not [one for one in found if re.search("|".join(claims), one)]
            wrong += [
                f"{stage}: {one}"
                for one in sorted(found - about_nothing)
                if not is_allowed(one, stage)
            ]
        assert wrong == [], "\n".join(wrong)


async def test_a_host_of_which_only_links_are_known_is_left_alone() -> None:
    """The rules cannot be run on it: trying again and again would use a whole CPU until its
    settings are read."""
    name, *_ = recorded_hosts()
    _, whole, _ = recorded_hosts()[name]
    runs = 0
    async with screen_with_hosts(name) as (screen, hosts):
        diagnosis = screen.nictop.diagnosis
        now = diagnosis.now

        def counted() -> None:
            nonlocal runs
            runs += 1
            now()

        diagnosis.now = counted  # type: ignore[method-assign]
        hosts[name].send(*items_of(name)["no link"], hello())
        hosts[name].send(*items_of(name)["links"])
        await wait_until(
            screen, lambda: screen.app.screen.query_one(DeviceTable).chosen is not None
        )
        await screen.settle()
        assert links_only(whole).pending and runs <= 2


async def test_of_two_hosts_only_what_was_checked_is_told() -> None:
    """One is read, of the other one the interfaces, then all but its network managers: neither its
    findings are counted, nor are its networks compared with those of the other one, nor has a check
    run of which it is not said that it was that of the other one."""
    first, second = recorded_hosts()
    async with screen_with_hosts(first, second, size=SIZE) as (screen, hosts):
        for name, last in ((first, "all"), (second, "links")):
            for stage in STAGES[: STAGES.index(last) + 1]:
                hosts[name].send(*items_of(name)[stage])
            await wait_until(screen, lambda name=name: hosts[name].is_drained)  # type: ignore[misc]
        await wait_until(screen, lambda: screen.nictop.diagnosis.result is not None)
        assert screen.nictop.hosts.unread(Diagnosis((), (), (first,))) == (second,)
        await screen.press("5")
        await screen.settle()
        drawn = "\n".join(screen.drawn())
        assert re.search(rf"what it is connected to is not known yet; not read: {second}", drawn), (
            drawn
        )
        assert "is also on" not in drawn and "shares " not in drawn
        assert _findings_cell(screen, second) == "–"
        hosts[second].send(*items_of(second)["machine"])
        await wait_until(
            screen, lambda: second in (screen.nictop.diagnosis.result or Diagnosis((), ())).hosts
        )
        await screen.settle()
        assert _findings_cell(screen, second) != "0"


def _findings_cell(screen: Screen, name: str) -> str:
    """In the table of hosts."""
    drawn = screen.drawn()
    header = next(number for number, row in enumerate(drawn) if "FINDINGS" in row)
    end = drawn[header].index("FINDINGS") + len("FINDINGS")
    row = next(row for row in drawn[header:] if f" {name} " in row)
    return row[:end].split()[-1]


@pytest.mark.parametrize("key", ["e", "f", "y"])
async def test_keys_say_why_they_do_nothing_before_the_interfaces_are_read(key: str) -> None:
    name, *_ = recorded_hosts()
    async with screen_with_hosts(name, size=SIZE) as (screen, hosts):
        for stage in STAGES[: STAGES.index("links")]:
            hosts[name].send(*items_of(name)[stage])
            await wait_until(screen, lambda: hosts[name].is_drained)
            await wait_until(screen, lambda: not screen.nictop.hosts.pending)
            screen.app.clear_notifications()
            for view in ("1", "2", "4"):
                await screen.press(view, key)
                await screen.settle()
                told = [one.message for one in screen.app._notifications]
                assert told and all(f"{name}: interfaces were not read yet" in one for one in told)


async def test_findings_shows_the_steps_until_the_checks_can_run() -> None:
    """The interfaces are known before what the checks need."""
    (name, *_) = recorded_hosts()
    async with screen_with_hosts(name, size=(80, 24)) as (screen, hosts):
        for stage in STAGES[: STAGES.index("links") + 1]:
            hosts[name].send(*items_of(name)[stage])
        await wait_until(screen, lambda: hosts[name].is_drained and not screen.nictop.hosts.pending)
        await screen.press("4")
        await screen.settle()
        rows = [row.strip() for row in screen.drawn()]
        assert f"{name}: reading inventory" in rows
        assert any(row.startswith("◌ read the inventory") for row in rows), rows
        assert "· run the checks" in rows
