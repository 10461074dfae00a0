"""``python -m tests.reports [NAME]``: the scoreboard; with a name, also all that the rules say
about that report."""

from __future__ import annotations

import sys

from tests.reports.library import SCORES, Report, Result, evaluate, reports


def main() -> None:
    names = sys.argv[1:]
    results = [
        (report, evaluate(report)) for report in reports() if not names or report.name in names
    ]
    for report, result in results:
        print(f"{result.score:13}{report.content['kind']:32}{report.name}")
        for problem in result.problems:
            print(f"{'':13}{problem}")
        if names:
            print_findings(result)
    print("  ".join(f"{score}: {count(results, score)}" for score in SCORES), f" of {len(results)}")


def count(results: list[tuple[Report, Result]], score: str) -> int:
    return sum(result.score == score for _, result in results)


def print_findings(result: Result) -> None:
    for finding in result.findings:
        print(f"  {finding.severity} {finding.rule} {finding.subject}: {finding.title}")
        for one in finding.evidence:
            print(f"    {one.what}: {one.value}")
        print(f"    why: {finding.why}")
        for fix in finding.fixes:
            print(f"    fix ({fix.where}): {fix.title}")
            for step in fix.commands:
                print(f"      {step}")
            if fix.note:
                print(f"      note: {fix.note}")


if __name__ == "__main__":
    main()
