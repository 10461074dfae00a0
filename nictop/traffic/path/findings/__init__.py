"""Findings of a path test: `findings` calls the other modules, one for each kind of cause, with a
`tested_direction.TestedDirection`."""
