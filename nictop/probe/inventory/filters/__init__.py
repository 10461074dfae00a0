"""Packet filters of forwarded packets: chains of nftables and of iptables-legacy.

Only read as root, and only what exists already: no request loads a kernel module.
"""
