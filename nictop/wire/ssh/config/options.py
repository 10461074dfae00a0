"""Every option of ssh_config(5) of the OpenSSH client, and what nictop does with it: no option is
ignored unseen.

A new version of ssh may have options that are not here: a host that has one set is refused.
"""

from __future__ import annotations

from typing import Literal

Handling = Literal["used", "session", "login", "stricter", "refused"]
"""used: as ssh does. session: of what ssh does after the login, which nictop does not do. login: a
way to log in that nictop does not have; the others remain. stricter: nictop checks more than ssh
with this option would. refused: nictop does not connect if it is set."""

_OPTIONS: dict[Handling, str] = {
    "used": """
        addressfamily batchmode bindaddress canonicaldomains canonicalizefallbacklocal
        canonicalizehostname canonicalizemaxdots canonicalizepermittedcnames casignaturealgorithms
        certificatefile checkhostip ciphers connecttimeout globalknownhostsfile hashknownhosts host
        hostkeyalgorithms hostkeyalias hostname identitiesonly identityagent identityfile
        ignoreunknown include kbdinteractiveauthentication kexalgorithms macs match
        passwordauthentication port preferredauthentications proxycommand proxyjump
        pubkeyacceptedalgorithms pubkeyauthentication rekeylimit requiredrsasize revokedhostkeys
        stricthostkeychecking tag user userknownhostsfile
    """,
    "session": """
        addkeystoagent channeltimeout clearallforwardings compression compressionlevel
        connectionattempts controlmaster controlpath controlpersist dynamicforward
        enableescapecommandline escapechar exitonforwardfailure fingerprinthash
        forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted
        gatewayports ipqos kbdinteractivedevices localcommand localforward loglevel logverbose
        numberofpasswordprompts obscurekeystroketiming permitlocalcommand permitremoteopen
        remotecommand remoteforward requesttty sendenv serveralivecountmax serveraliveinterval
        sessiontype setenv stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility
        tcpkeepalive tunnel tunneldevice updatehostkeys versionaddendum visualhostkey
        warnweakcrypto xauthlocation
    """,
    "login": """
        enablesshkeysign gssapiauthentication gssapiclientidentity gssapidelegatecredentials
        gssapikexalgorithms gssapikeyexchange gssapirenewalforcesrekey gssapiserveridentity
        gssapitrustdns hostbasedacceptedalgorithms hostbasedauthentication pkcs11provider
        securitykeyprovider
    """,
    "stricter": "nohostauthenticationforlocalhost verifyhostkeydns",
    "refused": "bindinterface knownhostscommand proxyusefdpass refuseconnection",
}

OPTIONS: dict[str, Handling] = {
    name: handling for handling, names in _OPTIONS.items() for name in names.split()
}
"""Name in lower case → what is done with it."""

REASONS = {
    "bindinterface": "nictop can bind to an address (BindAddress), not to an interface",
    "knownhostscommand": "nictop takes host keys from files only and does not run this command",
    "proxyusefdpass": "nictop cannot take over a connection from the proxy command",
    "refuseconnection": "the configuration refuses this connection",
}
"""Refused option → why."""

ALIASES = {
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "hostbasedkeytypes": "hostbasedacceptedalgorithms",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms",
    "smartcarddevice": "pkcs11provider",
    "tisauthentication": "kbdinteractiveauthentication",
}
"""Older name → option; ssh prints the newer one."""
COMMANDS = frozenset(("proxycommand", "localcommand", "remotecommand", "knownhostscommand"))
"""Their value is the rest of the line, as it is."""
LISTS = frozenset(("identityfile", "certificatefile"))
"""All lines count, not the first one only."""
OFF = frozenset(("", "no", "none", "false", "0"))
"""Values of an option that is set, but off."""
