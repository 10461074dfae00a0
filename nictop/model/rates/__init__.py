"""Counters of two moments → rates per second: links, VFs, queues, CPUs, interrupts."""
