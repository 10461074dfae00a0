"""A user who is only a number, as in a container: a sentence, and no internal error."""

from __future__ import annotations

import getpass

import pytest

from nictop.wire.errors import PermanentError
from nictop.wire.ssh.config.local_user import local_user


@pytest.mark.parametrize(
    "error", [KeyError("getpwuid(): uid not found: 0"), OSError("No username set")]
)
def test_a_user_without_a_name(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def getuser() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", getuser)
    with pytest.raises(PermanentError, match="of this machine has no name"):
        local_user()
