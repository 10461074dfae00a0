"""Lines of probes in a file: `writer` stores them; `reader` and `playback` read them through the
interface of a live host.

`file` is the format; `demo.nictop` is the recording that `nictop demo` plays.
"""
