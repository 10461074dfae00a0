"""Names of hosts and users that a shell could execute, as in a ProxyCommand: OpenSSH refuses them
since 9.6."""

from __future__ import annotations

from nictop.probe.kernel.patterns import pattern

UNSAFE_HOST = pattern(r"^-|['`\"$\\;&<>|(){}\s\x00-\x1f\x7f]")
"""As valid_hostname of ssh.c."""
UNSAFE_USER = pattern(r"^-|['`\";&<>|(){}\x00-\x1f\x7f]|\s-|\\$")
"""As valid_ruser of ssh.c: a domain may precede a name (``DOMAIN\\name``)."""
