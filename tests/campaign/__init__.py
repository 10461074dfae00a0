"""Tests that take minutes to hours and are run before a release: ``make campaign``.

`suites` runs parts of the test suite with other settings (more kills, other fuzz inputs, every key,
all CPUs busy), `parsers` generates inputs for all parsers, `soak` monitors long-running programs. A
new part is a function that yields `Row`, and one line in `__main__.PARTS`.
"""
