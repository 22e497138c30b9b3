"""The house rules that a program can check: floors, bans, sizes, words.

Reads the source tree with `ast`; nothing of tiermem is imported. The rules are explained in
`docs/architecture.md` and `docs/decisions/`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tiermem"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "data" not in path.parts)
SCRIPTS = sorted(
    path for name in ("experiments", "benchmarks") for path in (ROOT / name).rglob("*.py")
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# Top to bottom. Rooms on one line are siblings and must not import each other.
FLOORS = (
    ("__main__",),
    ("cli",),
    ("experiment",),
    ("offload", "testing", "scenario", "report", "hits"),
    ("runtime", "serving", "sim", "policies", "traces", "curves"),
    ("core",),
    ("models", "registry"),
    ("units", "seeds", "shipped"),
    ("errors",),
)
# Third-party modules that live in one place, and where.
HOMES = {
    "simpy": ("tiermem/sim/",),
    "matplotlib": ("tiermem/report/plots",),
    "torch": ("tiermem/runtime/", "tiermem/offload/"),
    "kvikio": ("tiermem/runtime/", "tiermem/offload/"),
    "nixl_cu12": ("tiermem/runtime/io/",),
    "typer": ("tiermem/cli",),
    "pydantic": ("tiermem/models/", "tiermem/traces/", "tiermem/scenario", "tiermem/experiment"),
}
NO_CLOCK = {"time", "random", "threading", "asyncio", "logging", "datetime", "secrets"}

LINES_AT_MOST, LINES_WANTED = 500, 300
FUNCTION_LINES_AT_MOST, PARAMETERS_AT_MOST = 70, 7
# Files allowed past LINES_WANTED (never past LINES_AT_MOST), each with its reason.
LONG_FILES = {"tests/test_tidy.py": "one rule a function, all rules in one place"}

# Imports inside functions: only modules that are optional or slow to load.
SLOW = {
    "tiermem/cli": {"tiermem", "pandas", "rich"},
    "tiermem/__init__": {"importlib"},
}
SLOW_ANYWHERE = {
    *("matplotlib", "torch", "kvikio", "nixl_cu12"),
    *("joblib", "pyarrow", "tiermem.report.plots"),
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in SOURCES}


def imported(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    """Each import statement under `tree` with the module it loads, as fully named as possible."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the whole name"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node, full if full in MODULES else str(node.module)


def room(name: str) -> str:
    """`tiermem.sim.flows` lives in the room `sim`; `tiermem.units` is its own room."""
    return name.split(".")[1] if "." in name else ""


def floor(name: str) -> int:
    for level, rooms in enumerate(FLOORS):
        if room(name) in rooms:
            return level
    raise AssertionError(f"{name} stands on no floor; add its room to FLOORS and to the docs")


def arrows() -> Iterator[tuple[str, str]]:
    """(importer, imported) for modules of tiermem, its front door `tiermem/__init__` aside."""
    for path in SOURCES:
        if path != PACKAGE / "__init__.py":
            for _, target in imported(parse(path)):
                if target.split(".")[0] == "tiermem":
                    yield module_name(path), target


def test_imports_only_go_down() -> None:
    """Design section 2: a module imports from its own room or from a lower floor."""
    wrong = []
    for source, target in arrows():
        same = room(source) == room(target)
        if target == "tiermem":
            if room(source) not in ("cli", "__main__"):
                wrong.append(f"{source} imports the front door")
        elif not same and floor(source) > floor(target):
            wrong.append(f"{source} imports {target}, which is above it")
    assert not wrong, "\n".join(wrong)


def test_siblings_do_not_know_each_other() -> None:
    """Rooms of one floor are separate: `sim` imports no `policies`, `hits` no `report`."""
    wrong = [
        f"{source} imports its sibling {target}"
        for source, target in arrows()
        if target != "tiermem" and room(source) != room(target) and floor(source) == floor(target)
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_have_no_circle() -> None:
    """No module reaches itself, also not within one room."""
    graph: dict[str, set[str]] = {}
    for source, target in arrows():
        graph.setdefault(source, set()).add(target)
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"circle: {' -> '.join((*trail, name))}"
        if name not in done:
            for target in sorted(graph.get(name, ())):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_third_party_modules_stay_in_their_rooms() -> None:
    """SimPy in sim/, matplotlib in report/plots, torch in runtime/."""
    wrong = [
        f"{relative(path)}:{node.lineno}: {name}"
        for path in SOURCES
        for node, name in imported(parse(path))
        for top in [name.split(".")[0]]
        if top in HOMES and not relative(path).startswith(HOMES[top])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["core", "policies"])
def test_the_mind_has_no_clock_and_no_third_party(name: str) -> None:
    """core/ and policies/ use the standard library and lower floors, and no clock or dice."""
    wrong = []
    for path in sorted((PACKAGE / name).rglob("*.py")):
        for node, target in imported(parse(path)):
            top = target.split(".")[0]
            if top != "tiermem" and (top not in sys.stdlib_module_names or top in NO_CLOCK):
                wrong.append(f"{relative(path)}:{node.lineno}: {target}")
    assert not wrong, "\n".join(wrong)


def test_files_are_short() -> None:
    """At most 500 lines a file; past 300 only with a reason written in LONG_FILES."""
    lengths = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in [*SOURCES, *SCRIPTS, *TESTS]
    }
    assert {name: n for name, n in lengths.items() if n > LINES_AT_MOST} == {}
    long = {name: n for name, n in lengths.items() if n > LINES_WANTED and name not in LONG_FILES}
    assert long == {}
    assert [name for name in LONG_FILES if lengths.get(name, 0) <= LINES_WANTED] == []


def test_experiments_are_short() -> None:
    """An experiment is a script of under 100 lines on the Python API."""
    scripts = sorted((ROOT / "experiments").glob("*.py"))
    assert len(scripts) >= 2
    lengths = {
        relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in scripts
    }
    assert {name: n for name, n in lengths.items() if n >= 100} == {}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(parse(path)):
        if isinstance(node, Function):
            yield node


def is_command(node: Function) -> bool:
    """A command line's function: its parameters are the options, however many there are."""
    return any(
        ast.unparse(decorator).split("(")[0].endswith(".command")
        for decorator in node.decorator_list
    )


def test_functions_are_short_and_take_few_parameters() -> None:
    """At most 70 lines and 7 parameters; the options of a command do not count as parameters."""
    wrong = []
    for path in [*SOURCES, *SCRIPTS, *TESTS]:
        for node in functions(path):
            where = f"{relative(path)}:{node.lineno}: {node.name}"
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = len([a for a in arguments if a.arg not in ("self", "cls")])
            if lines > FUNCTION_LINES_AT_MOST:
                wrong.append(f"{where}: {lines} lines")
            if count > PARAMETERS_AT_MOST and not is_command(node):
                wrong.append(f"{where}: {count} parameters")
    assert not wrong, "\n".join(wrong)


def test_imports_stand_at_the_top() -> None:
    """An import inside a function is only for what is optional or slow to load."""
    wrong = []
    for path in SOURCES:
        name = relative(path).removesuffix(".py")
        allowed = SLOW_ANYWHERE | next((v for k, v in SLOW.items() if name.startswith(k)), set())
        for node in functions(path):
            for statement, target in imported(node):
                parts = target.split(".")
                prefixes = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
                if not prefixes & allowed:
                    wrong.append(f"{relative(path)}:{statement.lineno}: {target}")
    assert not wrong, "\n".join(wrong)


def test_package_fronts_define_nothing() -> None:
    """An `__init__.py` re-exports; only `tiermem/__init__.py` lists and looks up names."""
    for path in PACKAGE.rglob("__init__.py"):
        for node in parse(path).body:
            front = path == PACKAGE / "__init__.py"
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            lazy = front and isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
            table = front and isinstance(node, ast.Assign | ast.AnnAssign | ast.If)
            kind = isinstance(node, ast.Import | ast.ImportFrom)
            assert docstring or kind or lazy or table, f"{relative(path)}:{node.lineno}"


def public_without_docstring(path: Path) -> Iterator[str]:
    tree = parse(path)
    if ast.get_docstring(tree) is None:
        yield f"{relative(path)}: the module"
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None:
            yield f"{relative(path)}:{node.lineno}: {node.name}"


def test_everything_public_is_documented() -> None:
    """Each module, public class and public function says what it is for."""
    wrong = [line for path in [*SOURCES, *SCRIPTS] for line in public_without_docstring(path)]
    assert not wrong, "\n".join(wrong)


def test_each_test_says_its_rule() -> None:
    """A test's first line names the rule it guards, and a test asserts something."""
    wrong = []
    for path in TESTS:
        if ast.get_docstring(parse(path)) is None:
            wrong.append(f"{relative(path)}: no docstring")
        for node in functions(path):
            if node.name.startswith("test_") and ast.get_docstring(node) is None:
                wrong.append(f"{relative(path)}:{node.lineno}: {node.name} names no rule")
    assert not wrong, "\n".join(wrong)


def test_each_module_has_its_tests() -> None:
    """tests/ mirrors tiermem/: `tiermem/a/b.py` has `tests/a/test_b.py` (or test_b_*.py)."""
    tests = {path.relative_to(ROOT / "tests").as_posix() for path in TESTS}
    missing = []
    for path in SOURCES:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        inner = path.relative_to(PACKAGE)
        wanted = (inner.parent / f"test_{inner.stem}").as_posix()
        if not any(test == f"{wanted}.py" or test.startswith(f"{wanted}_") for test in tests):
            missing.append(f"{relative(path)} has no tests/{wanted}.py")
    assert not missing, "\n".join(missing)


def tracked() -> list[Path]:
    """Files that are, or would be, committed; empty where this is no git checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


TEXT = {".py", ".md", ".toml", ".txt", ".jsonl", ".json", ".cfg", ".yml", ""}


def test_no_file_knows_a_machine_or_leaves_a_note() -> None:
    """No path of somebody's machine, no promise to finish later, no conflict marker."""
    places = "|".join(["/" + "work/", "/" + "root/", "/" + "home/", "/" + "Users/"])
    notes = r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b|^<{7} |^>{7} "
    pattern = re.compile(f"{places}|{notes}", re.MULTILINE)
    files = [path for path in tracked() if path.suffix in TEXT]
    found = [
        f"{relative(path)}: {match.group().strip()}"
        for path in files
        for match in [pattern.search(path.read_text(encoding="utf-8"))]
        if match
    ]
    assert not found, "\n".join(found)


def test_committed_files_are_small() -> None:
    """The repository holds code and small data: nothing above 512 KiB."""
    assert [relative(path) for path in tracked() if path.stat().st_size > 512 * 1024] == []


def test_names_say_what_a_thing_is() -> None:
    """No drawer for leftovers, and one word for one meaning (docs/glossary.md)."""
    drawers = re.compile(r"^(utils?|helpers?|common|misc|managers?|base)\.py$")
    assert [
        relative(path) for path in [*SOURCES, *SCRIPTS, *TESTS] if drawers.match(path.name)
    ] == []
    types = re.compile(r"^Base[A-Z]|(Impl|Manager|Helper|Util)s?$")
    words = re.compile(r"(^|_)(src|dst|spill|preload|backend|millis|secs?|usec|gb|mb|kb)(_|$)")
    wrong = []
    for path in SOURCES:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef) and types.search(node.name):
                wrong.append(f"{relative(path)}:{node.lineno}: class {node.name}")
            name = node.arg if isinstance(node, ast.arg) else getattr(node, "name", None)
            if isinstance(name, str) and not isinstance(node, ast.alias) and words.search(name):
                wrong.append(f"{relative(path)}:{node.lineno}: {name}")
    assert not wrong, "\n".join(wrong)


def project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def dependencies() -> list[str]:
    """Names of every requirement, extras included."""
    table = project()
    extras = table["optional-dependencies"]
    core = table["dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(core, list)
    lines = [*core, *(line for group in extras.values() for line in group)]
    return sorted({re.split(r"[<>=~!\[; ]", line)[0] for line in lines})


def test_each_dependency_has_a_reason() -> None:
    """docs/decisions names every dependency, extras included, and why it is here."""
    notes = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    text = "\n".join(note.read_text(encoding="utf-8") for note in notes)
    assert [name for name in dependencies() if f"`{name}`" not in text] == []


def test_imports_are_declared() -> None:
    """Whatever the package imports is in the standard library or a declared dependency."""
    known = {name.replace("-", "_") for name in dependencies()} | {"kvikio"}
    missing = {
        top
        for path in SOURCES
        for _, name in imported(parse(path))
        for top in [name.split(".")[0]]
        if top not in known and top != "tiermem" and top not in sys.stdlib_module_names
    }
    assert missing == set()


@pytest.mark.parametrize("module", ["tiermem", "tiermem.cli"])
def test_importing_is_light(module: str) -> None:
    """`import tiermem` and the command line load no torch, simpy, pandas or matplotlib."""
    heavy = {"torch", "kvikio", "simpy", "pandas", "pyarrow", "matplotlib"}
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


def shell_lines(path: Path) -> list[str]:
    """The one-line commands of the fenced `sh` blocks of a page."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_ci_runs_the_second_command_of_the_readme() -> None:
    """`.ci/run` is the README's test command, word for word, and can be executed."""
    script = ROOT / ".ci" / "run"
    commands = [line for line in shell_lines(ROOT / "README.md") if "-m venv" in line]
    assert len(commands) == 2
    assert "tiermem compare --out" in commands[0]
    assert commands[1].endswith("-m pytest")
    assert commands[1] in script.read_text(encoding="utf-8").splitlines()
    assert script.stat().st_mode & 0o111
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
