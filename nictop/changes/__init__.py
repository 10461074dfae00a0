"""Changing a host from the watching side: what a fix means as actions, one change from its plan to its end, the log of
changes, and the same as a shell script.

What is done on the host is done by `nictop.probe.changes`, and only where that is allowed.
"""
