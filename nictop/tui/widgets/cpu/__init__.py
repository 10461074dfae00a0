"""Queues and CPUs."""
