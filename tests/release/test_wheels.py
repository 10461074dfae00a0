"""What pyproject.toml requires is what is bundled, and what is tested in its lowest versions."""

from __future__ import annotations

import re

from packaging.requirements import Requirement

from release.wheels import REQUIREMENTS, ROOT, _dependencies, lowest_versions

TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def names(requirements: object) -> list[str]:
    return [Requirement(str(one)).name for one in requirements]  # type: ignore[attr-defined]


def test_no_dependency_is_overlooked() -> None:
    """A line may end with a comment."""
    block = TEXT.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    assert len(names(_dependencies("dependencies"))) == len(block.splitlines())
    assert {"textual", "rich", "pyroute2"} <= set(names(_dependencies("dependencies")))


def test_each_dependency_is_bundled() -> None:
    bundled = re.findall(r"^([\w.-]+)==", REQUIREMENTS.read_text(encoding="ascii"), re.MULTILINE)
    expected = {name.replace("-", "_") for name in names(_dependencies("dependencies"))}
    assert expected <= set(bundled)


def test_the_lowest_versions_are_those_of_the_bounds() -> None:
    lowest = {one.name: one for one in map(Requirement, lowest_versions())}
    allowed = {one.name: one for one in map(Requirement, _dependencies("dependencies"))}
    assert lowest.keys() == allowed.keys()
    for name, requirement in lowest.items():
        (exact,) = requirement.specifier
        assert exact.operator == "==" and allowed[name].specifier.contains(exact.version)
    assert str(lowest["textual"].specifier) == "==8.2.5"
    assert (lowest["asyncssh"].extras, str(lowest["tomli"].marker)) == (
        {"bcrypt"},
        'python_version < "3.11"',
    )
