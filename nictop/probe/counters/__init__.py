"""Counters that are read at every interval, through descriptors that stay open.

In: /proc, /sys, rtnetlink. Out: one `Counters` record, assembled by `reader`; one file per source.
To add a counter: a field in `records.counters`, its source here, its rate in `model.rates`.
"""
