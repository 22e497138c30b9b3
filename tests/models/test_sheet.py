"""Checked TOML files: every complaint names the file, the line and the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from tiermem.errors import InputError, UnknownName
from tiermem.models.sheet import Document, line_of, read


class Leaf(Document):
    """A table inside a table."""

    share: float = Field(default=0.5, gt=0, le=1)
    count: int = 1


class Part(Document):
    """A table of an array."""

    name: str
    leaf: Leaf | None = None


class Whole(Document):
    """A file."""

    title: str
    part: list[Part] = Field(default_factory=list)
    leaves: dict[str, Leaf] = Field(default_factory=dict)


TEXT = """\
title = "t"  # a comment

[[part]]
name = "one"

[[part]]
name = "two"
leaf.count = 2

[part.leaf]
share = 0.25

[leaves.a]
count = 1
[leaves]
"b c" = { count = 3,
          share = 1.0 }
"""


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("title",), 1),
        (("part", 0), 3),
        (("part", 0, "name"), 4),
        (("part", 1, "name"), 7),
        (("part", 1, "leaf", "count"), 8),
        (("part", 1, "leaf", "share"), 11),
        (("leaves", "a", "count"), 14),
        (("leaves", "b c", "share"), 16),
        (("part", 1, "absent"), 6),
        (("part", 1, "leaf"), 8),
        (("leaves",), 13),
        (("part", 2), None),
        (("absent",), None),
        ((), None),
    ],
)
def test_the_line_of_a_place(place: tuple[str | int, ...], line: int | None) -> None:
    """The line that writes a key; failing that the nearest table around it; else none."""
    assert line_of(TEXT, place) == line


def written(folder: Path, text: str) -> Path:
    path = folder / "file.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_is_read(tmp_path: Path) -> None:
    """Content arrives as the model says, defaults included."""
    text = TEXT.replace("leaf.count = 2\n", "").replace(
        "{ count = 3,\n          share = 1.0 }", "{ count = 3 }"
    )
    sheet = read(written(tmp_path, text), Whole)
    assert [part.name for part in sheet.content.part] == ["one", "two"]
    assert sheet.content.part[1].leaf == Leaf(share=0.25)
    assert sheet.content.leaves["b c"] == Leaf(count=3)


@pytest.mark.parametrize(
    ("text", "line", "nearest"),
    [
        ('titel = "t"\n', 1, "title"),
        ('title = "t"\n[[part]]\nname = "a"\n[[part]]\nnmae = "b"\n', 5, "name"),
        ('title = "t"\n[[part]]\nname = "a"\n[part.leaf]\ncuont = 1\n', 5, "count"),
        ('title = "t"\n[leaves.x]\nshar = 1.0\n', 3, "share"),
        ('title = "t"\n[leaves]\nx = { shar = 1.0 }\n', 3, "share"),
        ('title = "t"\n[prat]\n', 2, "part"),
    ],
)
def test_unknown_keys_are_refused_at_every_level(
    tmp_path: Path, text: str, line: int, nearest: str
) -> None:
    """A typo never runs the default (known fault 135): file, line and the nearest key."""
    path = written(tmp_path, text)
    with pytest.raises(UnknownName) as caught:
        read(path, Whole)
    assert (caught.value.line, caught.value.nearest) == (line, nearest)
    assert str(caught.value).startswith(f"{path}:{line}: unknown key")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("-0.5", "greater than 0, not -0.5"),
        ("0", "greater than 0, not 0"),
        ("1.5", "less than or equal to 1, not 1.5"),
        ("nan", "finite number, not nan"),
        ("inf", "finite number, not inf"),
        ('"0.5"', "valid number, not '0.5'"),
        ("true", "valid number, not True"),
        ("[0.5]", "valid number"),
    ],
)
def test_bad_values_are_refused(tmp_path: Path, value: str, complaint: str) -> None:
    """Negative, zero, NaN, infinity, text, a list: the line, the whole key and the value."""
    path = written(tmp_path, f'title = "t"\n\n[leaves.x]\nshare = {value}\n')
    with pytest.raises(InputError) as caught:
        read(path, Whole)
    assert str(caught.value).startswith(f"{path}:4: leaves.x.share: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named_at_its_table(tmp_path: Path) -> None:
    """The table that lacks the key is the line to go to."""
    with pytest.raises(InputError, match=r"file\.toml:3: part\[0\]\.name: is missing"):
        read(written(tmp_path, 'title = "t"\n\n[[part]]\nleaf = {}\n'), Whole)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('title = "t"\ncount = = 3\n', 2),
        ('title = "t"\n[part\n', 2),
        ('title = "t', 1),
        ("a = 1\na = 2", 2),
    ],
)
def test_invalid_toml_is_one_line(tmp_path: Path, text: str, line: int) -> None:
    """A syntax error names the line once and shows no traceback."""
    with pytest.raises(InputError, match=rf"file\.toml:{line}: not valid TOML: ") as caught:
        read(written(tmp_path, text), Whole)
    assert "(at " not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are told apart."""
    with pytest.raises(InputError, match=r"none\.toml: no such file"):
        read(tmp_path / "none.toml", Whole)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path, Whole)
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"title = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml: not UTF-8"):
        read(path, Whole)
