"""Queues of a NIC: names of drivers' counters, interrupt vectors, CPUs."""
