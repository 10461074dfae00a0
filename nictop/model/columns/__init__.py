"""The tables: which columns each has, what is in a cell, how wide it is, which columns stay where room is short.

`column.Column` is the one class of columns. `devices`, `overview`, `queues` and `cpus` are tables of it, for the screen
and for the report. A new column is one entry in the `COLUMNS` of its table.
"""
