"""What is printed: strict JSON for programs, tables for people."""

from __future__ import annotations

import json

import pytest

from tiermem.cli import show


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and infinity are not JSON: better no output than a document nobody can read."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        show.json_document({"x": float("nan")})
    capsys.readouterr()
    show.json_document({"x": None, "name": "é"})
    assert json.loads(capsys.readouterr().out) == {"x": None, "name": "é"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.12345, "0.1235"),
        (123456.7, "123,457"),
        (["a", 1000], "a; 1,000"),
        ([], "-"),
        ({"a": 1, "b": None}, "a 1, b -"),
        ("text", "text"),
    ],
)
def test_values_for_people(value: object, text: str) -> None:
    """Undefined is a dash, never a zero; digits are grouped."""
    assert show.text(value) == text


def test_rows_and_pairs_show_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Each name and each value is on the screen; brackets are text, not markup."""
    show.rows([{"name": "[bold]a", "blocks": 5}, {"name": "b", "blocks": None}], "Things")
    table = capsys.readouterr().out
    for text in ("Things", "name", "blocks", "[bold]a", "5", "b", "-"):
        assert text in table
    show.pairs({"reuse": {"hits": 3, "misses": None}, "requests": 7})
    assert capsys.readouterr().out.split() == [
        "reuse.hits",
        "3",
        "reuse.misses",
        "-",
        "requests",
        "7",
    ]
