"""Lines of a probe, from a child process on this machine (`local`) or over SSH (`ssh`).

In: bytes. Out: `Line` records, type-checked, and `SourceState`, the state of the connection. A
recording (`nictop.recording`) has the same interface: see `source`.
"""
