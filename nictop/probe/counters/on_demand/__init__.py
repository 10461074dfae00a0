"""Counters that are read on request only: driver, queue and VF counters of links, the whole of
/proc/interrupts."""
