"""Every example of the README and of docs/ runs, word for word."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiermem.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Languages of blocks that are shown and not run.
SHOWN = {"text", "toml", "json"}
# What the capital letters of a command stand for.
STANDS_FOR = {"TRACE": "small.jsonl", "S": "laptop-nvme", "L": "qwen3-4b"}
SMALL = "trace synth --kind chat --requests 40 --seed 2 --out small.jsonl"


@dataclass(frozen=True)
class Block:
    """One fenced block: where its text begins, and the file that the page says to save it as."""

    page: Path
    language: str
    text: str
    line: int
    file: str | None


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    language, start, prose = "", 0, ""
    for number, line in enumerate(lines, start=1):
        if not line.startswith("```"):
            prose = prose + line if not start else prose
        elif not start:
            language, start = line.strip("`\n"), number + 1
        else:
            near = prose.strip().rpartition("\n\n")[2]  # the paragraph before the block
            saved = re.findall(r"save\s+(?:it|this)\s+as\s+`([^`]+)`", near, re.IGNORECASE)
            text = "".join(lines[start - 1 : number - 1])
            found.append(Block(page, language, text, start, saved[-1] if saved else None))
            start, prose = 0, ""
    assert not start, f"{page}: a block is not closed"
    return found


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_block_says_what_it_is(page: Path) -> None:
    """A fenced block names its language; only those that are shown are not run."""
    assert {block.language for block in blocks(page)} <= SHOWN | {"sh", "python"}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, where modules can be imported as in a session of Python."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - before:
        file = getattr(sys.modules[module], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[module]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_does_what_it_says(
    page: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page is worked through from top to bottom in an empty folder.

    Python is saved where the page says so, and run otherwise; saved tests are given to pytest;
    commands must end with status 0. The two that make an environment first are run by `.ci/run`.
    """
    assert main(SMALL.split()) == 0
    session: dict[str, object] = {"__name__": "example"}
    for block in blocks(page):
        place = f"{name(page)}:{block.line}"
        if block.file is not None:
            (desk / block.file).write_text(block.text, encoding="utf-8")
            if block.file.startswith("test_"):
                words = [sys.executable, "-m", "pytest", "-q", block.file]
                ended = subprocess.run(words, cwd=desk, capture_output=True, text=True)
                assert ended.returncode == 0, f"{place}: {ended.stdout}"
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, place, "exec")
            exec(code, session)
        elif block.language == "sh":
            for number, words in enumerate(commands(block)):
                given = [STANDS_FOR.get(word, word) for word in words]
                given = [f"DIR{number}" if word == "DIR" else word for word in given]
                assert main(given) == 0, f"{place}: {words}: {capsys.readouterr().err}"


def commands(block: Block) -> list[list[str]]:
    """The words of each tiermem command of a block."""
    lines = block.text.replace("\\\n", " ").splitlines()
    found = [shlex.split(line) for line in lines if line.strip() and "-m venv" not in line]
    assert all(words[0] == "tiermem" for words in found), f"{block.page}: only tiermem runs here"
    return [words[1:] for words in found]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link of a page names a file that is there."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []
