"""Counters and findings of hosts for Prometheus, over HTTP.

`catalogue` is the table of all metrics: a new one is a row there, and its values in `collector`.
`series` determines which objects of a host are exported under which labels, `collector` turns a
snapshot into samples, `exposition` samples into text, `server` is the HTTP server, and `service`
observes and diagnoses the hosts (`scraped_host`) meanwhile.
"""

DEFAULT_ADDRESS = "127.0.0.1:9807"
"""Of the HTTP server. Here because the command line needs it for --help, before asyncio is
imported."""
