"""What a probe says and is asked: command line, hello, lines out, requests in.

In: argv and stdin. Out: `records` as JSON lines on stdout, dropped when the reader is too slow.
"""
