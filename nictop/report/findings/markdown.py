"""``nictop check --format markdown``: the findings, for a ticket or a chat. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.document import findings_section
from nictop.report.render.markdown import markdown_of
from nictop.rules import Diagnosis, HostFacts


def check_markdown(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
) -> str:
    """Hosts, the verdict, one section per finding; with a final newline. `skipped`: list the
    skipped checks."""
    return markdown_of([findings_section(hosts, diagnosis, unreachable, skipped=skipped)])
