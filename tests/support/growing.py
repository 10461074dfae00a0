"""Places in nictop where bytes are added to those before: an attribute or a variable that begins as
``b""`` or as a bytearray and grows. Found in the source, so that a new receiver of a stream cannot
be forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nictop

PACKAGE = Path(nictop.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


def growing_bytes() -> set[str]:
    """``wire.line_reader.LineReader._rest``, ``probe.protocol.requests.take_lines rest``"""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found |= {f"{module}.{place}" for place in growing_in(path.read_text("utf-8"))}
    return found


def growing_in(source: str) -> Iterator[str]:
    if "b'" not in source and 'b"' not in source and "byte" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            known = begun(node) | fields_of_bytes(node)
            own = {name for name in known if name.startswith("self.")}
            if own:
                yield from sorted(f"{node.name}.{name[5:]}" for name in own & grown(node))
        elif isinstance(node, Function):
            known = begun(node) | bytearrays_given(node)
            own = {name for name in known if not name.startswith("self.")}
            if own:
                yield from sorted(f"{node.name} {name}" for name in own & grown(node))


def begun(node: ast.AST) -> set[str]:
    """What is set to bytes."""
    return {name_of(target) for target, value in assigned(node) if is_bytes(value)} - {""}


def fields_of_bytes(node: ast.ClassDef) -> set[str]:
    """Fields of a dataclass."""
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    return {
        f"self.{name_of(one.target)}"
        for one in fields
        if ast.unparse(one.annotation) in ("bytes", "bytearray")
    }


def bytearrays_given(node: Function) -> set[str]:
    return {
        one.arg
        for one in node.args.args
        if one.annotation and ast.unparse(one.annotation) == "bytearray"
    }


def grown(node: ast.AST) -> set[str]:
    """To what something is added, also under another name."""
    names = set()
    for one in ast.walk(node):
        if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add):
            names.add(name_of(one.target))
        elif (
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Attribute)
            and one.func.attr == "extend"
        ):
            names.add(name_of(one.func.value))
    for target, value in assigned(node):
        sums = [
            one
            for one in ast.walk(value)
            if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)
        ]
        if name_of(target) in map(name_of, (one.left for one in sums)):
            names.add(name_of(target))
    return names | {name_of(value) for target, value in assigned(node) if name_of(target) in names}


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for one in ast.walk(node):
        if isinstance(one, ast.AnnAssign) and one.value is not None:
            yield one.target, one.value
        for target in one.targets if isinstance(one, ast.Assign) else ():
            value = one.value if isinstance(one, ast.Assign) else target
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from zip(target.elts, value.elts, strict=False)
            else:
                yield target, value


def name_of(node: ast.expr) -> str:
    """``data``, ``self._rest``; "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    is_own = (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
    return f"self.{node.attr}" if is_own and isinstance(node, ast.Attribute) else ""


def is_bytes(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bytes)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("bytes", "bytearray")
    )
