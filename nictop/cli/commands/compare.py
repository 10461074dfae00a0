"""``nictop compare``: compares two set-ups by their stored runs."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from nictop.cli import output
from nictop.cli.arguments import add_format_option, add_schema_option

if TYPE_CHECKING:
    from nictop.traffic.results.selection import ByValue

EPILOG = """\
RESULT is a saved result: its id (the first characters are enough), its file or
its label (nictop traffic --list). Give one test with two variants (--compare),
two tests, or two sweeps of one variable: they are compared value by value.

examples:
  nictop compare 5d0c                    a test with two variants
  nictop compare passthrough vswitch     two labels
  nictop compare passthrough:4K vswitch:4K   one value of two sweeps
  nictop compare a.json b.json --format json

Exit codes: 0 compared (with or without a verdict), 2 usage error.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "nictop compare [OPTIONS] RESULT ..."
    parser.description = "Compare two saved results of nictop traffic, A and B."
    parser.epilog = EPILOG
    parser.add_argument(
        "results", nargs="*", metavar="RESULT", help="result to compare; the first is A"
    )
    add_format_option(parser, "text", "json", "markdown")
    add_schema_option(parser)


def run(options: argparse.Namespace) -> int:
    from nictop.report.runs import comparison as comparison_text
    from nictop.report.runs import json as run_json
    from nictop.report.runs import markdown as run_markdown
    from nictop.traffic.analysis.comparison import compare_stored_runs
    from nictop.traffic.results.selection import directory, select_by_value

    if options.schema:
        return output.write(run_json.compare_schema())
    by_value = select_by_value(options.results, directory(os.environ))
    if "" not in by_value:
        return _compare_sweeps(options, by_value)
    setups = by_value[""]
    (name_a, a), (name_b, b) = setups
    names = (name_a, name_b)
    comparison = compare_stored_runs(a, b, names)
    if options.format == "json":
        return output.write(run_json.compare_json(comparison, setups))
    if options.format == "markdown":
        return output.write(run_markdown.comparison_markdown(comparison, names))
    glyphs, width = output.glyphs_for(options), output.terminal_columns()
    return output.write_text(
        comparison_text.comparison_text(comparison, names, width, glyphs), options
    )


def _compare_sweeps(options: argparse.Namespace, by_value: ByValue) -> int:
    from nictop.report.runs import json as run_json
    from nictop.report.runs import sweeps

    found = sweeps.compare_sweeps(by_value)
    if options.format == "json":
        return output.write(
            run_json.compare_sweeps_json(found.variable, found.comparisons, by_value)
        )
    if options.format == "markdown":
        return output.write(sweeps.sweeps_markdown(found))
    glyphs, width = output.glyphs_for(options), output.terminal_columns()
    return output.write_text(sweeps.sweeps_text(found, width, glyphs), options)
