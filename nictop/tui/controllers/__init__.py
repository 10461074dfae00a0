"""The state behind the screens, without Textual: watched hosts, diagnosis, runs, changes,
recording, replay.

`nictop.Nictop` makes all of them. Each gets in its constructor what it needs: other controllers, a
`Scheduler` (timers and workers of the application), a function for notices. Screens read their
attributes, call their methods, and subscribe to their `Signal`s. One more: a class with a `changed`
signal, made in `nictop.Nictop`.
"""
