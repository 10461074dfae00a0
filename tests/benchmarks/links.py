"""Namespaces with many links, for benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.namespaces import Namespace


@contextmanager
def veth_namespace(links: int) -> Iterator[Namespace]:
    """A namespace with `links` veth ends (an even number), all up, and lo."""
    namespace = Namespace()
    try:
        commands = []
        for pair in range(links // 2):
            commands.append(f"link add name left{pair} type veth peer name right{pair}")
            commands += [f"link set dev {end}{pair} up" for end in ("left", "right")]
        namespace.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n")
        yield namespace
    finally:
        namespace.remove()
