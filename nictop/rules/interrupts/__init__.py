"""Rules about interrupts, softirqs and steering."""
