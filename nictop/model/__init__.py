"""The meaning of records: pure functions, without I/O.

In: records. Out: `Snapshot` (the known state of a host), rates, history, and the texts and columns
that screens and reports show. One folder per subject; a new column is one line in `columns`, a new
fact one in `facts`.
"""
