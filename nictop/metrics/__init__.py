"""What hosts say, for Prometheus: raw counters and findings, in the text that it reads over HTTP.

`catalogue` is the table of all metrics; `collector` turns snapshots into samples, `exposition` samples into text,
`server` answers requests with it, `service` keeps the hosts followed and diagnosed meanwhile.
"""
