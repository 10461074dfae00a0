"""Guided set-up of a NIC: values that a user has chosen → commands, rollback and a check of the
result, as a fix.

`set_up`: one function per action, all of them return a `ChangeJob`. `address`: the profile of
NetworkManager (hosts without it: `nictop.rules.fixes.address_files`); `mtu`: the MTU, and what
must fit. One more guided set-up: a function in `set_up`.
"""
