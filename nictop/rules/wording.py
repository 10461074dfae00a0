"""Text of findings, the same for screen, report and README.

Reads nothing; the text is raw (`nictop.model.facts.clean` is applied where it is shown). Commands
are broken into lines of a given width in such a way that the lines together are the same command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from nictop.model.facts import Tone, clean, width
from nictop.model.snapshot import SINCE_TEXTS, Snapshot, inventory_age
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import cut_word
from nictop.model.text.units import whole_seconds
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules.finding import SEVERITIES, Finding, Fix, Severity, Skipped, WhereToType
from nictop.rules.fixes.commands import PLACEHOLDER, Step
from nictop.rules.registry import FAMILIES, RULES, TOO_FEW_READINGS, Diagnosis, Rule
from nictop.rules.subjects import names_text
from nictop.rules.unchecked import NOT_CHECKED_AGAIN


@dataclass(frozen=True)
class SeverityLabel:
    """Word and tone of a severity. They are shown with its mark, so that colour is not the only
    difference."""

    word: str
    tone: Tone


SEVERITY_LABELS: dict[Severity, SeverityLabel] = {
    "critical": SeverityLabel("critical", "bad"),
    "warning": SeverityLabel("warning", "warn"),
    "info": SeverityLabel("info", "normal"),
}
UNKNOWN_MARK = "?"
"""Of a step that nothing was read of, and of findings before they are checked again."""
CLEAR = "No problems found"
CLEAR_BEFORE = "no problems found before"
LOST_SUBJECT = "whose NIC is gone or down"
"""Behind the number of findings that were lost with their NIC."""
OLD_SECONDS = 60.0
MAX_UNREAD_NAMES, MAX_MISSING_SOURCES = 3, 2
"""Names in one line."""
RETRY_FOLLOWS = "retry follows"
"""Of sources that failed: the probe reads them again after some seconds, and less and less
often."""
SKIPPED_LABEL = "skipped"
"""Label of a check that could not be made."""

PLACE_TEXTS: dict[WhereToType, str] = {
    "here": "on this host",
    "peer": "on the other host",
    "hypervisor": "on the Linux hypervisor",
    "esxi": "on the ESXi host",
    "proxmox": "on the Proxmox VE host",
    "libvirt": "on the libvirt host",
    "ahv": "on a Nutanix AHV host or CVM",
    "hyperv": "on the Hyper-V host (PowerShell)",
    "azure": "with the Azure CLI",
    "cloud": "at the cloud provider",
    "firmware": "in the firmware setup",
    "switch": "on the switch",
    "other end": "in the network namespace at its other end",
}

CONTINUATION_INDENT = "  "
LINE_CONTINUATION = " \\"
"""At the end of a line of a command that continues in the next line."""

WORD_CONTINUATION = "\\"
"""The same within a word."""
QUOTE, SPECIAL = "'", frozenset("'\"\\`$ ")
"""That of a shell, and characters within which a word is not broken."""
MIN_MARKED_CELLS = 10
"""Of a line whose word is broken so."""

POWERSHELL_LINE_CONTINUATION = " `"


def severity_mark(severity: Severity, *, glyphs: Glyphs = UNICODE) -> str:
    return {"critical": glyphs.critical, "warning": glyphs.warning, "info": glyphs.note}[severity]


def finding_mark(finding: Finding, *, glyphs: Glyphs = UNICODE) -> str:
    """That of its severity; "?" of one that may have changed, as its severity may have, too."""
    return UNKNOWN_MARK if finding.outdated else severity_mark(finding.severity, glyphs=glyphs)


def where_text(host: str, fix: Fix) -> str:
    """``on alma-load-001``, ``on the ESXi host``, ``in namespace b``: where to apply a fix of a
    finding of this host, by name if that is known."""
    name = host if fix.where == "here" else fix.peer
    if name and fix.where == "other end":
        return f"in {name}"
    return f"on {name}" if name else PLACE_TEXTS[fix.where]


def place_text(host: str, fix: Fix) -> str:
    """``on alma-load-001, survives a reboot``: the same, and whether it survives a reboot, if that
    is known and its title does not say so."""
    persistence = {True: "survives a reboot", False: "until the next reboot", None: ""}[
        fix.persistent
    ]
    words = [where_text(host, fix)]
    if persistence and persistence not in fix.title:
        words.append(persistence)
    return ", ".join(words)


def placeholders(lines: Iterable[Step | str]) -> tuple[str, ...]:
    """Placeholders such as ``<VM>``, which the user must replace, in order, each once."""
    return tuple(dict.fromkeys(found for line in lines for found in PLACEHOLDER.findall(str(line))))


def filled_note(fix: Fix) -> str:
    """The note of a fix whose placeholders are filled in; "": it is only about filling them in."""
    return "" if placeholders([fix.note]) else fix.note


def fixes_with_commands(finding: Finding) -> tuple[Fix, ...]:
    """The fixes that have commands, the best first."""
    return tuple(fix for fix in finding.fixes if fix.commands)


def more_commands(number: int) -> str:
    """After the first command of a fix that has `number` others."""
    return f"and {count_noun(number, 'more command')}, copied with it"


def severity_counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """How many of each severity, worst first; severities without any have 0."""
    found = [finding.severity for finding in findings]
    return {severity: found.count(severity) for severity in SEVERITIES}


def severity_badges(
    severities: Iterable[Severity],
    *,
    shown: Sequence[Severity] = ("critical", "warning"),
    glyphs: Glyphs = UNICODE,
) -> list[tuple[str, Tone]]:
    """``✖1``, ``▲4``: the number of each severity of `shown` that occurs, behind its own mark,
    worst first."""
    severities = list(severities)
    badges: list[tuple[str, Tone]] = []
    for severity in SEVERITIES:
        number = severities.count(severity)
        if severity in shown and number:
            badges.append(
                (
                    f"{severity_mark(severity, glyphs=glyphs)}{number}",
                    SEVERITY_LABELS[severity].tone,
                )
            )
    return badges


def finding_badges(
    findings: Iterable[Finding],
    *,
    shown: Sequence[Severity] = ("critical", "warning"),
    glyphs: Glyphs = UNICODE,
) -> list[tuple[str, Tone]]:
    """`severity_badges` of findings; ``▲2?`` where some of them may have changed, or were not
    checked again."""
    findings = list(findings)
    doubtful = {finding.severity for finding in findings if finding.outdated}
    sure = {finding.severity for finding in findings if not finding.outdated}
    badges: list[tuple[str, Tone]] = []
    for severity in shown:
        severities = [one.severity for one in findings if one.severity == severity]
        for text, tone in severity_badges(severities, shown=(severity,), glyphs=glyphs):
            mark = UNKNOWN_MARK if severity in doubtful else ""
            badges.append((f"{text}{mark}", tone if severity in sure else "dim"))
    return badges


def severity_counts_text(findings: Iterable[Finding]) -> str:
    """``1 critical · 2 warnings · 1 info``; "" when there are none."""
    parts = []
    for severity, number in severity_counts(findings).items():
        if number:
            plural = "s" if severity == "warning" and number > 1 else ""
            parts.append(f"{number} {SEVERITY_LABELS[severity].word}{plural}")
    return " · ".join(parts)


def checks_text(
    diagnosis: Diagnosis,
    unread: Sequence[str] = (),
    *,
    brief: bool = False,
    waits: bool = False,
    why: bool = False,
) -> str:
    """``98 of 98 checks ran``, ``95 of 98 checks ran, 3 skipped``; ``vm2: 95 of 98 checks ran, 3
    skipped`` where other hosts, `unread`, are not checked; ``95 of 98 checks ran, 3 skipped on
    vm2`` where all of them ran on other hosts. `brief`: ``3 of 5 hosts`` in place of names.
    `waits`: some are only waiting for their source. `why`: with the sources that were missing:
    ``3 skipped on vm2: NetworkManager``."""
    number, skipped = len(RULES), len({check.rule for check in diagnosis.skipped})
    ran = f"{number - skipped} of {number} checks ran"
    if unread and diagnosis.hosts:
        names = first_names(_hosts_read(diagnosis, unread))
        if brief:
            names = _number_of_hosts(diagnosis, unread)
        ran = f"{names}: {ran}"
    if not skipped:
        return ran
    where = "" if brief else _skipped_where(diagnosis)
    text = f"{ran}, {skipped} {_why_not(diagnosis.skipped, waits=waits)}{where}"
    if why:
        text += f": {names_text(missing_sources(diagnosis), MAX_MISSING_SOURCES)}"
    return text


def _why_not(skipped: Sequence[Skipped], *, waits: bool) -> str:
    if waits or all(map(_is_waiting, skipped)):
        return "waiting"
    return "waiting or skipped" if any(map(_is_waiting, skipped)) else "skipped"


def _number_of_hosts(diagnosis: Diagnosis, unread: Sequence[str]) -> str:
    """``3 of 5 hosts``: those that were changed since they were read are among the latter."""
    names = set(map(_without_since, unread))
    return f"{len(_hosts_read(diagnosis, unread))} of {len(names.union(diagnosis.hosts))} hosts"


def _hosts_read(diagnosis: Diagnosis, unread: Sequence[str]) -> Sequence[str]:
    """Those that were checked, without those of `unread` that have changed since; all of them if
    there is no other."""
    changed = {name for name in map(_without_since, unread) if name not in unread}
    return [name for name in diagnosis.hosts if name not in changed] or diagnosis.hosts


def _without_since(name: str) -> str:
    for text in SINCE_TEXTS:
        name = name.removesuffix(text)
    return name


def _skipped_where(diagnosis: Diagnosis) -> str:
    """`` on vm2``; "": on all hosts, or it is not known where."""
    places = {check.host for check in diagnosis.skipped}
    hosts = [name for name in diagnosis.hosts if name in places]
    is_everywhere = len(hosts) == len(diagnosis.hosts) or not places <= {*hosts}
    return "" if is_everywhere else f" on {first_names(hosts)}"


def is_checked(diagnosis: Diagnosis | None, snapshot: Snapshot) -> bool:
    """The diagnosis is about this host, and rests on all of its inventory: no source is still being
    read, now or then. Rates may be missing."""
    if diagnosis is None or snapshot.inventory is None or snapshot.inventory.pending:
        return False
    skipped = [
        check
        for check in diagnosis.skipped
        if check.host == snapshot.host and check.reason != TOO_FEW_READINGS
    ]
    return snapshot.host in diagnosis.hosts and has_read_all(skipped)


def all_clear(
    diagnosis: Diagnosis,
    *,
    unread: Sequence[str] = (),
    named: bool = True,
    live: bool = False,
    lost: int = 0,
    glyphs: Glyphs = UNICODE,
) -> tuple[str, Tone]:
    """`verdict_text` and what it rests on: ``· No problems found (95 of 98 checks ran, 3 skipped:
    kernel messages)``. `named`: with the sources that were missing. `live`: those that failed are
    read again by themselves."""
    verdict, tone = verdict_text(diagnosis, unread=unread, live=live, lost=lost, glyphs=glyphs)
    waits = live and is_any_retried(diagnosis)
    basis = checks_text(diagnosis, unread, waits=waits)
    if waits:
        basis += f", {RETRY_FOLLOWS}"
    missing = missing_sources(diagnosis) if named and not diagnosis.findings else ()
    if missing:
        basis += f": {names_text(missing, MAX_MISSING_SOURCES)}"
    return f"{verdict} ({basis})", tone


def settings_age_text(snapshots: Iterable[Snapshot]) -> str:
    """``settings read up to 76 s ago``: the oldest of what the checks rest on, from
    `OLD_SECONDS` on; many settings have no event (docs/hosts.md). "": newer, or not known."""
    ages = [age for one in snapshots if (age := inventory_age(one)) is not None]
    if not ages or max(ages) < OLD_SECONDS:
        return ""
    most = "up to " if len(ages) > 1 else ""
    return f"settings read {most}{whole_seconds(max(ages))} ago"


def is_any_retried(diagnosis: Diagnosis) -> bool:
    """Checks were skipped because of a source that is read again by itself."""
    return any(check.is_retried for check in diagnosis.skipped)


def missing_sources(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Sources because of which checks were skipped, those of most checks first: ``NetworkManager``,
    ``ethtool``."""
    counts = Counter(
        check.reason.partition(":")[0].partition(" (")[0] for check in diagnosis.skipped
    )
    return tuple(name for name, _ in counts.most_common())


def verdict_text(
    diagnosis: Diagnosis,
    *,
    unread: Sequence[str] = (),
    live: bool = False,
    lost: int = 0,
    glyphs: Glyphs = UNICODE,
) -> tuple[str, Tone]:
    """(text, tone): ``2 warnings``, ``✓ No problems found``. Without a tick, as a warning, what may
    have missed some: ``· No problems found so far``: sources are still being read, or (`live`) read
    again; ``· No problems found; not read: vm2``. `unread`: names of hosts that are not checked.
    `lost`: number of findings whose NIC is gone or down: nobody has mended them."""
    found = severity_counts_text(diagnosis.findings)
    if found:
        return found, "normal"
    if diagnosis.unchecked:
        old = severity_counts_text(diagnosis.unchecked)
        return f"{glyphs.note} {old} {NOT_CHECKED_AGAIN}", "warn"
    if not diagnosis.skipped and not unread and not lost:
        return f"{glyphs.passed} {CLEAR}", "good"
    if _is_all_outdated(diagnosis, unread):
        return f"{glyphs.note} Not read: {first_names(unread)}; {CLEAR_BEFORE}", "warn"
    text = f"{glyphs.note} {CLEAR}"
    if not has_read_all(diagnosis.skipped) or (live and is_any_retried(diagnosis)):
        text += " so far"
    if unread:
        text += f"; not read: {first_names(unread)}"
    if lost:
        text += f"; {count_noun(lost, 'finding')} {LOST_SUBJECT}"
    return text, "warn"


def passed_texts(
    diagnosis: Diagnosis, unread: Sequence[str] = (), *, live: bool = False, key: str = ""
) -> list[str]:
    """Sentences about a diagnosis without findings: which checks passed, why others did not run,
    and the hosts of `unread`, about which nothing is known. `live`: what failed is read again;
    `key`: it lists the skipped checks."""
    texts = [_passed_text(diagnosis, unread, key)]
    if unread:
        not_read = f"Not read, so not checked: {first_names(unread)}."
        place = 0 if _is_all_outdated(diagnosis, unread) else 1
        texts.insert(place, not_read)
    retried: dict[str, bool] = {}
    for check in diagnosis.skipped:
        retried[check.reason] = retried.get(check.reason, False) or check.is_retried
    for reason in sorted(retried):
        follows = f"; {RETRY_FOLLOWS}" if live and retried[reason] else ""
        word = "Waiting for" if reason.endswith(NOT_READ_YET) else "Skipped"
        texts.append(f"{word}: {reason}{follows}")
    return texts


def _passed_text(diagnosis: Diagnosis, unread: Sequence[str], key: str) -> str:
    if not has_read_all(diagnosis.skipped):
        return "The checks that could run so far passed; the others wait for what is being read."
    if diagnosis.skipped:
        press = f" Press {key} for skipped checks." if key else ""
        return f"All checks that ran passed.{press}"
    if _is_all_outdated(diagnosis, unread):
        return "All checks passed before that."
    if unread:
        return "All checks of the hosts that were read passed."
    return "All checks passed."


def _is_all_outdated(diagnosis: Diagnosis, unread: Sequence[str]) -> bool:
    """Each host that was checked is among `unread`, with one of `SINCE_TEXTS` behind its name: what
    the checks say is of before."""
    outdated = [any(name + since in unread for since in SINCE_TEXTS) for name in diagnosis.hosts]
    return bool(outdated) and all(outdated)


def has_read_all(skipped: Iterable[Skipped]) -> bool:
    """No check waits for a source that is still being read."""
    return not any(map(_is_waiting, skipped))


def _is_waiting(check: Skipped) -> bool:
    return check.reason.endswith(NOT_READ_YET)


def first_names(hosts: Sequence[str]) -> str:
    """``vm2, vm3 and 2 more``"""
    return names_text([clean(host) for host in hosts], MAX_UNREAD_NAMES)


def subject_text(about: Finding | Skipped, *, several_hosts: bool) -> str:
    """``ens224``; ``vm1 ens224`` if several hosts are watched; ``vm1`` if the subject is the host
    itself."""
    if about.subject and not several_hosts:
        return about.subject
    return f"{about.host} {about.subject}".strip()


def headline(finding: Finding, *, several_hosts: bool) -> str:
    """``ens224: no DHCP reply yet``: the subject and the title of a finding."""
    return f"{subject_text(finding, several_hosts=several_hosts)}: {finding.title}"


def rules_by_family() -> Iterator[tuple[str, tuple[Rule, ...]]]:
    """Families in their order, each with its rules in the order of evaluation."""
    for family in FAMILIES.values():
        members = tuple(rule for rule in RULES.values() if rule.family == family)
        if members:
            yield family, members


# ----------------------------------------------------------------------------------------- commands


def command_lines(
    step: Step,
    cells: int,
    *,
    where: WhereToType = "here",
    cut: bool = True,
    shown: Callable[[str], str] = clean,
) -> tuple[str, ...]:
    continued = POWERSHELL_LINE_CONTINUATION if where == "hyperv" else LINE_CONTINUATION
    words = [shown(word) for word in step.words] or [""]
    lines = _filled_lines(words, cells, continued)
    if not cut:
        return tuple(lines)
    found: list[str] = []
    for line in lines:
        found += _parts_of_line(line, cells, continued)
    return tuple(found)


def _filled_lines(words: Sequence[str], cells: int, continued: str) -> list[str]:
    """As many words in each line as fit; all lines but the last end with `continued`."""
    lines: list[str] = []
    line = words[0]
    for number, word in enumerate(words[1:], 2):
        candidate = f"{line} {word}"
        room = cells if number == len(words) else cells - width(continued)
        if width(candidate) <= room:
            line = candidate
            continue
        lines.append(line + continued)
        fits = width(CONTINUATION_INDENT + word + continued) <= cells
        line = CONTINUATION_INDENT + word if fits else word
    return [*lines, line]


def _parts_of_line(line: str, cells: int, continued: str) -> Sequence[str]:
    """The line; of a single word that is wider, the parts of that."""
    if width(line) <= cells:
        return (line,)
    if continued != LINE_CONTINUATION or cells < MIN_MARKED_CELLS:
        # PowerShell has no mark within a word
        return cut_word(line, max(2, cells))
    end = continued if line.endswith(continued) else ""
    *parts, last = _parts_of_word(line[: len(line) - len(end)], cells - width(end))
    return (*parts, last + end)


def _parts_of_word(word: str, cells: int) -> Sequence[str]:
    """Parts that a shell reads as the same word: a backslash at the end of a line joins it with the
    next one, and a quotation is ended before it and begun again behind it. Where quoting is mixed,
    they are only cut."""
    quoted = word[1:-1]
    if word[:1] == word[-1:] == QUOTE and QUOTE not in quoted:
        parts = [f"{QUOTE}{part}{QUOTE}" for part in cut_word(quoted, max(2, cells - 3))]
    elif SPECIAL.isdisjoint(word):
        parts = cut_word(word, cells - 1)
    else:
        return cut_word(word, cells)
    return [*(part + WORD_CONTINUATION for part in parts[:-1]), parts[-1]]
