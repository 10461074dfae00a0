"""Constants of rtnetlink that several readers use: message types, structures, few attributes.
Nothing is read.

From linux/rtnetlink.h, linux/if_link.h and linux/if_addr.h. Small, because the first counters need
it before anything else is loaded (see `wire.ssh.bundle`); further attributes of a link are in
`if_link`.
"""

from __future__ import annotations

import struct

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
RTM_NEWNETCONF = 80

IFINFOMSG = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, ARPHRD type, ifindex, flags, change mask."""
IFADDRMSG = struct.Struct("=BBBBI")
"""struct ifaddrmsg: family, prefix length, flags, scope, ifindex."""

IFF_UP = 0x1
RTEXT_FILTER_VF = 1

IFLA_STATS64, IFLA_EXT_MASK = 23, 29
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
