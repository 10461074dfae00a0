"""One module per command: ``add_arguments`` and ``run``. A new command is one file, and its name in
`nictop.cli`."""
