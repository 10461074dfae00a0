"""Counters of watched links only, because they cost more: ethtool statistics, queues, VFs, the interrupt table."""
