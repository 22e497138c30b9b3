"""Every wrong line is one InputError that names file, line, key and text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.traces import mooncake
from tiermem.traces.rows import parse

GOOD = '{"timestamp": 1, "input_length": 9, "output_length": 4, "hash_ids": []}'


def cell(key: str, value: str) -> str:
    """A line that is right but for one cell, written as it stands in the file."""
    cells = {"timestamp": "1", "input_length": "9", "output_length": "4", "hash_ids": "[]"}
    return "{" + ", ".join(f'"{k}": {v}' for k, v in {**cells, key: value}.items()) + "}"


@pytest.mark.parametrize(
    ("line", "key", "words"),
    [
        (cell("input_length", '"abc"'), "input_length", "'abc' is not a whole number of tokens"),
        (cell("input_length", '""'), "input_length", "'' is not"),
        (cell("input_length", "null"), "input_length", "None is not"),
        (cell("input_length", "0"), "input_length", "0 is not a whole number of tokens of at"),
        (cell("input_length", "-3"), "input_length", "-3 is not"),
        (cell("input_length", "9.0"), "input_length", "9.0 is not"),
        (cell("input_length", "true"), "input_length", "True is not"),
        (cell("input_length", "1" + "0" * 30), "input_length", "2,147,483,647 at most"),
        (cell("output_length", "2147483648"), "output_length", "2,147,483,647 at most"),
        (cell("hash_ids", "[NaN]"), "hash_ids", "NaN is not a number"),
        (cell("note", "Infinity"), "note", "Infinity is not a number"),
        (cell('timestamp": 1, "timestamp', "2"), "timestamp", "given twice"),
        (cell('timestamp" : 1, "timestamp', "2"), "timestamp", "given twice"),
        (cell("output_length", "-1"), "output_length", "-1 is not"),
        (cell("output_length", "[4]"), "output_length", "[4] is not"),
        (cell("timestamp", "-1"), "timestamp", "-1 is not a time in ms"),
        (cell("timestamp", "false"), "timestamp", "False is not a time"),
        (cell("timestamp", '"5"'), "timestamp", "'5' is not a time"),
        (cell("timestamp", "1e999"), "timestamp", "inf is not a time"),
        (cell("timestamp", "1" + "0" * 400), "timestamp", "is not a time"),
        (cell("timestamp", "NaN"), "timestamp", "NaN is not a number"),
        (cell("output_length", "-Infinity"), "output_length", "-Infinity is not a number"),
        (cell("hash_ids", "null"), "hash_ids", "None is not a list of block ids"),
        (cell("hash_ids", '"abc"'), "hash_ids", "'abc' is not a list"),
        (cell("hash_ids", "[1.5]"), "hash_ids", "1.5 is not a block id"),
        (cell("hash_ids", "[1e20]"), "hash_ids", "1e+20 is not a block id"),
        (cell("hash_ids", "[true]"), "hash_ids", "True is not a block id"),
        (cell("hash_ids", "[[1]]"), "hash_ids", "[1] is not a block id"),
        ("[1, 2]", None, "a JSON list starts here"),
        ("{}", "timestamp", "output_length, hash_ids; found nothing"),
        ("7", None, "7' is not a JSON object"),
        ('{"timestamp": 1', None, "not a JSON object"),
        ("timestamp,input_length", None, "not a JSON object"),
        ("[" * 100_000, None, "a JSON list starts here"),
        ('{"a":' * 100_000, None, "nested too deeply"),
        (cell("timestamp", "1" * 5000), None, "not a JSON object"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(
    jsonl: Callable[..., Path], line: str, key: str | None, words: str
) -> None:
    """File, line number, key and the offending text stand in one line."""
    path = jsonl(f"{GOOD}\n\n{line}\n{GOOD}\n")
    with pytest.raises(InputError) as error:
        mooncake.read(path)
    text = str(error.value)
    assert text.startswith(f"{path}:3: {key}: " if key else f"{path}:3: ")
    assert words in text
    assert "\n" not in text
    assert len(text) < len(str(path)) + 300
    assert text.isascii() or not str(path).isascii()
    assert (error.value.line, error.value.key) == (3, key)


def test_missing_columns_are_listed(jsonl: Callable[..., Path]) -> None:
    """What is missing, what is there, and what it may be called; also in some rows only."""
    renamed = GOOD.replace("hash_ids", "hash_id").replace("input_length", "inputlength")
    with pytest.raises(InputError) as error:
        mooncake.read(jsonl(renamed))
    text = str(error.value)
    assert "missing input_length, hash_ids; found 'timestamp, inputlength," in text
    assert "input_length may be called 'inputlength' here" in text
    assert "hash_ids may be called 'hash_id' here" in text
    later = json.dumps({k: v for k, v in json.loads(GOOD).items() if k != "timestamp"})
    with pytest.raises(InputError, match=r"t\.jsonl:2: timestamp: missing timestamp"):
        mooncake.read(jsonl(f"{GOOD}\n{later}\n"))


def test_a_whole_json_list_is_refused(jsonl: Callable[..., Path]) -> None:
    """A file that is one JSON list, on one line or over many, is told so."""
    for text in (f"[{GOOD}]", f"[\n{GOOD}\n]"):
        with pytest.raises(InputError, match=":1: a JSON list starts here"):
            mooncake.read(jsonl(text))


@pytest.mark.parametrize("content", ["", "\n\r\n  \n", "\ufeff\n"])
def test_no_requests_is_an_error(jsonl: Callable[..., Path], content: str) -> None:
    """An empty trace is an error, never an empty success."""
    with pytest.raises(InputError, match="no requests in this file"):
        mooncake.read(jsonl(content))


def test_ids_that_nothing_explains(jsonl: Callable[..., Path]) -> None:
    """More ids than tokens fit no block size; lines that fit different sizes fit none."""
    with pytest.raises(InputError, match="no block size explains more ids than tokens"):
        mooncake.read(jsonl(cell("hash_ids", str(list(range(10))))))
    lines = [cell("hash_ids", "[1, 2]"), cell("hash_ids", str(list(range(9))))]
    with pytest.raises(InputError, match="2 of 2 lines do not fit, no other block size fits"):
        mooncake.read(jsonl("\n".join(lines)))


def test_mixed_origins_are_refused(jsonl: Callable[..., Path]) -> None:
    """Relative and epoch times in one file are two traces, not one with a 50-year pause."""
    lines = [GOOD, cell("timestamp", "1700000000000"), cell("timestamp", "20")]
    with pytest.raises(InputError, match=r":2: timestamp: 54 years after .* different origins"):
        mooncake.read(jsonl("\n".join(lines)))


def test_a_trace_of_centuries_is_refused(jsonl: Callable[..., Path]) -> None:
    """Times past what ns can count are named by line: a request each 9 years, the 34th too late.

    33 gaps of 9 years are 297 years; 32 are 288, which can be counted.
    """
    lines = [cell("timestamp", str(9 * 365 * 86_400_000 * n)) for n in range(36)]
    with pytest.raises(InputError, match=r":34: timestamp: more than 292 years"):
        mooncake.read(jsonl("\n".join(lines)))
    assert len(mooncake.read(jsonl("\n".join(lines[:33])))) == 33
    with pytest.raises(InputError, match=r":2: timestamp: more than 292 years"):
        mooncake.read(jsonl(f"{GOOD}\n{cell('timestamp', '9' * 30)}"))


def test_colons_in_names_are_no_second_key() -> None:
    """A line with more colons than keys is looked at closely, and read all the same."""
    rows = parse(cell("hash_ids", '["a:b\\":", "c"]').encode(), Path("t"))
    assert rows.ids == ['a:b":', "c"]


def test_columns_of_a_file() -> None:
    """Rows come with the number of their line, and unknown columns are remembered by name."""
    rows = parse(f'\n{GOOD}\n{GOOD[:-1]}, "extra": 1}}'.encode(), Path("t"))
    assert (rows.lines, rows.stamps, rows.prompts) == ([2, 3], [1, 1], [9, 9])
    assert "extra" in rows.ignored


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids"]),
    VALUES,
)
@settings(max_examples=300)
def test_any_cell_is_read_or_refused(key: str, value: Any) -> None:
    """Whatever stands in a cell, the line is a valid row or one InputError."""
    line = json.dumps({**json.loads(GOOD), key: value})
    try:
        place = f"lines {parse(f'{GOOD}{chr(10)}{line}'.encode(), Path('t.jsonl')).lines}"
    except InputError as error:
        place = str(error)
    assert place.startswith(("t.jsonl:2: ", "lines [1, 2]"))
