"""LLDP neighbours that a daemon of the host has received: nothing is sent or received here.

A host without such a daemon costs nothing.
"""
