"""The bill of materials: valid CycloneDX, complete, and the same for the same wheels."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from release.sbom import sbom
from release.wheels import BUILD_REQUIREMENTS, REQUIREMENTS, ROOT

SECONDS = 1_790_000_000

# Of bom-1.6.schema.json: (required, allowed) fields of each object, as far as they are used here.
OBJECTS = {
    "bom": (
        {"bomFormat", "specVersion"},
        {"$schema", "serialNumber", "version", "metadata", "components", "dependencies"},
    ),
    "metadata": (set(), {"timestamp", "component"}),
    "component": (
        {"type", "name"},
        {"bom-ref", "version", "purl", "licenses", "hashes", "components", "properties"},
    ),
    "hash": ({"alg", "content"}, set()),
    "dependency": ({"ref"}, {"dependsOn"}),
    "property": ({"name"}, {"value"}),
}
TYPES = {"application", "library", "file"}
SERIAL_NUMBER = r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def check_object(kind: str, found: dict[str, Any]) -> None:
    required, allowed = OBJECTS[kind]
    assert required <= set(found) <= required | allowed, (kind, set(found))


def check_component(found: dict[str, Any]) -> None:
    check_object("component", found)
    assert found["type"] in TYPES and found["name"]
    for one in found.get("hashes", []):
        check_object("hash", one)
        assert one["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", one["content"])
    licences = found.get("licenses", [])
    assert all(set(one) == {"expression"} or set(one["license"]) == {"name"} for one in licences)
    assert len(licences) <= 1 or all("license" in one for one in licences), (
        "one expression, or licences"
    )
    for one in found.get("properties", []):
        check_object("property", one)
    if "purl" in found:
        assert re.fullmatch(r"pkg:pypi/[a-z0-9-]+@[0-9][\w.]*", found["purl"])
    for one in found.get("components", []):
        check_component(one)


def references(component: dict[str, Any]) -> list[str]:
    below = [one for part in component.get("components", []) for one in references(part)]
    return ([component["bom-ref"]] if "bom-ref" in component else []) + below


def check_document(text: bytes) -> dict[str, Any]:
    """Asserts that a text is a CycloneDX 1.6 document."""
    found: dict[str, Any] = json.loads(text)
    check_object("bom", found)
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(SERIAL_NUMBER, found["serialNumber"])
    check_object("metadata", found["metadata"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["metadata"]["timestamp"])
    check_component(found["metadata"]["component"])
    for one in found["components"]:
        check_component(one)
    known = [
        one
        for part in (found["metadata"]["component"], *found["components"])
        for one in references(part)
    ]
    assert len(set(known)) == len(known), "each reference is unique"
    for one in found["dependencies"]:
        check_object("dependency", one)
        assert one["ref"] in known and set(one["dependsOn"]) <= set(known)
    assert sorted(one["ref"] for one in found["dependencies"]) == sorted(known)
    return found


def wheel(folder: Path, file: str, *metadata: str) -> Path:
    name, version, *_ = file.split("-")
    path = folder / file
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name.replace('_', '-')}",
        f"Version: {version}",
        *metadata,
        "",
        "Text: no",
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name}-{version}.dist-info/METADATA"), "\n".join(lines))
    return path


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    return [
        wheel(tmp_path, "nictop-1.0-py3-none-any.whl", "License-Expression: Apache-2.0",
            "Requires-Dist: Some.lib>=1",
              "Requires-Dist: tomli>=2; python_version < '3.11'", "Requires-Dist: extra; extra == "
                                                                  "'x'"),
        wheel(tmp_path, "some_lib-2.1-cp310-cp310-manylinux.whl", "License: MIT License\n        "
                                                                  "text",
              "Requires-Dist: tomli"),
        wheel(tmp_path, "some_lib-2.1-cp311-cp311-manylinux.whl", "License: MIT License"),
        wheel(tmp_path, "tomli-3-py3-none-any.whl", "Classifier: License :: OSI Approved :: BSD "
                                                    "License"),
        wheel(tmp_path, "extra-1-py3-none-any.whl"),
    ]  # fmt: skip


def test_it_is_a_cyclonedx_document_of_what_is_bundled(wheels: list[Path], tmp_path: Path) -> None:
    artefact = tmp_path / "nictop-1.0.pyz"
    artefact.write_bytes(b"bundled")
    found = check_document(sbom(artefact, wheels, SECONDS))
    own = found["metadata"]["component"]
    assert (own["name"], own["version"], own["licenses"]) == (
        "nictop",
        "1.0",
        [{"expression": "Apache-2.0"}],
    )
    assert own["hashes"][0]["content"] == hashlib.sha256(b"bundled").hexdigest()
    assert [(one["name"], one["version"]) for one in found["components"]] == [
        ("extra", "1"),
        ("some-lib", "2.1"),
        ("tomli", "3"),
    ]
    extra, some, tomli = found["components"]
    assert "licenses" not in extra and some["licenses"] == [{"license": {"name": "MIT License"}}]
    assert tomli["licenses"] == [{"license": {"name": "BSD License"}}]
    files = {one["name"]: one["hashes"][0]["content"] for one in some["components"]}
    assert files == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels[1:3]
    }
    edges = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert edges["pkg:pypi/nictop@1.0"] == ["pkg:pypi/some-lib@2.1", "pkg:pypi/tomli@3"]
    assert edges["pkg:pypi/some-lib@2.1"] == ["pkg:pypi/tomli@3"]


def test_the_same_wheels_give_the_same_bytes(wheels: list[Path], tmp_path: Path) -> None:
    artefact = tmp_path / "nictop-1.0.pyz"
    artefact.write_bytes(b"bundled")
    first = sbom(artefact, wheels, SECONDS)
    assert sbom(artefact, reversed(wheels), SECONDS) == first
    artefact.write_bytes(b"other")
    assert sbom(artefact, wheels, SECONDS) != first


def test_two_versions_of_one_library_are_an_error(wheels: list[Path], tmp_path: Path) -> None:
    (tmp_path / "nictop-1.0.pyz").touch()
    with pytest.raises(ValueError, match=r"some-lib: both 2\.1 and 2\.2"):
        sbom(
            tmp_path / "nictop-1.0.pyz",
            [*wheels, wheel(tmp_path, "some_lib-2.2-py3-none-any.whl")],
            SECONDS,
        )


# ------------------------------------------------------------------------------------- requirements


@pytest.mark.parametrize("file", [REQUIREMENTS, BUILD_REQUIREMENTS], ids=lambda file: file.name)
def test_every_requirement_has_a_version_and_hashes(file: Path) -> None:
    """So pip installs nothing else, whatever the index serves (--require-hashes)."""
    entries = re.split(r"\n(?=\w)", file.read_text().partition("\n")[2].strip())
    assert len(entries) >= 8
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==[\w.]+(?: \\\n    --hash=sha256:[0-9a-f]{64})+", entry), (
            entry
        )


def test_the_tools_are_those_of_pyproject_and_the_constraints() -> None:
    names = set(re.findall(r"^([\w.-]+)==", BUILD_REQUIREMENTS.read_text(), re.MULTILINE))
    (group,) = re.findall(
        r"^dist = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL
    )
    wanted = set(re.findall(r'"([\w-]+)', group))
    assert wanted and wanted <= names
    constraints = (ROOT / ".ci" / "constraints.txt").read_text()
    for name, version in re.findall(
        r"^([\w.-]+)==([\w.]+)", BUILD_REQUIREMENTS.read_text(), re.MULTILINE
    ):
        pinned = re.search(
            rf"^{re.escape(name).replace('_', '[-_]')}==([\w.]+)", constraints, re.MULTILINE
        )
        assert pinned is None or pinned[1] == version, name
    makefile = (ROOT / "Makefile").read_text()
    assert "--require-hashes" in makefile and "--group dist" not in makefile
