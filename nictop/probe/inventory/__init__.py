"""Everything that changes rarely: one `Inventory` record, read in a child process.

In: kernel, network managers, configuration files. Out: records; failures are `Unreadable` with a
reason. `collect` calls the readers, `child` is the process, `scheduler` decides when. To add a
source: a reader here, a line in `READERS` of `collect`, a record in `records`, and its name in
`nictop.rules.sources`.
"""
