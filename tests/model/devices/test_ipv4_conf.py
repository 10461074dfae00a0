"""The larger value of all and the link is effective; a value that was not read is None."""

from __future__ import annotations

import pytest

from nictop.model.devices.ipv4_conf import Ipv4Conf, ipv4_conf, ipv4_conf_text
from nictop.probe.records import Settings
from tests.model.hosts import PF

NAMES = ("rp_filter", "arp_filter", "arp_ignore", "arp_announce")


@pytest.mark.parametrize(
    ("every", "own", "conf", "text"),
    [
        ((0, 0, 0, 0), (0, 0, 0, 0), Ipv4Conf(0, 0, 0, 0), ""),
        (
            (1, 0, 0, 2),
            (2, 1, 0, 0),
            Ipv4Conf(2, 1, 0, 2),
            "rp_filter 2 (loose), arp_filter 1, arp_announce 2",
        ),
        ((1, 0, 0, 0), (0, 0, 1, 0), Ipv4Conf(1, 0, 1, 0), "rp_filter 1 (strict), arp_ignore 1"),
        ((1, 1, 1, 1), None, Ipv4Conf(None, None, None, None), ""),
    ],
)
def test_the_larger_value_is_effective(
    every: tuple[int, ...], own: tuple[int, ...] | None, conf: Ipv4Conf, text: str
) -> None:
    sysctl = {f"net.ipv4.conf.all.{name}": value for name, value in zip(NAMES, every, strict=True)}
    if own is not None:
        sysctl.update(
            {
                f"net.ipv4.conf.{PF.name}.{name}": value
                for name, value in zip(NAMES, own, strict=True)
            }
        )
    found = ipv4_conf(PF, Settings(sysctl=sysctl))
    assert found == conf
    assert ipv4_conf_text(found) == text
