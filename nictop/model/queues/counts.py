"""How many queues a link uses, and may use. Reads nothing."""

from __future__ import annotations

from nictop.probe.records import Channels, Link


def receive_channels(channels: Channels | None) -> int:
    """Receive queues in use by ETHTOOL_MSG_CHANNELS_GET (``rx`` and ``combined``); 0: not
    reported."""
    if channels is None:
        return 0
    return (channels.rx or 0) + (channels.combined or 0)


def used_channels(channels: Channels) -> int:
    """Channels in use, of both directions: each has an interrupt of its own."""
    return (channels.combined or 0) + max(channels.rx or 0, channels.tx or 0)


def max_queues_of_each_direction(channels: Channels) -> int:
    """That ``ethtool -L`` can set; 0: none, or not reported."""
    return channels.max_combined or min(channels.max_rx or 0, channels.max_tx or 0)


def max_receive_channels(channels: Channels | None) -> int:
    """0: not reported."""
    if channels is None:
        return 0
    return max(channels.max_combined or 0, channels.max_rx or 0)


def receive_queues(link: Link) -> int:
    """Receive queues in use: the channels, else the ``rx-N`` folders of sysfs; 0: not known."""
    return receive_channels(link.ethtool.channels) or sum(
        queue.direction == "rx" for queue in link.queues
    )
