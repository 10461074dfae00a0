"""The line protocol of the probe: command line, hello, output lines, requests.

In: argv and stdin. Out: `records` as JSON lines on stdout; counters are dropped when the reader is
too slow. A new field of a request is parsed in `requests`.
"""
