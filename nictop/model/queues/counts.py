"""How many receive queues a link uses. Reads nothing."""

from __future__ import annotations

from nictop.probe.records import Channels, Link


def receive_channels(channels: Channels | None) -> int:
    """Receive queues in use by ETHTOOL_MSG_CHANNELS_GET (``rx`` and ``combined``); 0: not
    reported."""
    if channels is None:
        return 0
    return (channels.rx or 0) + (channels.combined or 0)


def receive_queues(link: Link) -> int:
    """Receive queues in use: the channels, else the ``rx-N`` folders of sysfs; 0: not known."""
    return receive_channels(link.ethtool.channels) or sum(
        queue.direction == "rx" for queue in link.queues
    )
