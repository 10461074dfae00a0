"""What takes minutes to hours and is run before a release: ``make campaign``.

`suites` runs parts of the test suite in another way (more kills, other fuzz inputs, every key, a starved machine),
`parsers` makes inputs for all parsers, `soak` watches long-running programs. A new part is a function that yields
`Row`, and one line in `__main__.PARTS`.
"""
