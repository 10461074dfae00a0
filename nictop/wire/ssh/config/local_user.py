"""The name of the user who runs nictop."""

from __future__ import annotations

import getpass
import os

from nictop.wire.errors import PermanentError


def local_user() -> str:
    """$LOGNAME, $USER, or of the user database. Raises PermanentError if there is none, as in a
    container whose user is only a number: ssh does not connect either."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError: since Python 3.13
        raise PermanentError(
            f"user {os.geteuid()} of this machine has no name", "set USER"
        ) from None
