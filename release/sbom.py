"""The bill of materials of a file in dist/: what is bundled in it, as CycloneDX 1.6 (JSON).

It is made from the wheels that are unpacked into the file: names, versions, licences and
dependencies are those of their metadata, hashes those of the wheels and of the file. The same
commit gives the same bytes.
"""

from __future__ import annotations

import email.message
import email.parser
import hashlib
import json
import re
import time
import uuid
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = ".cdx.json"
SPECIFICATION = "1.6"
REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?[^;]*(?:;(.*))?", re.ASCII)
"""Name and marker of a Requires-Dist."""
LICENCE_CLASSIFIER = "License :: "


@dataclass
class Library:
    """One distribution, with all of its wheels."""

    name: str
    """As in its metadata."""
    version: str
    licences: list[dict[str, Any]]
    requires: frozenset[str]
    """Normalized names."""
    wheels: dict[str, str] = field(default_factory=dict)
    """File name → SHA-256."""

    @property
    def reference(self) -> str:
        return f"pkg:pypi/{normalized(self.name)}@{self.version}"


def sbom(artefact: Path, wheels: Iterable[Path], seconds: int) -> bytes:
    """The text of the bill of `artefact`, in which `wheels` are bundled; `seconds`: its time, since
    the epoch."""
    found = libraries(wheels)
    own = found.pop("nictop")
    digest = hashlib.sha256(artefact.read_bytes()).hexdigest()
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{artefact.name} {digest}").urn,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "component": {
                **component(own, "application"),
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "nictop:file", "value": artefact.name}],
            },
        },
        "components": [component(one, "library") for one in found.values()],
        "dependencies": dependencies([own, *found.values()]),
    }
    return (json.dumps(document, indent=2, ensure_ascii=True) + "\n").encode("ascii")


def libraries(wheels: Iterable[Path]) -> dict[str, Library]:
    """Normalized name → library, in the order of names."""
    found: dict[str, Library] = {}
    for wheel in sorted(wheels):
        metadata = wheel_metadata(wheel)
        name = str(metadata["Name"])
        requires = frozenset(required_names(metadata.get_all("Requires-Dist") or ()))
        library = Library(name, str(metadata["Version"]), licences(metadata), requires)
        known = found.setdefault(normalized(name), library)
        if known.version != library.version:
            raise ValueError(f"{name}: both {known.version} and {library.version}")
        known.requires |= library.requires
        known.wheels[wheel.name] = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return dict(sorted(found.items()))


def wheel_metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)
        )
        return email.parser.BytesParser().parsebytes(archive.read(name), headersonly=True)


def component(library: Library, kind: str) -> dict[str, Any]:
    """A library with its wheels as files in it."""
    files = [
        {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
        for name, digest in sorted(library.wheels.items())
    ]
    found: dict[str, Any] = {
        "type": kind,
        "bom-ref": library.reference,
        "name": library.name,
        "version": library.version,
        "purl": library.reference,
        "components": files,
    }
    if library.licences:
        found["licenses"] = library.licences
    return found


def licences(metadata: email.message.Message) -> list[dict[str, Any]]:
    """An SPDX expression, else the names that the metadata have; [] if they have none."""
    expression = metadata["License-Expression"]
    if expression:
        return [{"expression": str(expression)}]
    text = str(metadata["License"] or "").strip().partition("\n")[0]
    if text:
        return [{"license": {"name": text}}]
    classifiers = [str(one) for one in metadata.get_all("Classifier") or ()]
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith(LICENCE_CLASSIFIER)]
    return [{"license": {"name": name}} for name in names]


def dependencies(found: Sequence[Library]) -> list[dict[str, Any]]:
    references: Mapping[str, str] = {normalized(one.name): one.reference for one in found}
    return [
        {
            "ref": one.reference,
            "dependsOn": sorted(references[name] for name in one.requires if name in references),
        }
        for one in found
    ]


def required_names(requirements: Iterable[str]) -> Iterable[str]:
    """Names of requirements that do not belong to an extra."""
    for text in requirements:
        match = REQUIREMENT.fullmatch(str(text).strip())
        if match is not None and "extra" not in (match[2] or ""):
            yield normalized(match[1])


def normalized(name: str) -> str:
    """As in the index of packages (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
