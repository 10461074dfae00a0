"""The chain of a NIC: what was read of each layer, what the checks found there, and what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.chain import STEPS
from nictop.model.devices.tree import device_tree
from nictop.model.facts import width
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.records import (
    Address,
    DefaultRoute,
    EventSource,
    Line,
    Link,
    LinkChange,
    Neighbour,
    Outdated,
    PcieLink,
    PciFunction,
    Routing,
    Unreadable,
)
from nictop.report.chain import chain_block, chain_text
from nictop.rules import RULES, SEVERITIES, HostFacts, diagnose
from nictop.rules.by_device import device_findings, findings_of
from nictop.rules.chain import (
    ChainStep,
    Nic,
    first_problem,
    has_chain,
    nic_chain,
    nic_chains,
)
from nictop.rules.finding import Severity
from nictop.rules.outdated import marked
from tests.model.hosts import make_pci
from tests.support.findings import finding
from tests.support.lines import change, counters, hello, inventory, link
from tests.support.rule_cases import CASES_DIRECTORY, base, host_facts
from tests.support.stages import recorded_hosts

BASES = CASES_DIRECTORY / "bases"
NIC = link(2, "ens224", bus="pci")
ADDRESS = Address("ipv4", "192.0.2.9", 24, "global", ())
ROUTE = DefaultRoute("ipv4", "192.0.2.1", 100, 254)


def snapshot_of(nic: Link, *, neighbours: tuple[Neighbour, ...] = (), **fields: object) -> Snapshot:
    line = inventory(nic, time=1.0)
    assert line.inventory is not None
    read = replace(line.inventory, routing=Routing(neighbours=neighbours), **fields)  # type: ignore[arg-type]
    snapshot = with_state(Snapshot.empty("vm"), "live", "")
    for received in (hello(), Line(inventory=read)):
        snapshot = advance(snapshot, received)
    return snapshot


def chain_of(nic: Link, rules: tuple[str, ...] = (), **options: object) -> dict[str, ChainStep]:
    """By step; `rules`: names of those with a finding."""
    found = [finding(rule=rule, severity=RULES[rule].severity) for rule in rules]
    snapshot = snapshot_of(nic, **options)  # type: ignore[arg-type]
    return {step.step: step for step in nic_chain(nic, None, snapshot, found, is_checked=True)}


def test_every_rule_names_a_step() -> None:
    assert {rule.step for rule in RULES.values()} == set(STEPS)


def test_what_is_above_a_link_without_carrier_waits() -> None:
    chain = chain_of(replace(NIC, carrier=False, operstate="down"))
    assert chain["link"].state == "failed" and chain["link"].text == "no carrier"
    assert {chain[step].state for step in ("port", "profile", "address", "peers")} == {"waits"}
    steps = tuple(chain.values())
    assert first_problem(steps) == steps.index(chain["link"])


def test_what_works_does_not_wait_for_what_does_not() -> None:
    """An address that was given by hand, without a manager."""
    chain = chain_of(replace(NIC, addresses=(ADDRESS,)))
    assert (chain["profile"].state, chain["address"].state) == ("none", "passed")
    assert chain["address"].text == "192.0.2.9/24"


@pytest.mark.parametrize(
    ("nud_state", "state", "text"),
    [
        ("reachable", "passed", "192.0.2.1"),
        ("permanent", "unknown", "192.0.2.1 static entry"),
        ("failed", "failed", "192.0.2.1 silent"),
        ("incomplete", "failed", "192.0.2.1 silent"),
        ("stale", "unknown", "192.0.2.1 not asked lately"),
        ("probe", "unknown", "192.0.2.1 not confirmed yet"),
    ],
)
def test_a_gateway_is_what_its_neighbour_entry_says(nud_state: str, state: str, text: str) -> None:
    """A stale entry excludes nothing: it was not asked for a while. A static one is used whether
    its host is there or not."""
    nic = replace(NIC, addresses=(ADDRESS,), default_routes=(ROUTE,))
    chain = chain_of(nic, neighbours=(Neighbour(2, "192.0.2.1", nud_state),))
    assert (chain["gateway"].state, chain["gateway"].text) == (state, text)


@pytest.mark.parametrize(
    ("nud_states", "state", "text"),
    [
        (("reachable", "permanent", "stale"), "passed", "1 peer answers"),
        (("permanent", "permanent"), "unknown", "static entries"),
        (("permanent", "stale"), "unknown", "not asked lately"),
        ((), "unknown", "no entry"),
    ],
)
def test_a_peer_answers_if_it_has_answered(
    nud_states: tuple[str, ...], state: str, text: str
) -> None:
    entries = tuple(
        Neighbour(2, f"192.0.2.{number}", nud_state) for number, nud_state in enumerate(nud_states)
    )
    chain = chain_of(replace(NIC, addresses=(ADDRESS,)), neighbours=entries)
    assert (chain["peers"].state, chain["peers"].text) == (state, text)


@pytest.mark.parametrize(
    ("address", "state", "text"),
    [
        (replace(ADDRESS, flags=("dadfailed",)), "failed", "192.0.2.9 is a duplicate"),
        (replace(ADDRESS, flags=("tentative",)), "failed", "192.0.2.9 tentative"),
        (replace(ADDRESS, flags=("tentative", "optimistic")), "passed", "192.0.2.9/24"),
        (replace(ADDRESS, scope="link"), "failed", "192.0.2.9 scope link"),
        (Address("ipv6", "fe80::1", 64, "link", ()), "failed", "link-local only"),
    ],
)
def test_an_address_that_cannot_be_used_is_not_called_another_kind(
    address: Address, state: str, text: str
) -> None:
    chain = chain_of(replace(NIC, addresses=(address,)))
    assert (chain["address"].state, chain["address"].text) == (state, text)


@pytest.mark.parametrize("lost", [{"carrier": False}, {"flags": 0, "carrier": None}])
def test_who_answered_before_the_carrier_went_does_not_now(lost: dict[str, object]) -> None:
    """An event has the carrier; the neighbours are read some seconds later."""
    nic = replace(NIC, addresses=(ADDRESS,), default_routes=(ROUTE,), **lost)  # type: ignore[arg-type]
    chain = chain_of(nic, neighbours=(Neighbour(2, "192.0.2.1", "reachable"),))
    assert {chain[step].state for step in ("gateway", "peers")} == {"waits"}


def test_a_nic_without_default_route_has_no_gateway_to_ask() -> None:
    chain = chain_of(replace(NIC, addresses=(ADDRESS,)))
    assert (chain["gateway"].state, chain["gateway"].text) == ("none", "none")


def test_a_source_that_was_not_read_is_not_known() -> None:
    why = Unreadable("failed", "did not answer")
    chain = chain_of(NIC, unreadable={"networkmanager": why, "addresses": why})
    for step in ("profile", "address"):
        assert chain[step].state == "unknown" and "did not answer" in chain[step].text, step
    pending = chain_of(NIC, pending=("networkmanager",))
    assert (pending["profile"].state, pending["profile"].text) == ("unknown", "not read yet")


def test_before_the_checks_nothing_has_passed() -> None:
    snapshot = snapshot_of(replace(NIC, addresses=(ADDRESS,)))
    chain = nic_chain(NIC, None, snapshot, (), is_checked=False)
    assert "passed" not in {step.state for step in chain}


@pytest.mark.parametrize("source", ["link", "NetworkManager"])
def test_what_is_read_again_after_an_event_has_not_passed(source: EventSource) -> None:
    """The values stay in sight; a tick would say that they are of now."""
    nic = replace(NIC, addresses=(ADDRESS,))
    before = snapshot_of(nic)
    event = Line(outdated=Outdated(5.0, source))
    doubtful = advance(before, event)
    chains = (
        nic_chain(nic, None, doubtful, (), is_checked=True),
        *nic_chains([Nic(nic, None, ())], doubtful, is_checked=True),
    )
    for chain in chains:
        steps = {step.step: step for step in chain}
        assert (steps["address"].state, steps["address"].text) == ("unknown", "192.0.2.9/24")
        assert steps["link"].state == "passed", "events tell that themselves"
        assert steps["profile"].state == "unknown", "nor that there is none"
    read = advance(doubtful, inventory(nic, time=6.0))
    again = {step.step: step for step in nic_chain(nic, None, read, (), is_checked=True)}
    assert again["address"].state == "passed"


def test_an_event_of_another_nic_leaves_what_has_passed() -> None:
    nic, other = replace(NIC, addresses=(ADDRESS,)), link(3, "ens256", bus="pci")
    before = advance(snapshot_of(nic), inventory(nic, other, time=2.0))
    lost = advance(before, change(3, "ens256", carrier=False, time=5.0))
    assert lost.unread_event is not None
    chain = {step.step: step for step in nic_chain(nic, None, lost, (), is_checked=True)}
    assert chain["address"].state == "passed"
    came = advance(before, change(2, "ens224", carrier=False, time=5.0))
    came = advance(came, change(2, "ens224", time=5.5))
    chain = {step.step: step for step in nic_chain(nic, None, came, (), is_checked=True)}
    assert chain["address"].state == "unknown"
    assert chain["slot"].state == "passed", "its device stays with it"


def test_the_finding_of_a_step_is_its_mark() -> None:
    chain = chain_of(NIC, ("duplex_is_half", "multiqueue_is_not_used"))
    assert chain["link"].state == "finding" and chain["link"].findings[0].rule == "duplex_is_half"
    assert chain["load"].findings[0].rule == "multiqueue_is_not_used"


def test_of_a_step_that_is_not_known_otherwise_the_finding_is_said() -> None:
    chain = chain_of(replace(NIC, addresses=(ADDRESS,)), ("mtu_differs_in_one_subnet",))
    assert (chain["peers"].state, chain["peers"].text) == ("finding", finding().title)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_step_in_doubt_has_the_mark_whatever_was_found_there(severity: Severity) -> None:
    nic = replace(NIC, addresses=(ADDRESS,))
    found = finding(rule="address_is_a_duplicate", severity=severity)
    before = snapshot_of(nic)
    after = advance(before, Line(outdated=Outdated(5.0, "NetworkManager")))
    for snapshot, one in ((after, marked(found)), (after, found), (before, marked(found))):
        chain = nic_chain(nic, None, snapshot, [one], is_checked=True)
        (step,) = (part for part in chain if part.step == "address")
        text = " ".join(chain_text(chain, 200))
        document = " ".join(part.text for part in chain_block(chain).parts)
        is_in_doubt = one.outdated or severity == "info"
        assert ("address ?" in text) is is_in_doubt is ("address ?" in document)
        assert step.findings == (one,)
    chain = nic_chain(nic, None, before, [marked(found), found], is_checked=True)
    assert "address ?" not in " ".join(chain_text(chain, 200)), "one of the two is known"


def test_a_note_leaves_a_step_that_failed_so() -> None:
    noted = finding(rule="carrier_flaps", severity="info")
    nic = replace(NIC, carrier=False, operstate="down")
    chain = {
        step.step: step for step in nic_chain(nic, None, snapshot_of(nic), [noted], is_checked=True)
    }
    assert chain["link"].state == "failed" and chain["link"].findings == (noted,)


def test_a_function_without_a_netdev_ends_at_its_driver() -> None:
    function = make_pci("0000:02:00.0", link=PcieLink(8.0, 8, 8.0, 8))
    chain = nic_chain(None, function, snapshot_of(NIC), (), is_checked=True)
    assert [(step.step, step.state, step.text) for step in chain] == [
        ("slot", "passed", "8 GT/s ×8"),
        ("driver", "failed", "no driver"),
    ]


VIRTIO = make_pci("0000:00:03.0", driver="virtio-pci", virtio_device="virtio0")


@pytest.mark.parametrize(
    ("function", "state", "text"),
    [
        (VIRTIO, "failed", "none bound to virtio0 (made by virtio-pci)"),
        (replace(VIRTIO, virtio_driver="virtio_net"), "passed", "virtio_net"),
        (
            replace(VIRTIO, unreadable={"virtio_driver": Unreadable("needs_root")}),
            "unknown",
            "driver needs root",
        ),
        (
            make_pci("0000:00:03.0", unreadable={"driver": Unreadable("needs_root")}),
            "unknown",
            "driver needs root",
        ),
    ],
)
def test_a_driver_of_the_bus_is_not_that_of_the_nic(
    function: PciFunction, state: str, text: str
) -> None:
    """Else ``driver ✖ virtio-pci`` reads as if that were the wrong one."""
    found = [finding(rule="function_has_no_driver", severity="critical")]
    for findings in ((), found) if state == "failed" else ((),):
        driver = nic_chain(None, function, snapshot_of(NIC), findings, is_checked=True)[1]
        assert (driver.state, driver.text) == ("finding" if findings else state, text)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_value_in_order_does_not_stand_beside_the_mark_of_a_fault(severity: Severity) -> None:
    """``address ✖ 192.0.2.9/24`` does not say what is wrong with it; beside a note it is a fact."""
    nic = replace(NIC, addresses=(ADDRESS,))
    found = finding(rule="address_is_a_duplicate", severity=severity, title="also on vm2")
    steps = nic_chain(nic, None, snapshot_of(nic), [found], is_checked=True)
    (step,) = (step for step in steps if step.step == "address")
    assert step.text == ("192.0.2.9/24" if severity == "info" else "also on vm2")


def test_a_function_whose_interface_came_or_went_is_not_known() -> None:
    """Its driver was unbound, or bound, since it was read."""
    function = make_pci("0000:02:00.0", driver="igb")
    read = snapshot_of(replace(NIC, pci_address=function.address), pci=(function,))
    gone = LinkChange(2.0, 2, True, "ens224", "down", False, 0, 1500)
    after = advance(read, Line(link_change=gone))
    steps = nic_chain(None, function, after, (), is_checked=True)
    assert [(step.step, step.state) for step in steps] == [
        ("slot", "unknown"),
        ("driver", "unknown"),
    ]
    unbound = replace(function, driver=None)
    without = snapshot_of(link(9, "ens192", bus="pci"), pci=(unbound,))
    assert nic_chain(None, unbound, without, (), is_checked=True)[1].state == "failed"
    came = LinkChange(2.0, 3, False, "ens224", "down", False, 0, 1500)
    bound = advance(without, Line(link_change=came))
    assert nic_chain(None, unbound, bound, (), is_checked=True)[1].state == "unknown"


def test_a_reading_that_was_begun_before_the_driver_was_unbound_does_not_tell_it() -> None:
    """It read the devices before, and the links after."""
    function = make_pci("0000:02:00.0", driver="igb")
    nic = replace(NIC, pci_address=function.address)
    gone = LinkChange(2.0, 2, True, "ens224", "down", False, 0, 1500)
    unbound = advance(snapshot_of(nic, pci=(function,)), Line(link_change=gone))
    assert unbound.inventory is not None
    late = replace(unbound.inventory, time=1.5, links=())
    after = advance(unbound, Line(inventory=late))
    assert nic_chain(None, function, after, (), is_checked=True)[1].state == "unknown"
    newer = replace(late, time=2.5, pci=(replace(function, driver=None),))
    read = advance(after, Line(inventory=newer))
    assert nic_chain(None, read.pci[0], read, (), is_checked=True)[1].state == "failed"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [59, 79, 118, 198])
def test_the_chains_of_recorded_nics_fit_in_two_lines(cells: int, glyphs: Glyphs) -> None:
    seen = set()
    for name, (said, whole, readings) in recorded_hosts().items():
        snapshot = with_state(Snapshot.empty(name), "live", "")
        for line in (
            Line(hello=said),
            Line(inventory=whole),
            *(Line(counters=one) for one in readings),
        ):
            snapshot = advance(snapshot, line)
        found = diagnose([HostFacts(snapshot)]).findings
        functions = {function.address: function for function in snapshot.pci}
        for nic in snapshot.links.values():
            if nic.device is None:
                continue
            own = [one for one in found if one.subject in (nic.name, nic.pci_address)]
            chain = nic_chain(
                nic, functions.get(nic.pci_address or ""), snapshot, own, is_checked=True
            )
            seen |= {step.state for step in chain}
            lines = chain_text(chain, cells, glyphs=glyphs)
            assert len(lines) <= (2 if cells > 59 else 3), lines
            assert max(map(width, lines)) <= cells
            assert glyphs is UNICODE or all(line.isascii() for line in lines)
    assert seen >= {"passed", "unknown", "none", "waits", "finding"}


@pytest.mark.parametrize("cells", [43, 59, 79])
def test_what_is_wrong_has_its_whole_text_where_there_is_room(cells: int) -> None:
    """Other texts are left out for it, and none is wider than its line."""
    nic = replace(NIC, addresses=(ADDRESS,))
    said = finding(rule="mtu_differs_in_one_subnet", title="MTU 9000, but 1500 at vm2 ens3")
    snapshot = snapshot_of(nic)
    lines = chain_text(nic_chain(nic, None, snapshot, [said], is_checked=True), cells)
    assert any(said.title in line for line in lines), lines
    assert max(map(width, lines)) <= cells
    assert all("192.0.2.9/24" in line for line in lines if "192." in line)


@pytest.mark.parametrize("name", sorted(path.stem for path in BASES.glob("*.json")))
@pytest.mark.parametrize("is_checked", [True, False])
def test_all_chains_at_once_are_those_of_each(name: str, is_checked: bool) -> None:
    host = host_facts({"name": "vm", **base(name)})
    findings = device_findings(diagnose([host]), "vm")
    for snapshot in (host.snapshot, with_unread_sources(host.snapshot)):
        rows = list(filter(has_chain, device_tree(snapshot)))
        nics = [Nic(row.link, row.pci, findings_of(row, findings)) for row in rows]
        one_by_one = [nic_chain(*nic[:2], snapshot, nic[2], is_checked=is_checked) for nic in nics]
        assert nic_chains(nics, snapshot, is_checked=is_checked) == one_by_one


def with_unread_sources(snapshot: Snapshot) -> Snapshot:
    """Its addresses, its managers and its LLDP neighbours were not read."""
    assert snapshot.inventory is not None
    why = Unreadable("failed", "did not answer")
    unreadable = dict.fromkeys(("networkmanager", "addresses", "lldp"), why)
    return replace(snapshot, inventory=replace(snapshot.inventory, unreadable=unreadable))


def test_a_name_is_not_obeyed() -> None:
    snapshot = snapshot_of(replace(NIC, name="e[red]\x1b[2J"))
    (nic,) = snapshot.links.values()
    text = "".join(chain_text(nic_chain(nic, None, snapshot, (), is_checked=True), 200))
    assert "\x1b" not in text and "e[red]" in text


def test_rates_are_what_the_load_rests_on() -> None:
    snapshot = snapshot_of(NIC)
    assert nic_chain(NIC, None, snapshot, (), is_checked=True)[-1].state == "unknown"
    for time in (1.0, 2.0):
        snapshot = advance(snapshot, counters(time, {2: (0, 0)}))
    assert nic_chain(NIC, None, snapshot, (), is_checked=True)[-1].state == "passed"


def test_of_an_unread_nic_only_name_and_link_are_known() -> None:
    """An event has its name and state: whether it has a driver, a profile or an address is not
    known."""
    before = snapshot_of(link(2, "ens3"))
    new = LinkChange(
        99.0, 7, gone=False, name="ens9", operstate="up", carrier=True, flags=0x1043, mtu=1500
    )
    after = advance(before, Line(link_change=new))
    steps = {
        step.step: step for step in nic_chain(after.links[7], None, after, (), is_checked=True)
    }
    assert (steps["name"].state, steps["link"].state) == ("passed", "passed")
    others = {name: step.state for name, step in steps.items() if name not in ("name", "link")}
    assert set(others) == {*STEPS} - {"name", "link"} and set(others.values()) == {"unknown"}
    assert {steps[name].text for name in others} == {"not read yet"}


def test_no_check_waits_for_an_unread_nic_or_reports_it() -> None:
    name, *_ = recorded_hosts()
    _, inventory, _ = recorded_hosts()[name]
    before = advance(snapshot_of(link(2, "ens3")), Line(inventory=inventory))
    new = LinkChange(
        inventory.time + 1,
        99,
        gone=False,
        name="ens9",
        operstate="up",
        carrier=True,
        flags=3,
        mtu=9,
    )
    after = advance(before, Line(link_change=new))
    known, found = diagnose((HostFacts(before),)), diagnose((HostFacts(after),))
    assert (found.findings, found.skipped) == (known.findings, known.skipped)


@pytest.mark.parametrize("cells", [44, 78])
def test_why_a_source_was_not_read_is_seen_in_a_narrow_panel(cells: int) -> None:
    told = "NetworkManager did not answer: timed out"
    snapshot = snapshot_of(
        replace(NIC, addresses=(ADDRESS,), default_routes=(ROUTE,)),
        unreadable={"networkmanager": Unreadable("failed", told)},
    )
    (nic,) = snapshot.links.values()
    lines = chain_text(nic_chain(nic, None, snapshot, (), is_checked=True), cells)
    assert "profile ? timed out" in " ".join(lines), lines
    assert all(width(line) <= cells for line in lines)
