"""The lines of probes in a file: `writer`, and `reader` and `playback`, which are sources as live hosts are.

`file` is the format; `demo.nictop` is the recording that `nictop demo` plays.
"""
