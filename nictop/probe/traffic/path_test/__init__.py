"""The path test between two watched hosts, without any installed tool: each end runs a listener and
a tester.

In: a `path_listen` or `path_test` command (`traffic.requests`). Out: `records.PathListener` and
`records.PathTest`. `listener` answers the other end and reports what it received; `tester` sends by
`echo` (ICMP and UDP, DF set), connects over TCP, searches the largest packet (`sizes`) and asks who
has the MAC address (`neighbours`). `icmp_errors` reads the error queue. Bounded in packets and
time; all sockets end with the child process that runs it.
"""
