"""What records mean: pure functions of them, without I/O.

In: records. Out: `Snapshot` (all that is known of a host now), rates, history, and what screens and reports show of
them. One folder per subject; a new column is one line in `columns`, a new fact one in `facts`.
"""
