"""Rates per second from two counter records: links, VFs, queues, CPUs, interrupts."""
