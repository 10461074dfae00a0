"""What the bridge on the hypervisor (`agent_bridge`) and the relay in the guest (`guest_relay`)
agree on.

The agent opens two pipes of the relay as /proc/PID/fd/`INPUT_DESCRIPTOR` and `OUTPUT_DESCRIPTOR`:
opening a pipe that has no name never waits for its other end (fs/pipe.c, fifo_open), so that the
agent cannot be blocked, and there is no file.

The agent reads with fread(3) from a descriptor that does not block: what it has read is lost if
there is no more (qga/commands-posix.c, guest_file_read_unsafe). So the output consists of records
of `RECORD_BYTES`, which are written to the pipe whole (PIPE_BUF), and are read whole or not at all:
a header, its content, and zeros. Likewise the agent loses what does not fit when it writes: the
bridge has to stay below the size of the pipe, for which the header says how much was taken. The
time in it tells the bridge when to ask for the next record.
"""

from __future__ import annotations

import struct

INPUT_DESCRIPTOR, OUTPUT_DESCRIPTOR = 30, 31
START = b"g"
"""First byte of the input: both pipes are open."""
START_SECONDS = 15.0
"""Seconds until it; then the bridge is gone."""
RECORD_BYTES = 4096
HEADER = struct.Struct(">cHII")
"""Type, bytes of content, bytes of input taken until now (without `START`), milliseconds of
CLOCK_MONOTONIC of the guest; both modulo 2^32."""
CONTENT_BYTES = RECORD_BYTES - HEADER.size
OUTPUT, ERRORS, TAKEN, ENDED = b"o", b"e", b"a", b"x"
"""Types of records: stdout (compressed), stderr, only the header, exit status (negative: the number
of the signal)."""
