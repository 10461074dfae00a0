"""Rules about interrupts, softirqs, steering and CPU time."""
