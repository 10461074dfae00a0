"""Interfaces that udev could not rename at boot.

Reads nothing; messages that udev writes to the kernel log.
"""

from __future__ import annotations

import math

from nictop.probe.kernel.patterns import pattern
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import command, print_lines
from nictop.rules.fixes.persistence import SAFE_NAME
from nictop.rules.host import HostFacts
from nictop.rules.kernel_messages import links_with_messages, message_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding, mac_or_placeholder

NOT_RENAMED = pattern(
    r"from '(?P<old>[^']{1,64})' to '(?P<new>[^']{1,64})'(?:: (?P<why>.{1,100}))?"
)


@host_rule("warning", uses=("messages",))
def link_was_not_renamed(host: HostFacts) -> Outcomes:
    """udev wanted to give an interface another name and failed: profiles that use the new name do
    not find it.

    nictop reads "Failed to rename network interface … from … to …" in the kernel log. "File
    exists": another interface has the name, for instance because the firmware gives two ports the
    same index, or because names of the kernel's form (eth0) are swapped.

    Not reported: the interface that had the old name then has another name now, also as an
    alternative name, or was created after the message.

    Sources: systemd src/udev/udev-event.c (rename_netif), systemd.link(5); systemd/systemd#24102
    and #29957.
    """
    for link, messages in links_with_messages(host, "rename_failed", within=math.inf):
        match = NOT_RENAMED.search(messages.newest.text)
        if match is None or match["old"] != link.name or match["new"] in link.altnames:
            continue
        wanted = match["new"] if SAFE_NAME.fullmatch(match["new"]) else "<NAME>"
        file = f"/etc/systemd/network/10-{wanted if wanted != '<NAME>' else 'nic'}.link"
        lines = ["[Match]", f"MACAddress={mac_or_placeholder(link)}", "[Link]", "Name=<NAME>"]
        note = (
            "A name of your own that no other interface has, and not of the form eth0: the kernel "
            "uses these itself. "
            "Takes effect at the next boot; adapt the profiles that use the old name."
        )
        yield link_finding(
            "warning",
            host,
            link,
            f"could not be renamed to {match['new']}",
            evidence=message_evidence(messages),
            why=f"Reason: {match['why'] or 'not logged'}. Profiles and scripts with the name "
            f"{match['new']} find "
            "another interface, or none.",
            fixes=(
                Fix(
                    "here",
                    "Name it by its MAC address",
                    (print_lines(lines, file),),
                    True,
                    (command("rm", file),),
                    note,
                ),
            ),
        )
