"""Counters that are read every interval, through descriptors that stay open.

In: /proc, /sys, rtnetlink. Out: one `Counters` record. `reader` puts it together; one file per source. Another counter:
a field in `records.counters`, its source here, its rate in `model.rates`.
"""
