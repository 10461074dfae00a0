"""Changing a host from the watching side: plan → apply → prove → keep or undo (`session`), for the
command line and the screens alike.

In: a fix of a finding or a guided set-up (`guided`), as a `job`; `actions` has what the probe can
carry out of it. Out: events, `progress`, and lines of the `audit_log`; or the same as a shell
`script`. The host is changed by `nictop.probe.changes`, and only where that is allowed.
"""
