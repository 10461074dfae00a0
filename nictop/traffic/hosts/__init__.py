"""The watched hosts during a test: their lines, counters, and the relation of their NICs to the
chosen one."""
