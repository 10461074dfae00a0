"""Rules about the link and the path to other hosts: carrier, speed, MTU, offloads, kernel
messages."""
