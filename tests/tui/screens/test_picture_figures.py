"""The sentences of each picture of a test agree with the figures in the same picture, and no
picture needs a font."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from nictop.report.runs.text import run_text
from tests.support.kept_runs import kept_runs
from tests.support.picture import text_of
from tests.tui.screens.test_screenshots import PICTURES

ANIMATED = "demo-animated"
"""Several screens, each checked where it is drawn."""
NAMES = sorted(path.stem for path in PICTURES.glob("*.svg") if path.stem != ANIMATED)
FACTORS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "n": 1e-9, "µ": 1e-6, "m": 1e-3}
NUMBER = r"(\d+(?:\.\d+)?)"
RATE, SECONDS = NUMBER + r" ([kMG]?)b/s", NUMBER + r" ([nµm]?)s"
SELF_TEST_NIC = "nictop0"
"""Between two network namespaces: both hosts have the same CPUs."""
FULL_SHARE = 95
"""Per cent from which on a CPU can be a bottleneck."""
ROUNDING = 0.012
"""Figures have three digits, percentages two: shares of what they say."""

Claims = Iterator[tuple[str, bool]]
"""(what the picture says, whether its figures agree)"""


def value(number: str, prefix: str) -> float:
    return float(number) * FACTORS[prefix]


def equal(a: float, b: float, tolerance: float = ROUNDING) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def found(pattern: str, text: str) -> Sequence[tuple[str, ...]]:
    """All matches, with their groups."""
    return [match.groups() for match in re.finditer(pattern, text)]


def one_line(lines: Sequence[str]) -> str:
    """The text with its sentences, which are wrapped, in one line."""
    return re.sub(r"\s+", " ", " ".join(lines))


# ------------------------------------------------------------------------------------------ goodput


def goodput(lines: Sequence[str]) -> Claims:
    """The result beside the title, the sentence, the share of the line rate, and the cost of each
    Gb/s."""
    text = one_line(lines)
    received = found(RATE + r" received by", text)
    if len(received) != 1:
        return
    rate = value(*received[0])
    title = next(
        (line for line in lines if line.lstrip("│ ").startswith("▸")), lines[2]
    )  # the chosen one of a list
    yield f"title: {title}", any(equal(value(*one), rate) for one in found(RATE, title))
    for (share,) in found(NUMBER + r" % of line rate", text):
        limits = [value(*one) for one in found(r"line rate " + RATE, text)]
        yield (
            f"{share} % of line rate",
            bool(limits) and abs(100 * rate / limits[0] - float(share)) <= 0.6,
        )
    for host, busy, cost in found(
        r"(\S+): " + NUMBER + r" of \d+ cores? busy on average, " + NUMBER + " core per", text
    ):
        yield f"{host}: {cost} core per Gb/s", equal(float(busy) / (rate / 1e9), float(cost), 0.03)


def latency(lines: Sequence[str]) -> Claims:
    """Percentiles of the legend, the title and the sentence; the rate; the histogram beside the
    chart."""
    text = one_line(lines)
    for number, prefix, count, seconds in found(
        NUMBER + r" ([kM]?) ?transactions/s \((\d+) in " + NUMBER + " s", text
    ):
        yield "transactions/s", equal(value(number, prefix), int(count) / float(seconds))
        bars = [
            int(one)
            for line in lines
            for (one,) in found(r"\d [µm]?s [█▏▎▍▌▋▊▉]+\s+(\d+)(?= |$)", line)
        ]
        yield f"histogram: {sum(bars)} of {count}", not bars or sum(bars) == int(count)
        p50 = found("latency p50 " + SECONDS, text)[0]
        yield f"title: {lines[2]}", found("p50 " + SECONDS, lines[2]) == [p50]
        yield "legend", all(one == p50 for one in found("█ p50 " + SECONDS, text))
    change = (
        "p50 " + SECONDS + " idle, " + SECONDS + r" loaded \(" + NUMBER + "×: " + SECONDS + " more"
    )
    for match in found(change, text):
        idle, loaded, more = (value(*match[at : at + 2]) for at in (0, 2, 5))
        yield f"{match[4]}×", equal(loaded / idle, float(match[4]))
        yield f"{match[5]} {match[6]}s more", equal(loaded - idle, more)
        yield f"title: {lines[2]}", found("p50 " + SECONDS + " idle", lines[2]) == [match[:2]]


# -------------------------------------------------------------------------------------------- hosts


def host_figures(lines: Sequence[str]) -> dict[str, str]:
    """Host → its line with CPU, as it is drawn."""
    rows = [
        re.match(r"\s*(?:TX|RX|client|server|observer) ([^:\s]+)\S*\s+(CPU\s+\d+ % of .*)", line)
        for line in lines
    ]
    return {row[1]: re.sub(r"\s+", " ", row[2]) for row in rows if row is not None}


def cpus(lines: Sequence[str]) -> Claims:
    """A CPU that limits is full, and the busiest one of its host; busy cores are those of the line
    of the host."""
    text, hosts = one_line(lines), host_figures(lines)
    hottest = {
        host: int(found(r"hottest CPU\d+ (\d+) %", line)[0][0]) for host, line in hosts.items()
    }
    for line in lines:
        for _, host, after in found(
            r"CPU (\d+) on (\S+?)(?: \((?:receiver|sender)\))?[, ](.*)", line
        ):
            is_limit = line.startswith(" bottleneck") or line.rstrip().endswith("cause")
            if is_limit and host in hottest:
                yield f"CPU of {host} {after.strip()}", hottest[host] >= FULL_SHARE
        if line.startswith(" bottleneck") and re.search(r"CPU \d+ is full", line):
            yield line, max(hottest.values(), default=0) >= FULL_SHARE
    for host, busy, cores in found(r"(\S+): " + NUMBER + r" of (\d+) cores? busy on average", text):
        share = 100 * float(busy) / int(cores)
        drawn = found(r"CPU (\d+) % of", hosts.get(host, ""))
        yield (
            f"{host}: {busy} of {cores} cores",
            all(abs(share - int(one)) <= 1 for (one,) in drawn),
        )


def ends(lines: Sequence[str]) -> Claims:
    """Two hosts do not have the same figures, unless both are this machine."""
    hosts = [line for host, line in host_figures(lines).items() if not host.startswith("local")]
    if len(hosts) == 2 and SELF_TEST_NIC not in one_line(lines):
        yield "figures of both hosts", hosts[0] != hosts[1]


# -------------------------------------------------------------------------- comparisons, path tests


def comparison(lines: Sequence[str]) -> Claims:
    """The ratio lies in its interval, agrees with its percentage, and with the medians of both
    set-ups."""
    text = one_line(lines)
    verdicts = found(
        r"= "
        + NUMBER
        + r"× (?:the ([A-Za-z]+) )?of .*?\(([-+]\d+) %, 95 % CI "
        + NUMBER
        + "–"
        + NUMBER,
        text,
    )
    for ratio, other_figure, percent, low, high in verdicts:
        yield f"{ratio}×", float(low) <= float(ratio) <= float(high)
        yield f"{percent} %", abs(100 * (float(ratio) - 1) - int(percent)) <= 1
        unit = NUMBER + "()( s| cores)" if other_figure else RATE
        rows = found(r"[ ]([AB]) (?:[┄●◆ ]|\d(?=┄))+ " + unit + r" \d+ runs", "\n".join(lines))
        medians = {row[0]: value(row[1], row[2]) for row in rows}
        yield (
            f"medians of {ratio}×",
            not medians or float(low) <= medians["B"] / medians["A"] <= float(high),
        )


def unranked_comparison(lines: Sequence[str]) -> Claims:
    """The ratio is that of both medians, and so is its percentage."""
    medians = f"A {RATE}, B {RATE} \\(medians\\): B/A {NUMBER} \\(([-+]\\d+) %[,)]"
    for match in found(medians, one_line(lines)):
        ratio = value(*match[2:4]) / value(*match[:2])
        yield f"B/A {match[4]}", equal(ratio, float(match[4]))
        yield f"{match[5]} %", abs(100 * (ratio - 1) - int(match[5])) <= 1


def workload(lines: Sequence[str]) -> Claims:
    """The figure of the command is that of the title, and of one of the bars."""
    for figure in found(r"figure .*? " + RATE + r", reported by the command", one_line(lines)):
        bars = [one for line in lines for one in found(r"[█▏▎▍▌▋▊▉] +" + RATE + r" *$", line)]
        yield f"title: {lines[2]}", found(RATE, lines[2]) == [figure]
        yield f"bars: {bars}", figure in bars


def path_test(lines: Sequence[str]) -> Claims:
    """The size that a finding names is the one that was measured."""
    text = re.sub(r"[│╭╰]", " ", " ".join(lines))
    text = re.sub(r"\s+", " ", text)
    for (size,) in found(r"packets above (\d+) bytes are lost", text):
        yield f"{size} bytes", bool(re.search(rf"largest packet to \S+: {size} of \d+ bytes", text))


CHECKS: tuple[Callable[[Sequence[str]], Claims], ...] = (
    goodput,
    latency,
    cpus,
    ends,
    comparison,
    unranked_comparison,
    workload,
    path_test,
)


def claims(lines: Sequence[str]) -> list[tuple[str, bool]]:
    return [claim for check in CHECKS for claim in check(lines)]


def wrong(lines: Sequence[str]) -> list[str]:
    return [says for says, agrees in claims(lines) if not agrees]


@pytest.mark.parametrize("name", NAMES)
def test_the_sentences_of_a_picture_agree_with_its_figures(name: str) -> None:
    assert wrong(text_of((PICTURES / f"{name}.svg").read_text())) == []


OF_TESTS = ("traffic-", "lab-", "replay-run-120x36", "path-")
WITHOUT_RESULT = ("traffic-form-120x36", "traffic-form-80x24")


@pytest.mark.parametrize(
    "name", [one for one in NAMES if one.startswith(OF_TESTS) and one not in WITHOUT_RESULT]
)
def test_each_picture_of_a_test_has_something_to_check(name: str) -> None:
    assert claims(text_of((PICTURES / f"{name}.svg").read_text()))


INVENTED = """\
 nictop 1 Devices 2 Queues 3 CPUs 4 Findings 5 Hosts 2 6 Traffic │7 Results│
 [● vm1 ]  ● vm2
 vm1:ens224 → vm2:ens224 · TCP ×1 · 20 s                                                          5.70 Gb/s
 TX vm1:ens224   CPU  15 % of 4  hottest CPU2  50 %  softirq 20 %
 RX vm2:ens224   CPU  15 % of 4  hottest CPU2  50 %  softirq 20 %
 goodput    5.70 Gb/s received by vm2, 61 % of line rate
 bottleneck the receiver's CPU 2 is full of softirq: one queue carries everything
 path       verified: vm1: ens224 carried it; vm2: ens224 carried it
 line rate  9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps
 client     vm1: 0.60 of 4 cores busy on average, 0.10 core per Gb/s
"""
"""As it was once in this documentation."""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "", "the receiver's CPU 2 is full of softirq"),
        ("", "", "figures of both hosts"),
        (
            "the receiver's CPU 2 is full of softirq",
            "CPU 2 on vm2 (receiver), 98 % softirq",
            "CPU of vm2",
        ),
        ("61 % of line rate", "16 % of line rate", "16 % of line rate"),
        ("5.70 Gb/s received", "7.50 Gb/s received", "title"),
        ("0.10 core per", "1.00 core per", "vm1: 1.00 core per Gb/s"),
        ("0.60 of 4 cores", "2.60 of 4 cores", "vm1: 2.60 of 4 cores"),
    ],
)
def test_invented_figures_are_found(old: str, new: str, why: str) -> None:
    assert any(why in says for says in wrong(INVENTED.replace(old, new).splitlines()))


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_needs_no_font_and_no_network(name: str) -> None:
    svg = (PICTURES / f"{name}.svg").read_text()
    drawn = re.sub(r"<(desc|title)>.*?</\1>", "", svg, flags=re.DOTALL)
    assert not re.search(r"<(text|tspan|image|foreignObject)\b|font|url\(|href=\"[^#]", drawn)


def test_the_latency_test_in_the_readme_is_the_one_of_its_picture() -> None:
    (run,) = kept_runs("self-test")["self-test-rr"]
    block = (
        (PICTURES.parent / "README.md").read_text().partition("```\nrate ")[2].partition("\n\n")[0]
    )
    assert set(f"rate {block}".splitlines()) <= set(run_text(run.result, 120).splitlines())


def test_documents_show_pictures_that_exist() -> None:
    root = PICTURES.parent
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / Path(link)).is_file(), f"{page.name}: {link}"
