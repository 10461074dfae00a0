"""All facts that change rarely: one `Inventory` record, read in a child process.

In: kernel, managers and configuration files. Out: records; what could not be read is `Unreadable` with the reason.
`collect` calls the readers, `child` runs them, `scheduler` says when. One more source: a reader here, a line in the
table of `collect`, a record in `records`, and its name in `nictop.rules.sources`.
"""
