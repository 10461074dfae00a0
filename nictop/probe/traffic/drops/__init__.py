"""Reasons for which the kernel drops packets, monitored for some seconds.

In: a `drops` command (`traffic.requests`). Out: `records.DropReport`. `monitor` starts, reads and
stops the drop monitor of the kernel, `messages` parses what it sends, `groups` counts it.
"""
