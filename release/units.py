"""systemd units of the packages: ``nictop metrics`` and ``nictop record`` as services.

Neither is enabled by the installation. What an administrator sets is in one file of options for
both (`OPTIONS_FILES`). The sandbox is that of ``nictop record --unit`` and what a service of this
host alone can do without, too (systemd.exec(5)); ``make dist-check`` runs both under systemd.
"""

from __future__ import annotations

from nictop.cli.record_unit import SANDBOX

FOLDER = "usr/lib/systemd/system"
SERVICES = "nictop-metrics.service nictop-record.service"
OPTIONS_FILES = ("/etc/default/nictop", "/etc/sysconfig/nictop")
"""Debian's place and that of RPM distributions; neither has to exist."""
PROBE_CAPABILITIES = "CAP_NET_ADMIN CAP_DAC_READ_SEARCH CAP_SYSLOG CAP_SYS_PTRACE CAP_SYS_ADMIN"
"""What readers need as root (docs/hosts.md, *What holds a root probe to reading*): the first three
by the probe, the others before it restricts itself, and by its helper."""
PRIVATE = """\
PrivateDevices=yes
ProtectKernelLogs=yes
CapabilityBoundingSet=
RemoveIPC=yes
"""
"""For a user without any right."""

UNIT = """\
# Options: {variable} in {files}; others with: systemctl edit {name}
[Unit]
Description={description}
Documentation=man:nictop(1)
After=network-online.target
Wants=network-online.target

[Service]
EnvironmentFile=-{first}
EnvironmentFile=-{second}
ExecStart=/usr/bin/nictop {command} ${variable}
Restart=on-failure
RestartSec=30
Nice=5
{account}{sandbox}RestrictNamespaces=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self
SystemCallErrorNumber=EPERM
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_VSOCK
UMask=0077

[Install]
WantedBy=multi-user.target
"""
METRICS_ACCOUNT = f"""\
DynamicUser=yes
StateDirectory=nictop-metrics
Environment=HOME=/var/lib/nictop-metrics
WorkingDirectory=/var/lib/nictop-metrics
{PRIVATE}"""
RECORD_ACCOUNT = f"""\
LogsDirectory=nictop
LogsDirectoryMode=0700
CapabilityBoundingSet={PROBE_CAPABILITIES} CAP_SETPCAP CAP_KILL
DevicePolicy=closed
DeviceAllow=/dev/kmsg r
"""


def unit_files() -> dict[str, str]:
    """Path in the package → text."""
    return {
        f"{FOLDER}/nictop-metrics.service": _unit(
            "nictop-metrics",
            "nictop: metrics of this host's NICs for Prometheus",
            "metrics",
            METRICS_ACCOUNT,
        ),
        f"{FOLDER}/nictop-record.service": _unit(
            "nictop-record",
            "nictop: recording of this host's NICs, the last 24 hours",
            "record --keep 24h --keep 2G /var/log/nictop",
            RECORD_ACCOUNT,
        ),
    }


def _unit(name: str, description: str, command: str, account: str) -> str:
    return UNIT.format(
        name=name,
        description=description,
        command=command,
        variable=f"{name.partition('-')[2].upper()}_OPTIONS",
        files=" or ".join(OPTIONS_FILES),
        first=OPTIONS_FILES[0],
        second=OPTIONS_FILES[1],
        account=account,
        sandbox=SANDBOX,
    )
