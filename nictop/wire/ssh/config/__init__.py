"""The settings of one host in ssh_config(5), as ssh uses them.

`openssh` asks the OpenSSH client of this machine (``ssh -G``); where there is none, `files` reads
the simple part of the format itself. `options` is the table of all options: what nictop does with
each. `settings` makes of them what a connection needs, or says why there is no connection.
"""
