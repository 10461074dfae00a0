"""Device lists of NetworkManager.conf, as described in NetworkManager.conf(5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.managers.device_specs import matches_device

ETHERNET = 1


def named(*specs: str, name: str = "ens224") -> bool:
    return matches_device(
        specs, name=name, address="00:50:56:00:00:02", driver="igb", kind=ETHERNET
    )


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ((), False),
        (("*",), True),
        (("ens224",), True),
        (("ens22",), False),
        (("interface-name:ens224",), True),
        (("interface-name:ens*",), True),
        (("interface-name:ens?24",), True),
        (("interface-name:=ens*",), False),
        (("interface-name:~ens*",), True),
        (("interface-name:[e]ns224",), False),  # brackets are literal characters there
        (("mac:00:50:56:00:00:02",), True),
        (("mac:00:50:56:00:00:03",), False),
        (("00:50:56:00:00:02",), True),
        (("driver:igb",), True),
        (("driver:igb/6.*",), True),
        (("driver:ixgbe",), False),
        (("type:ethernet",), True),
        (("type:wifi",), False),
        (("*", "except:type:ethernet"), False),
        (("except:interface-name:lo",), True),  # a list of exceptions matches all others
        (("except:interface-name:ens224",), False),
        (("interface-name:eth0", "except:interface-name:lo"), False),
    ],
)
def test_specs(specs: tuple[str, ...], expected: bool) -> None:
    assert named(*specs) is expected


@pytest.mark.parametrize("name", ["a" * 15, "a" * 127, "a" * 100_000])
def test_a_hostile_pattern_is_matched_fast(name: str) -> None:
    """With backtracking, a few hundred of these would take minutes."""
    assert not named(
        "interface-name:" + "*a" * 60 + "b", "interface-name:~" + "*a*" * 80 + "?b", name=name
    )


@given(st.lists(st.text()), st.text(), st.none() | st.text(), st.none() | st.text(), st.integers())
def test_any_text(
    specs: list[str], name: str, address: str | None, driver: str | None, kind: int
) -> None:
    assert matches_device(specs, name=name, address=address, driver=driver, kind=kind) in (
        True,
        False,
    )
    assert matches_device(
        [*specs, "*"], name=name, address=address, driver=driver, kind=kind
    ) or any(spec.startswith("except:") for spec in specs)
