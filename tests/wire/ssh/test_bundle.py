"""The bundle: small, complete, the same program, and readable by every supported Python."""

from __future__ import annotations

import ast
import io
import json
import marshal
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import tokenize
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.protocol.byte_code import ByteCode, store_byte_code
from nictop.wire.codec import decode
from nictop.wire.errors import PermanentError
from nictop.wire.ssh.bootstrap_command import FIRST_LINE, INPUT_LOST_STATUS, RemoteCommand
from nictop.wire.ssh.bundle import (
    BYTECODE_MAGIC,
    GENERICS,
    MAX_SENT_RESTS,
    Bundle,
    bundle,
    imported_names,
    imports_of,
    packed_frame,
    stripped_source,
)
from tests.support.namespaces import ROOT
from tests.support.probe import PYTHONS, python_parameters, version_and_magic


def unpacked(packed: bytes) -> dict[str, str]:
    modules: dict[str, str] = marshal.loads(zlib.decompress(packed[4:]))
    return modules


def command(packed: Bundle, *arguments: str) -> RemoteCommand:
    return RemoteCommand(["--interval", "0.1", *arguments], len(packed.start), len(packed.frames))


def run(line: str, data: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the line as a login shell would."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        input=data,
        capture_output=True,
        timeout=120,
        check=False,
        env=environment,
    )


def test_size_of_the_first_frame() -> None:
    """With what follows an SSH handshake it fits in the first window of TCP: ten segments."""
    assert len(bundle().first) <= 10.25 * 1024


def test_the_bundle_is_cached() -> None:
    assert bundle() is bundle()
    assert bundle(allow_changes=True) is bundle(allow_changes=True)


def test_modules_that_change_a_host_are_sent_only_when_allowed() -> None:
    """The other frames are the same in both cases: changes delay neither the first counters nor the
    inventory."""
    reading, changing = bundle(), bundle(allow_changes=True)
    sources = [
        {path: text for packed in one.frames for path, text in unpacked(packed).items()}
        for one in (reading, changing)
    ]
    more = {path for path in sources[1] if path not in sources[0]}
    assert more == {path for path in sources[1] if path.startswith("nictop/probe/changes/")}
    assert "nictop/probe/changes/executor.py" in more and not sources[0].keys() - sources[1].keys()
    assert (reading.start, reading.frames[:3]) == (changing.start, changing.frames[:3])
    late = unpacked(reading.frames[3])
    assert late and all(path.startswith("nictop/probe/plan/") for path in late), (
        "unpacked for a plan only"
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("prepare", "only nmcli, ethtool, ip, bridge and writes to some kernel files are allowed"),
        ("apply", None),
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_remote_probe_makes_no_change_unless_allowed(
    allowed: bool, step: str, expected: str | None
) -> None:
    """A probe without the modules for changes reads plans; one without ``--allow-changes`` does not
    look for the modules."""
    packed = bundle(allow_changes=allowed)
    wanted = command(packed, *["--allow-changes"] * allowed)
    fields = {"id": "a", "step": step, "actions": [["reboot"]], "fingerprint": "f"}
    request = json.dumps({"change": fields}).encode() + b"\n"
    process = subprocess.Popen(
        ["/bin/sh", "-c", wanted.line()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        process.stdin.write(packed.first + packed.rest + request)
        process.stdin.flush()
        line = next(line for line in process.stdout if b'"change"' in line)
        process.stdin.close()
        process.stdout.read()
    change = decode(line).change
    assert change is not None and change.kind == "refused"
    if expected is None:
        assert ("changes are disabled" in change.text) == (not allowed)
    elif os.geteuid() == 0 or not allowed:
        assert expected in change.text
    else:
        assert "root" in change.text


def test_the_bundle_has_all_modules_of_the_probe_and_no_others() -> None:
    frames = [unpacked(packed) for packed in bundle(allow_changes=True, allow_workload=True).frames]
    together = [path for sources in frames for path in sources]
    assert len(together) == len(set(together))
    own = {path for path in together if path.startswith("nictop/")}
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "nictop/probe").rglob("*.py")
        if path.parent.name != "reach"  # sent alone: `wire.guests.programs`
    }
    assert own == here - {"nictop/probe/bootstrap.py"} | {"nictop/__init__.py"}
    assert {path.split("/")[0] for path in together} == {"nictop", "jeepney"}
    assert not [
        path for path in together if any(part.startswith("test") for part in path.split("/")[:-1])
    ]


def without_docstrings(tree: ast.AST) -> str:
    """The syntax tree without docstrings, annotations, type aliases, and what is imported for
    them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(value=None)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            base = node.value.value
            node.value = (
                ast.Constant(value=None)
                if isinstance(base, ast.Name) and base.id in GENERICS
                else node.value
            )
        if isinstance(node, ast.ImportFrom) and node.module in ("__future__", "typing"):
            node.names = [alias for alias in node.names if alias.name in ("NamedTuple", "TypeVar")]
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            node.body = [ast.Pass()]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            node.value = ast.Constant(value="")
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [plain_assignment(entry) for entry in value])
    return ast.dump(tree)


def plain_assignment(node: object) -> object:
    if (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Attribute)
        and node.value is not None
    ):
        return ast.Assign(targets=[node.target], value=node.value)
    return ast.Pass() if isinstance(node, ast.ImportFrom) and not node.names else node


@pytest.mark.parametrize(
    "path", sorted((ROOT / "nictop/probe").rglob("*.py")), ids=lambda path: path.name
)
def test_stripping_does_not_change_the_program(path: Path) -> None:
    """For every module, though only some are stripped at present. Line numbers do not change."""
    source = path.read_text()
    cut = stripped_source(source)
    assert cut.count("\n") == source.count("\n")
    trees = ast.parse(cut, feature_version=(3, 7)), ast.parse(source)
    less, all_lines = (
        {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)} for tree in trees
    )
    assert less <= all_lines
    assert without_docstrings(trees[0]) == without_docstrings(trees[1])
    assert not [line for line in cut.splitlines() if line.lstrip().startswith("#")]


NAMES = st.sampled_from(["a", "b2", "_c", "número"])
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)


@given(NAMES, TEXTS, TEXTS, st.booleans())
def test_any_docstrings_and_comments_are_stripped(
    name: str, docstring: str, comment: str, inner: bool
) -> None:
    source = textwrap.dedent(
        f"""\
        {docstring!r}
        # {comment}
        def f({name}: "dict[str, int]" = {{}}, *rest: int, key: str = {docstring!r}) -> tuple[
            int, str
        ]:
            {docstring!r}
            from typing import Literal, NamedTuple
            Alias = dict[str, list[int]]
            {name}: list[int]
            self.{name}: list[int] = [1,
                2]
            wide: dict[
                str, int
            ] = {{}}
            return {name}, {docstring!r}, "->", lambda: 1
        """
    )
    if inner:
        source = "class C:\n" + textwrap.indent(source, "    ")
    assert without_docstrings(ast.parse(stripped_source(source))) == without_docstrings(
        ast.parse(source)
    )
    assert not [
        token
        for token in tokenize.generate_tokens(io.StringIO(stripped_source(source)).readline)
        if token.type == tokenize.COMMENT
    ]


def test_imports_are_followed() -> None:
    sources = {
        "nictop/__init__.py": "",
        "nictop/a/__init__.py": "",
        "nictop/a/one.py": "from nictop.a import two\nimport os\n\ndef f():\n    from "
        "nictop.a.three import x\n",
        "nictop/a/two.py": "import nictop.a.one\nfrom nictop.a.missing import (\n    y,\n)\n",
        "nictop/a/three.py": "raise SystemExit",
    }
    packages = {"nictop/__init__.py", "nictop/a/__init__.py"}
    assert imports_of(sources, ["nictop.a.one"], everywhere=False) == packages | {
        "nictop/a/one.py",
        "nictop/a/two.py",
    }
    assert imports_of(sources, ["nictop.a.one"], everywhere=True) == set(sources)
    assert set(imported_names(sources["nictop/a/one.py"], everywhere=True)) >= {
        "nictop.a.two",
        "nictop.a.three",
    }
    assert unpacked(packed_frame(sources)) == sources


LOADED_MODULES_SCRIPT = """
import atexit, os, sys
def tell():
    os.write(2, repr([sorted(sys.modules), sys.flags.isolated]).encode())
atexit.register(tell)
"""


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_every_python_runs_the_bundle_from_memory(python: str, tmp_path: Path) -> None:
    """Hello, counters and a complete inventory; no file is written."""
    packed = bundle()
    (tmp_path / "python3").symlink_to(python)
    home = tmp_path / "home"
    home.mkdir()
    wanted = command(packed, "--once")
    rest = packed.rest_for(version_and_magic(python)[0], "")
    done = run(
        wanted.line(),
        packed.first + rest,
        PATH=f"{tmp_path}:/usr/bin:/bin",
        HOME=str(home),
        TMPDIR=str(home),
    )
    answer = wanted.parse_answer(done.stdout)
    assert answer is not None and answer[0].startswith("3."), done
    lines = [decode(line) for line in answer[2].splitlines()]
    assert lines[0].hello is not None and lines[0].hello.python == answer[0]
    assert lines[1].counters is not None and lines[1].counters.links and lines[1].counters.cpus
    assert [line.inventory for line in lines if line.inventory], (lines, done.stderr)
    assert lines[-1].counters is not None and lines[-1].counters.time > lines[1].counters.time
    assert not [line.trouble for line in lines if line.trouble]
    assert done.returncode == 0 and not done.stderr
    assert not list(home.iterdir())


def test_same_python_compiles_only_the_first_frame() -> None:
    """The program is the same; the modules that are compiled are listed on stderr."""
    packed = bundle()
    look = "def run_probe(frames, arguments, mark):\n import builtins, sys\n made = compile\n"
    look += " def tell(source, path, *rest, **more):\n"
    look += "  sys.stderr.write(path + chr(10))\n  return made(source, path, *rest, **more)\n"
    look += " builtins.compile = tell\n return travel(frames, arguments, mark)\n"
    text = (
        zlib.decompress(packed.start).decode().replace("def run_probe(", "def travel(")
        + "\n"
        + look
    )
    start = zlib.compress(text.encode())
    wanted = RemoteCommand(["--interval", "0.1", "--once"], len(start), len(packed.frames))
    own = os.path.dirname(sys.executable)
    sources = FIRST_LINE + start + packed.frames[0] + packed.compiled
    done = run(wanted.line(), sources, PATH=f"{own}:/bin")
    answer = wanted.parse_answer(done.stdout)
    assert answer is not None and answer[1] == BYTECODE_MAGIC
    lines = [decode(line) for line in answer[2].splitlines()]
    inventory = next(line.inventory for line in lines if line.inventory is not None)
    assert inventory.links and not inventory.unreadable
    said = done.stderr.decode().splitlines()
    compiled = {line for line in said if " received " not in line}
    assert compiled and {path for path in compiled if path.startswith("nictop")} <= set(
        packed.parts[0]
    )


def test_byte_code_is_not_sent_to_another_python() -> None:
    packed = bundle()
    assert packed.rest_for("3.9.1", "") == packed.rest_for("3.99.0", "00000000") == packed.rest
    assert packed.rest_for("3.8.10", "00000001") == packed.stripped.rest != packed.rest
    version = ".".join(map(str, sys.version_info[:3]))
    assert packed.rest_for(version, "00000000") == packed.rest, (
        "a Python of that name, but not of that byte code"
    )
    assert packed.rest_for(version, BYTECODE_MAGIC) == packed.compiled != packed.rest


def test_a_host_that_names_ever_other_pythons_fills_no_memory() -> None:
    """What is sent to Pythons without byte code is one object, and the kinds that are stored are
    limited."""
    packed = Bundle(bundle().start, bundle().parts, bundle().always_run)
    known = packed.rest_for("3.11.2", BYTECODE_MAGIC)
    rests = [packed.rest_for("3.99.0", f"{number:08x}") for number in range(10 * MAX_SENT_RESTS)]
    rests += [packed.rest_for("3.7.0", f"{number:08x}") for number in range(10 * MAX_SENT_RESTS)]
    assert len({id(rest) for rest in rests}) == 2
    assert len(packed._sent_rests) <= MAX_SENT_RESTS
    assert packed.rest_for("3.11.2", BYTECODE_MAGIC) == known


def test_a_host_that_names_ever_other_byte_code_starts_no_program_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python3.11"
    program.write_text(f"#!/bin/sh\necho >> {tmp_path / 'starts'}\necho 01020304\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    packed = Bundle(bundle().start, bundle().parts, bundle().always_run)
    for number in range(20):
        assert packed.rest_for("3.11.2", f"{number:08x}") == packed.rest
    assert (tmp_path / "starts").read_text() == "\n"


def test_a_bundle_is_there_while_that_of_another_host_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop asks for it."""
    packed = Bundle(bundle().start, bundle().parts, bundle().always_run)
    begun, may_end = threading.Event(), threading.Event()

    def build(*_: object) -> bytes:
        begun.set()
        assert may_end.wait(60)
        return b""

    monkeypatch.setattr(Bundle, "_build_rest", build)
    with ThreadPoolExecutor(2) as threads:
        made = threads.submit(packed.rest_for, "3.99.0", "")
        assert begun.wait(60)
        other = threads.submit(bundle)
        try:
            assert other.result(10) is bundle()
        finally:
            may_end.set()
        assert made.result(60) == b""


@pytest.mark.parametrize("python", python_parameters(PYTHONS))
def test_byte_code_made_by_another_local_python(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is the same there: hello, counters and an inventory."""
    version, magic = version_and_magic(python)
    for name in ("python3", f"python3.{version.split('.')[1]}"):
        (tmp_path / name).symlink_to(python)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    packed = Bundle(bundle().start, bundle().parts, bundle().always_run)
    rest = packed.rest_for(version, magic)
    assert rest != packed.rest
    wanted = command(packed, "--once")
    done = run(wanted.line(), packed.first + rest, PATH=f"{tmp_path}:/usr/bin:/bin")
    answer = wanted.parse_answer(done.stdout)
    assert answer is not None and answer[:2] == (version, magic)
    lines = [decode(line) for line in answer[2].splitlines()]
    assert [line.inventory.links for line in lines if line.inventory] and not done.stderr


def test_code_compiled_by_a_child_is_reused_by_later_ones(tmp_path: Path) -> None:
    made: list[str] = []

    def compile_source(path: str, source: str) -> CodeType:
        made.append(path)
        return compile(source, path, "exec")

    shared = ByteCode(compile_source)
    shared.code("parent.py", "a = 1")
    for child in ("first", "second"):
        pid = os.fork()
        if not pid:
            made.clear()
            os.closerange(0, 256)  # like a child that must close all files of its parent
            found: dict[str, int] = {}
            exec(shared.code("child.py", "b = 2"), found)
            exec(shared.code("parent.py", "a = 1"), found)
            store_byte_code()
            (tmp_path / child).write_text(f"{found['a'] + found['b']} {' '.join(made)}")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "first").read_text() == "3 child.py parent.py"
    assert (tmp_path / "second").read_text() == "3 "


def test_the_running_probe_decompresses_only_what_it_needs() -> None:
    """The records, the inventory and its libraries stay compressed in the long-running process."""
    packed = bundle()
    wanted = command(packed, "--once")
    start = zlib.compress(LOADED_MODULES_SCRIPT.encode() + zlib.decompress(packed.start))
    changed = RemoteCommand(wanted.arguments, len(start), len(packed.frames))
    done = run(
        changed.line(), FIRST_LINE + start + b"".join(packed.frames), PATH=os.environ["PATH"]
    )
    modules, isolated = ast.literal_eval(done.stderr.decode())
    frames = [set(unpacked(one)) for one in packed.frames]
    loaded = {
        path
        for name in modules
        for path in (name.replace(".", "/") + ".py", name.replace(".", "/") + "/__init__.py")
    }
    assert isolated == 1
    assert "nictop.probe.__main__" in modules and "nictop.probe.events.kernel" in modules
    assert not loaded & frames[2]
    # without the modules that the standard dataclasses import
    assert not {"typing", "inspect", "subprocess", "asyncio", "site"} & set(modules)
    assert ("ctypes" in modules) == (os.geteuid() == 0), "root gives up its rights by it"


@pytest.mark.parametrize("length", [0, 100, 1_200, 9_000, 9_900, 30_000])
def test_incomplete_sources_end_the_remote_python(length: int) -> None:
    packed = bundle()
    done = run(
        command(packed).line(), (packed.first + packed.rest)[:length], PATH=os.environ["PATH"]
    )
    assert done.returncode in (0, INPUT_LOST_STATUS)  # the latter when not even the start is whole


def fake_python2(folder: Path, name: str) -> None:
    """It knows no -I, and writes its version to stderr."""
    install(folder, name, 'test "$*" = -V || exit 2; echo "Python 2.7.5" >&2')


def fake_python35(folder: Path, name: str) -> None:
    """What Python 3.5 does with the code of the command line."""
    install(folder, name, 'shift 4; export NICTOP_FOUND=3.5.3; exec sh -c "$1" sh "$@"')


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A directory for PATH in which there is no Python."""
    for tool in ("sh", "env"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    return tmp_path


def refusal(path: Path) -> PermanentError:
    wanted = command(bundle())
    done = run(wanted.line(), bundle().first, PATH=str(path))
    with pytest.raises(PermanentError) as caught:
        wanted.parse_answer(done.stdout)
    return caught.value


def answer(path: Path) -> tuple[str, str, bytes] | None:
    wanted = command(bundle())
    return wanted.parse_answer(run(wanted.line(), b"", PATH=str(path)).stdout)


OWN_VERSION = "{}.{}.{}".format(*sys.version_info[:3])


@pytest.mark.skipif(
    os.path.exists("/usr/libexec/platform-python"), reason="platform-python is found"
)
@pytest.mark.parametrize(
    ("make", "name", "version"),
    [
        (fake_python2, "python", "2.7.5"),
        (fake_python2, "python2", "2.7.5"),
        (fake_python35, "python3", "3.5.3"),
    ],
)
def test_python_too_old(
    make: Callable[[Path, str], None], name: str, version: str, bare_path: Path
) -> None:
    make(bare_path, name)
    error = refusal(bare_path)
    assert (
        error.message
        == f"Python {version} on the host is too old: nictop needs Python 3.6 or newer there"
    )
    (bare_path / "python3.13").symlink_to(
        sys.executable
    )  # a newer one that is also installed is used
    found = answer(bare_path)
    assert found is not None and found[0] == OWN_VERSION


@pytest.mark.skipif(
    os.path.exists("/usr/libexec/platform-python"), reason="platform-python is found"
)
@pytest.mark.parametrize(
    ("tool", "commands"),
    [
        ("dnf", "`dnf install python3`"),
        ("yum", "`yum install python3`"),
        ("apt", "`apt install python3`"),
        ("zypper", "`zypper install python3`"),
        ("apk", "`apk add python3`"),
        (
            "",
            "`dnf install python3`, `yum install python3`, `apt install python3`, `zypper install "
            "python3`, "
            "`apk add python3`",
        ),
    ],
)
def test_no_python(tool: str, commands: str, bare_path: Path) -> None:
    """The hint is the command of the package manager of the host."""
    if tool:
        install(bare_path, tool, "exit 1")
    error = refusal(bare_path)
    assert error.message == "python3 not found on the host: nictop needs Python 3.6 or newer there"
    assert error.hint == f"install it there: {commands}"


@pytest.mark.parametrize("name", ["python3", "python3.6", "python3.20", "python"])
def test_python_is_found_under_every_name(name: str, bare_path: Path) -> None:
    (bare_path / name).symlink_to(sys.executable)
    found = answer(bare_path)
    assert found is not None and found[0] == OWN_VERSION


@pytest.mark.skipif(
    os.path.exists("/usr/libexec/platform-python"), reason="platform-python is found"
)
def test_the_newest_python_is_used_when_python3_is_too_old(bare_path: Path) -> None:
    fake_python35(bare_path, "python3")
    for name, result in (("python3.6", "old"), ("python3.12", "new"), ("python", "other")):
        install(bare_path, name, f'test "$5" || exit 0; echo "$8-$7 ready {result}"')
    wanted = command(bundle())
    done = run(wanted.line(), b"", PATH=str(bare_path))
    assert wanted.parse_answer(done.stdout) == ("new", "", b"")


def test_an_echo_of_the_command_is_not_an_answer() -> None:
    wanted = command(bundle())
    assert wanted.parse_answer(wanted.line().encode() + b"\n") is None
    assert wanted.parse_answer(f"{wanted.second}-{wanted.first}".encode()) is None
    noise = f"motd {wanted.second}-{wanted.first} ready 3.9.1 \n\n".encode()
    assert wanted.parse_answer(noise) is None
    assert wanted.parse_answer(
        noise + f"{wanted.second}-{wanted.first} ready 3.9.1\nrest".encode()
    ) == (
        "3.9.1",
        "",
        b"rest",
    )
    noise = f"{wanted.second}-{wanted.first} ready 3.11.2 a70d0d0a\nrest".encode()
    assert wanted.parse_answer(noise) == ("3.11.2", "a70d0d0a", b"rest")


@given(st.binary(max_size=400))
def test_any_noise_is_accepted(noise: bytes) -> None:
    assert RemoteCommand(["--interval", "1"], 1, 1).parse_answer(noise) is None


@pytest.mark.parametrize("sudo", ["", "quiet", "password"])
def test_the_command_line_works_in_every_login_shell(sudo: str) -> None:
    line = command(bundle()).line(sudo)  # type: ignore[arg-type]
    assert line.startswith("exec ") and not set(line) & set("\n\\!\t") and line.isascii()
    assert len(line) < 8192
