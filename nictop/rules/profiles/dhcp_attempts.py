"""What is known of NetworkManager's attempts to get an address by DHCP, in the same words wherever
it is said. Pure."""

from __future__ import annotations

from nictop.model.managers.failed_attempts import failed_before
from nictop.model.managers.networkmanager_states import (
    ACTIVATED,
    DISCONNECTED,
    IP_CONFIG,
    has_no_address,
)
from nictop.model.time_axis import event_time_text, short_event_time_text
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link, ManagedDevice, Profile
from nictop.rules.finding import Severity
from nictop.rules.host import HostFacts

NO_REPLY_YET = "no DHCP reply yet"
NOT_TRYING = "DHCP failed, not trying now"
FIRST_ATTEMPT = (
    "No failed attempt was read, but whether one has failed is not known: NetworkManager begins "
    "the next one at once, and does not tell it then (journalctl -u NetworkManager). The finding "
    "becomes critical when a failure is read, which another nictop that has watched for longer may "
    "have done."
)
ONLY_THIS_SESSION = "A nictop that was started since then does not know of it."
LATER_ONES = "Later ones may not have been read (journalctl -u NetworkManager)."
RETRY = "NetworkManager tries again by itself."


class DhcpAttempts(NamedTuple):
    """Of one profile on one NIC that has no address."""

    severity: Severity
    title: str
    outlook: str
    """Sentences."""


def dhcp_attempts(
    host: HostFacts, link: Link, device: ManagedDevice, profile: Profile
) -> DhcpAttempts | None:
    """None: no request is being made, as far as is known, and none has failed."""
    failed_at = failed_before(host.snapshot.failed_attempts, link, profile.uuid)
    seen = ""
    if failed_at is not None:
        read_at = event_time_text(host.inventory, failed_at)
        seen = f"An attempt had failed before NetworkManager was read at {read_at}. {LATER_ONES} "
    if has_no_address(device.state, device.reason):
        retry = RETRY if profile.autoconnect else ""
        return DhcpAttempts("critical", NOT_TRYING, f"{seen}{retry}".rstrip())
    if not DISCONNECTED < device.state < ACTIVATED:
        return None
    if failed_at is not None:
        when = short_event_time_text(host.inventory, failed_at)
        title = f"DHCP failed (seen {when} UTC), trying again"
        return DhcpAttempts("critical", title, f"{seen}{ONLY_THIS_SESSION}")
    if device.state >= IP_CONFIG:
        return DhcpAttempts("warning", NO_REPLY_YET, FIRST_ATTEMPT)
    return None
