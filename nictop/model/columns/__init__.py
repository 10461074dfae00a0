"""The tables: columns, content and width of cells, and which columns are shown in narrow windows.

`column.Column` is the class of all columns. `devices`, `overview`, `queues` and `cpus` are tables
of it, for the screen and for the report. A new column is one entry in the `COLUMNS` of its table.
"""
