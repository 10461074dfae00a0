"""The user interface: `run` starts `app`, which opens `screens`; `controllers` watch and act,
`widgets` draw.

A controller publishes a `Signal`, the screens that subscribed to it draw. All keys are in `keys`;
the help, the footer and the table in docs are made from them. `palette` has the commands that are
offered on every screen.
"""
