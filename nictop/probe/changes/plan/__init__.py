"""The plan of a change: an `Operation` → present values, undo, and what depends on the link (SSH, default route).

`plan.read_plan` combines the others; `current_state` reads the present values, `undo` makes the commands that restore
them, `lifelines` and `ssh_connections` find what the change could cut off. Nothing here changes the host, except
`link_addresses.restore_link`.
"""
