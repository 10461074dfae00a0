"""Files of netplan that were changed after netplan was applied.

Reads nothing. netplan generate writes /run/systemd/network/10-netplan-*.network from /etc/netplan,
at boot and with netplan apply.
"""

from __future__ import annotations

from nictop.model.text.units import duration
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import host_finding

GENERATED = "/run/systemd/network/10-netplan-"
CLOCK_SECONDS = 2.0
"""Files that are written together."""
BOOT_SECONDS = 60.0
"""Tolerance of the time of the boot."""


@host_rule("info", uses=("configuration",))
def netplan_was_changed_and_not_applied(host: HostFacts) -> Outcomes:
    """A netplan file was changed after netplan was applied: the change takes effect at the next
    boot.

    nictop compares the times of the files in /etc/netplan with those of the newest file that
    netplan has generated for systemd-networkd. What was changed cannot be seen: it may be a
    comment, or a setting that was also made by hand.

    Not reported: netplan with NetworkManager as its renderer, and machines whose clock was wrong at
    the boot.

    Sources: netplan-generate(8), netplan-apply(8).
    """
    stanzas = host.configuration.stanzas
    written = [
        stanza.modified
        for stanza in stanzas
        if stanza.file.startswith(GENERATED) and stanza.modified is not None
    ]
    if not written:
        return
    applied = max(written)
    if applied < host.inventory.wall - host.inventory.time - BOOT_SECONDS:
        return  # /run is new at each boot: the clock was wrong then
    changed = {
        stanza.file: stanza.modified
        for stanza in stanzas
        if stanza.owner == "netplan" and stanza.modified is not None
    }
    for file, time in changed.items():
        if time <= applied + CLOCK_SECONDS:
            continue
        try_it = Fix(
            "here",
            "Apply it, if that is wanted",
            (command("netplan", "try"),),
            note="Look at the file first. netplan try reverts unless you confirm.",
        )
        yield host_finding(
            "info",
            host,
            file,
            "changed after netplan was applied",
            evidence=(
                Evidence(
                    "changed", f"{duration(time - applied)} after netplan generated its files", file
                ),
                Evidence("generated", f"{GENERATED}*", "mtime"),
            ),
            why="netplan has not applied the file since. What has changed in it takes effect with "
            "a reboot, or with netplan apply.",
            fixes=(try_it,),
        )
