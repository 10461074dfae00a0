"""Lines of a probe: from a child process here (`local`) or over SSH (`ssh`).

In: bytes. Out: `Line` records, type-checked, and `SourceState`, how the connection is. A recording has the same shape
(`nictop.recording`): see `source`.
"""
