"""``nictop show``: the facts of the screen as text and JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from nictop import __version__
from nictop.model.columns.queues import MOVED_NOTE
from nictop.model.facts import width
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import ASCII
from nictop.model.text.terminal import clean
from nictop.probe.records import (
    LINK_COUNTERS,
    ForwardingEntry,
    Interrupt,
    Inventory,
    IommuGroup,
    KernelMessage,
    Link,
    PciFunction,
    Platform,
    Queue,
    Services,
    Settings,
    Trouble,
    Unreadable,
)
from nictop.report.facts.host import ShowDocument, show_json, show_schema, show_text
from tests.model.hosts import (
    HELLO,
    LINKS,
    PF,
    counters,
    inventory,
    live_host,
    make_link,
    snapshot_of,
)
from tests.support.hostile import NAME as HOSTILE


def hostile_host() -> Snapshot:
    link = replace(PF, name=HOSTILE, alias=HOSTILE, altnames=(HOSTILE,))
    return snapshot_of(
        replace(HELLO, kernel=HOSTILE), inventory(links=(link,)), Trouble(101.0, HOSTILE),
        host=HOSTILE
    )  # fmt: skip


# --------------------------------------------------------------------------------------------- text


def test_text_has_tree_rates_and_facts() -> None:
    text = show_text(live_host(), 120)
    assert text.endswith("\n") and not text.endswith("\n\n")
    lines = text.splitlines()
    assert lines[0] == "alma-load-001 · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 1.00 s"
    (pf,) = [line.split() for line in lines if line.startswith("│ ├ ens224 ")]
    assert pf[3:] == [
        "↑",
        "1G",
        "–",
        "igb",
        "9.41",
        "G",
        "21.3",
        "M",
        "776",
        "k",
        "40.0",
        "k",
        "5",
        "5.00",
    ]
    assert "  Rings           rx 512 of 4096 · tx 512 of 4096" in lines
    assert "  n/a             needs root: module" in lines
    assert {"br0", "ens224.100"} <= set(lines), "each a chapter"
    assert "3 virtual interfaces in the table above; details: --format json" in lines
    assert sum(line == "=" * 6 for line in lines) == 2, "ens224 and ens256 have a chapter each"


def test_functions_are_described_once() -> None:
    """The facts of a netdev include its PCI function; a function without a netdev has its own
    section."""
    text = show_text(live_host(), 100)
    assert text.count("  Address         0000:02:00.0 ·") == 1
    assert text.count("  Address         0000:04:00.0 ·") == 1


@pytest.mark.parametrize("room", [-5, 0, 40, 60, 80, 120, 200, 1000])
@pytest.mark.parametrize("make", [live_host, hostile_host, lambda: Snapshot.empty("nobody")])
def test_text_fits_the_width(room: int, make: Any) -> None:
    limit = max(40, min(200, room))
    assert max(width(line) for line in show_text(make(), room).splitlines()) <= limit


def test_no_control_character_reaches_the_terminal() -> None:
    text = show_text(hostile_host(), 200)
    assert all(character == "\n" or character.isprintable() for character in text)
    assert clean(HOSTILE) in text


def test_ascii() -> None:
    text = ASCII.encode(show_text(live_host(), 100))
    assert text.isascii()
    assert "| | ens224" in text
    assert len(text.splitlines()) == len(show_text(live_host(), 100).splitlines())


def test_a_host_without_data() -> None:
    text = show_text(Snapshot.empty("nobody"), 80)
    assert "inventory pending" in text
    assert "CPU  no rates" in text


def busy_queues() -> Snapshot:
    """The physical function with two queues, of which only the first is busy; one interrupt cannot
    be mapped."""
    names = ("tx_queue_0_packets", "rx_queue_0_packets", "rx_queue_1_packets")
    link = replace(
        PF,
        queues=(Queue("rx", 0), Queue("rx", 1), Queue("tx", 0)),
        ethtool=replace(PF.ethtool, driver_counter_names=names),
    )
    interrupts = tuple(
        Interrupt(
            40 + index, (name,), "0000:02:00.0", allowed_cpus="0-3", effective_cpus=str(index)
        )
        for index, name in enumerate(("ens224", "ens224-TxRx-0", "ens224-rx-1", HOSTILE))
    )
    loads = [
        counters(
            time,
            interrupts={40: {}, 41: {2: int(1000 * time)}, 42: {}, 43: {}},
            driver={4: (0, int(9e5 * time), 0)},
        )
        for time in (1, 2)
    ]
    return snapshot_of(HELLO, replace(inventory(links=(link,)), interrupts=interrupts), *loads)


def test_text_has_the_queues() -> None:
    text = show_text(busy_queues(), 100)
    assert text.isprintable() or all(
        character == "\n" or character.isprintable() for character in text
    )
    lines = [line.split() for line in text[text.index("\nqueues\n") :].splitlines()]
    (titles, first, second, total) = lines[2:6]
    assert [*titles[:3], *titles[7:9]] == ["QUEUE", "RX", "pps", "TX", "b/s"]
    assert first == [
        "0",
        "900",
        "k",
        "0",
        "n/a",
        "n/a",
        "n/a",
        "n/a",
        "–",
        "41",
        "1.00",
        "k",
        "2▲",
        "0-3",
    ]
    assert second == ["1", "rx", "0", "n/a", "n/a", "–", "42", "0", "2", "0-3"]
    assert total[:3] == ["all", "900", "k"]
    assert f"  {MOVED_NOTE}" in text
    assert "  busiest queue 0: 100 % of packets" in text
    assert "  interrupt 40 (ens224): not a queue interrupt" in text
    assert "  interrupt 43 (ev\\x1b[2J" in text


@pytest.mark.parametrize("room", [40, 80, 120, 200])
def test_queues_fit_the_width(room: int) -> None:
    assert max(width(line) for line in show_text(busy_queues(), room).splitlines()) <= room


# --------------------------------------------------------------------------------------------- JSON


def test_json_has_the_queues() -> None:
    document = json.loads(show_json(busy_queues()))
    found = document["queue_maps"]["4"]
    first = found["rows"][0]
    assert (first["queue"], first["rx_packets"], first["interrupts"], first["effective"]) == (
        0,
        900_000,
        1000,
        [1],
    )
    assert first["loads"][0]["interrupt"]["name"] == "ens224-TxRx-0"
    assert first["loads"][0]["cpus"] == {"2": 1000}
    assert [one["interrupt"]["number"] for one in found["others"] + found["unmapped"]] == [40, 43]
    assert (found["busiest"], found["busiest_share"]) == (0, 1.0)


def test_json_is_the_records_unchanged() -> None:
    snapshot = live_host()
    document = json.loads(show_json(snapshot))
    assert document["host"] == "alma-load-001"
    assert document["nictop"] == __version__
    assert [link["name"] for link in document["inventory"]["links"]] == [
        link.name for link in LINKS
    ]
    names = document["counter_names"]["links"]
    assert tuple(names) == LINK_COUNTERS
    assert (
        dict(zip(names, document["counters"]["links"]["4"], strict=True))["rx_bytes"]
        == 1_176_251_000
    )
    assert document["rates"]["links"]["4"]["rx_bits"] == 9_410_000_000
    assert document["rates"]["elapsed"] == 1.0
    assert msgspec.convert(document["inventory"], Inventory, strict=False) == snapshot.inventory


def test_json_is_ascii_and_exact() -> None:
    text = show_json(hostile_host())
    assert text.isascii()
    assert all(character == "\n" or character.isprintable() for character in text)
    document = json.loads(text)
    assert document["inventory"]["links"][0]["name"] == HOSTILE
    assert document["troubles"][0]["message"] == HOSTILE


def test_json_has_the_reasons_of_absent_values() -> None:
    document = json.loads(show_json(live_host()))
    (link,) = [link for link in document["inventory"]["links"] if link["name"] == "ens224"]
    assert link["ethtool"]["module"] is None
    assert link["ethtool"]["unreadable"]["module"] == {"reason": "needs_root", "detail": "EPERM"}


def test_json_without_data() -> None:
    document = json.loads(show_json(Snapshot.empty("nobody")))
    assert (document["inventory"], document["rates"], document["hello"]) == (None, None, None)


# ------------------------------------------------------------------------------------------- schema


def check(value: Any, schema: dict[str, Any], definitions: dict[str, Any], path: str = "$") -> None:
    """Validate a value by the part of JSON schema that msgspec writes; other keywords fail."""
    schema = {
        key: part
        for key, part in schema.items()
        if key not in ("title", "description", "default", "$schema")
    }
    schema.pop("$defs", None)
    if "$ref" in schema:
        return check(value, definitions[schema["$ref"].removeprefix("#/$defs/")], definitions, path)
    if "anyOf" in schema:
        failures = []
        for option in schema["anyOf"]:
            try:
                return check(value, option, definitions, path)
            except AssertionError as error:
                failures.append(str(error))
        raise AssertionError(f"{path}: {failures}")
    if "enum" in schema:
        assert value in schema["enum"], path
        return None
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    kind = schema.pop("type")
    if kind == "null":
        assert value is None, path
        return None
    assert isinstance(value, kinds[kind]), f"{path}: {value!r} is no {kind}"  # type: ignore[arg-type]
    assert kind == "boolean" or not isinstance(value, bool), path
    if kind == "object":
        properties, others = schema.pop("properties", {}), schema.pop("additionalProperties", None)
        assert set(schema.pop("required", [])) <= value.keys(), path
        for key, part in value.items():
            rule = properties.get(key, others)
            assert rule is not None, f"{path}.{key} is not in the schema"
            check(part, rule, definitions, f"{path}.{key}")
    if kind == "array":
        first, rest = schema.pop("prefixItems", []), schema.pop("items", None)
        assert schema.pop("minItems", 0) <= len(value) <= schema.pop("maxItems", len(value)), path
        for index, part in enumerate(value):
            check(
                part, first[index] if index < len(first) else rest, definitions, f"{path}[{index}]"
            )
    assert not schema, f"{path}: the check does not know {sorted(schema)}"
    return None


@pytest.mark.parametrize(
    "make", [live_host, hostile_host, busy_queues, lambda: Snapshot.empty("nobody")]
)
def test_the_schema_describes_the_document(make: Any) -> None:
    schema = json.loads(show_schema())
    check(json.loads(show_json(make())), schema, schema["$defs"])


def test_the_schema_refuses_other_documents() -> None:
    schema = json.loads(show_schema())
    document = json.loads(show_json(live_host()))
    document["inventory"]["links"][0]["mtu"] = "1500"
    with pytest.raises(AssertionError, match="mtu"):
        check(document, schema, schema["$defs"])
    del document["inventory"]["links"][0]["mtu"]
    with pytest.raises(AssertionError, match="links"):
        check(document, schema, schema["$defs"])


def without_names(properties: Iterable[str]) -> set[str]:
    """Without those of `report.facts.names`, which are beside a number or a mapping by number."""
    fields = set(properties)
    return {one for one in fields if re.sub("_names?$", "", one) not in fields - {one}} - {
        "counters_by_name"
    }


def test_the_schema_comes_from_the_record_types() -> None:
    schema = json.loads(show_schema())
    assert schema["$ref"] == "#/$defs/ShowDocument"
    assert without_names(schema["$defs"]["Link"]["properties"]) == set(Link.__dataclass_fields__)
    assert without_names(schema["$defs"]["ShowDocument"]["properties"]) == set(
        ShowDocument.__dataclass_fields__
    )
    assert schema["$defs"]["Unreadable"]["description"].startswith(str(Unreadable.__doc__)[:30])


def test_the_schema_describes_what_surrounds_the_links() -> None:
    around = replace(
        inventory(),
        services=Services(networkmanager=700, libvirt=900),
        settings=Settings(
            {"net.ipv4.ip_forward": 1}, "bbr", "quiet", {0: "powersave"}, {0: (800000, 3600000)}, 2
        ),
        iommu=(IommuGroup(7, (("0000:02:00.0", 0x020000, None),), "DMA-FQ"),),
        forwarding=(ForwardingEntry(3, "52:54:00:00:aa:01", False, 2, True),),
        messages=(KernelMessage(1.5, 4, HOSTILE),),
    )
    schema, document = json.loads(show_schema()), json.loads(show_json(snapshot_of(HELLO, around)))
    check(document, schema, schema["$defs"])
    document_inventory = document["inventory"]
    assert document_inventory["iommu"][0]["members"] == [["0000:02:00.0", 0x020000, None]]
    assert document_inventory["settings"]["frequencies"] == {"0": [800000, 3600000]}
    assert document_inventory["messages"][0]["text"] == HOSTILE
    for part in (
        Services,
        Settings,
        IommuGroup,
        ForwardingEntry,
        KernelMessage,
        Platform,
        PciFunction,
    ):
        assert without_names(schema["$defs"][part.__name__]["properties"]) == set(
            part.__dataclass_fields__
        )


def test_show_does_not_import_textual() -> None:
    code = (
        "import sys, nictop.report.facts.host, nictop.report.findings.check, nictop.cli.main, "
        "nictop.hosts.observe;"
        "print(*sys.modules.keys() & {'textual', 'rich', 'asyncssh', 'pyroute2', 'psutil'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_links_known_from_a_link_change_are_in_the_tree() -> None:
    text = show_text(
        snapshot_of(HELLO, inventory(links=(make_link(9, "eth9", bus="usb", device="1-2"),))), 80
    )
    assert "eth9" in text
