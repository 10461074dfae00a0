"""Guests of this host → `HostedGuest`: virtual machines by their processes, containers by their
network namespaces, and stopped ones by their configuration files.

Everything is read: /proc, rtnetlink, files. No guest, daemon or manager is asked.
"""
