"""The bytes of a block, in one piece or in several, as a tensor and back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from tiermem.offload.layout import Layout, layout_of
from tiermem.offload.views import copied, opened, write


def pieces(nbytes: int, cuts: list[int]) -> list[np.ndarray]:
    """A buffer in pieces that end at `cuts`."""
    memory, ends = np.zeros(nbytes + 10, dtype=np.uint8), [0, *cuts, nbytes]
    return [memory[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("cuts", [[], [4096], [1], [7, 4100, 9000]])
def test_written_and_read_in_pieces(cuts: list[int]) -> None:
    """A value may lie across a cut."""
    tensor = torch.arange(2500.0).view(50, 50).t()
    views = pieces(tensor.nbytes, cuts)
    write(views, tensor)
    layout = layout_of(tensor)
    assert opened(views, layout).equal(tensor)
    assert copied(views, layout, "cpu").equal(tensor)
    assert b"".join(view.tobytes() for view in views) == tensor.contiguous().numpy().tobytes()


def test_one_piece_is_opened_without_a_copy() -> None:
    """What is written to the tensor is written to the block."""
    views = pieces(40, [])
    opened(views, Layout(torch.float32, (10,)))[3] = 7.0
    assert views[0].view(np.float32)[3] == 7.0


def test_nothing_has_no_view() -> None:
    """A tensor without elements is a block without bytes."""
    layout = Layout(torch.float16, (0, 4))
    write([], torch.empty(0, 4, dtype=torch.float16))
    assert opened([], layout).shape == copied([], layout, "cpu").shape == (0, 4)
