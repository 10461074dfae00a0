"""Facts of a PCI function: errors of its PCIe link, power saving, and how it can be reset."""

from __future__ import annotations

import pytest

from nictop.model.facts.facts import pci_section
from nictop.model.facts.sections import Fact
from nictop.probe.records import PcieErrors, PciFunction, Sriov, Unreadable
from tests.model.hosts import make_pci

SRIOV = Sriov(total_vfs=8, num_vfs=0, autoprobe=True, virtual_functions=())
NO_ERRORS = PcieErrors(0, 0, 0)
CORRECTED = PcieErrors(13, 0, 0, {"RxErr": 2, "BadTLP": 12})
UNCORRECTED = PcieErrors(0, 1_500_000, 1, {}, {"CmpltTO": 1_500_000}, {"DLP": 1})


def facts(**fields: object) -> dict[str, Fact]:
    function: PciFunction = make_pci("0000:02:00.0", parent="0000:00:03.0", **fields)
    (part,) = pci_section(function)
    return {fact.label: fact for fact in part.facts}


NEW_LABELS = {"PCIe errors", "ASPM", "Reset methods"}


def test_a_record_without_the_new_facts_has_no_lines_about_them() -> None:
    """Older recordings, ESXi, and functions without the capabilities."""
    assert not NEW_LABELS & set(facts(sriov=SRIOV))
    assert not NEW_LABELS & set(facts(errors=NO_ERRORS, parent_errors=NO_ERRORS, reset_methods=()))


@pytest.mark.parametrize(
    ("own", "port", "text", "tone"),
    [
        (CORRECTED, NO_ERRORS, "0000:02:00.0: 13 correctable (BadTLP 12, RxErr 2)", "normal"),
        (None, CORRECTED, "port 0000:00:03.0: 13 correctable (BadTLP 12, RxErr 2)", "normal"),
        (
            PcieErrors(1, 0, 0),
            UNCORRECTED,
            "0000:02:00.0: 1 correctable · port 0000:00:03.0: 1 fatal (DLP 1), 1.50 M nonfatal "
            "(CmpltTO 1.50 M)",
            "warn",
        ),
        (
            UNCORRECTED,
            None,
            "0000:02:00.0: 1 fatal (DLP 1), 1.50 M nonfatal (CmpltTO 1.50 M)",
            "warn",
        ),
    ],
)
def test_errors_name_the_end_that_reported_them(
    own: PcieErrors | None, port: PcieErrors | None, text: str, tone: str
) -> None:
    fact = facts(errors=own, parent_errors=port)["PCIe errors"]
    assert (fact.text, fact.tone) == (text, tone)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        ({"l1_aspm": True, "l1_2_aspm": True, "l1_1_aspm": False}, "L1, L1.2 on"),
        (
            {"l0s_aspm": True, "l1_1_pcipm": True, "l1_2_pcipm": True, "clkpm": True},
            "L0s, L1.1 PCI-PM, L1.2 PCI-PM, clock PM on",
        ),
        ({"l1_aspm": False, "clkpm": False}, "off"),
        ({"not a state": True}, "off"),
    ],
)
def test_enabled_power_saving(states: dict[str, bool], text: str) -> None:
    assert facts(aspm=states)["ASPM"].text == text


@pytest.mark.parametrize(
    "fields",
    [{"sriov": SRIOV}, {"sriov_capable": True}, {"driver": "vfio-pci", "sriov_capable": False}],
)
def test_reset_methods_of_what_is_assigned_to_guests(fields: dict[str, object]) -> None:
    assert facts(reset_methods=("flr", "bus"), **fields)["Reset methods"] == Fact(
        "Reset methods", "flr, bus"
    )
    assert facts(reset_methods=(), **fields)["Reset methods"] == Fact(
        "Reset methods", "none", "warn"
    )
    assert "Reset methods" not in facts(reset_methods=None, **fields)


def test_what_could_not_be_read_is_named() -> None:
    function = make_pci(
        "0000:02:00.0",
        unreadable={"errors": Unreadable("failed", "EIO"), "aspm": Unreadable("failed")},
    )
    (part,) = pci_section(function)
    reasons = [fact.text for fact in part.facts if fact.label == "Not readable"]
    assert [text.split(":")[0] for text in reasons] == ["errors", "aspm"]
