"""Programs by which a guest or container is reached: run on the host above it, or in it.

Not part of the probe: they are sent alone, in a command line (`wire.guests.programs`), and import
only each other.
"""
