"""A label says what a named tensor is, and is refused when it says it of another."""

from __future__ import annotations

import json

import pytest
import torch

from tiermem.errors import InputError
from tiermem.offload.labels import LABEL_BYTES, Label, label_keys, pack, unpack
from tiermem.offload.layout import Layout

LABEL = Label(bytes(range(16)), Layout(torch.bfloat16, (3, 0, 7)), "nf4", 1234, 5)


def test_a_label_comes_back() -> None:
    """For any name and identity, in one granule."""
    for name, identity in (("w", ""), ("x" * 5000, "é" * 3000), ("\0", "\n")):
        data = pack(LABEL, name, identity)
        assert len(data) == LABEL_BYTES
        assert unpack(data, name, identity) == LABEL


def test_keys_are_the_same_everywhere_and_differ() -> None:
    """known_faults 84: known answers, and no word runs into the next."""
    known = [key.hex() for key in label_keys("w", "m")]
    assert known == ["5d1da0704ddebe66ad4ab9b6d11179a3", "de913fd24e4e1c31cd30c96dd24dae2c"]
    words = (("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"))
    assert len({key for pair in words for key in label_keys(*pair)}) == 8


def test_a_label_of_something_else_is_refused() -> None:
    """Another name, another identity, another format, an unknown dtype, or no label at all."""
    data = pack(LABEL, "w", "m")
    with pytest.raises(InputError, match="that of 'w' of 'm', not of 'v' of 'm'"):
        unpack(data, "v", "m")
    with pytest.raises(InputError, match="not of 'w' of 'n'"):
        unpack(data, "w", "n")
    document = json.loads(data.rstrip(b"\0"))
    for changes, said in (
        ({"tiermem_label": 2}, "format 2"),
        ({"dtype": "torch.float3"}, "no dtype"),
        ({"key": "zz"}, "cannot be read"),
        ({"shape": None}, "cannot be read"),
    ):
        with pytest.raises(InputError, match=said):
            unpack(json.dumps({**document, **changes}).encode(), "w", "m")
    with pytest.raises(InputError, match="cannot be read"):
        unpack(b"\xff" * LABEL_BYTES, "w", "m")


def test_a_shape_beyond_a_label_is_refused() -> None:
    """A tensor of thousands of dimensions has no name."""
    label = Label(bytes(16), Layout(torch.int8, (1,) * 4000), None, 1)
    with pytest.raises(InputError, match="4000 dimensions"):
        pack(label, "w", "m")
