"""Every example of the README and of docs/ runs, or says why it cannot."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tiermem.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>.+) -->\n)?```(?P<language>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# Languages of blocks that are shown and not run.
SHOWN = {"text", "toml", "json"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    language: str
    text: str
    reason: str | None

    @property
    def line(self) -> int:
        return self.page.read_text(encoding="utf-8").split(self.text)[0].count("\n") + 1


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, found["language"], found["text"], found["reason"])
        for found in FENCE.finditer(text)
    ]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_block_says_what_it_is(page: Path) -> None:
    """A fenced block names its language; only those that are shown are not run."""
    text = page.read_text(encoding="utf-8")
    assert len(blocks(page)) * 2 == len(re.findall(r"^```", text, re.MULTILINE))
    assert {block.language for block in blocks(page)} <= SHOWN | {"sh", "python"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python of a page runs from top to bottom, as one session in an empty folder."""
    monkeypatch.chdir(tmp_path)
    session = {"__name__": f"example_{page.stem.lower()}"}
    ran = 0
    for block in blocks(page):
        if block.language == "python" and block.reason is None:
            place = f"{name(page)}:{block.line}"
            exec(compile("\n" * (block.line - 1) + block.text, place, "exec"), session)
            ran += 1
    wanted = [block for block in blocks(page) if block.language == "python" and not block.reason]
    assert ran == len(wanted)


def commands(page: Path) -> list[str]:
    """Shell lines of a page that call tiermem."""
    lines = [
        line
        for block in blocks(page)
        if block.language == "sh" and block.reason is None
        for line in block.text.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [line for line in lines if "-m venv" not in line]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of a page run one after another in an empty folder.

    The two that make an environment first are run by `.ci/run` and by tests/acceptance.
    """
    monkeypatch.chdir(tmp_path)
    for line in commands(page):
        words = shlex.split(line)
        assert words[0] == "tiermem", f"{name(page)}: only tiermem is run here: {line}"
        status = main(words[1:])
        assert status == 0, f"{name(page)}: {line}: {capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link of a page names a file that is there."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []
