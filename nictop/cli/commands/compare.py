"""``nictop compare``: compares two set-ups by their stored runs."""

from __future__ import annotations

import argparse
import os

from nictop.cli import output
from nictop.cli.arguments import add_format_option, add_schema_option

EPILOG = """\
RESULT is a saved result: its id (the first characters are enough), its file or
its label (nictop traffic --list). Give one test with two variants (--compare),
or two tests.

examples:
  nictop compare 5d0c                    a test with two variants
  nictop compare passthrough vswitch     two labels
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
    from nictop.traffic.results.selection import directory, select_set_ups

    if options.schema:
        return output.write(run_json.compare_schema())
    setups = select_set_ups(options.results, directory(os.environ))
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
