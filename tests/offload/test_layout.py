"""Any strided tensor becomes bytes and the same tensor again, bit by bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiermem.errors import InputError
from tiermem.offload.layout import Layout, as_bytes, dense_part, fill, layout_of

Some = Callable[..., torch.Tensor]
QUANTISED = {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)} - QUANTISED, key=str
)
SIZES = (0, 1, 2, 511, 512, 513, 4095, 4097)  # known_faults 103, in elements


def plain(tensor: torch.Tensor) -> list[int]:
    """Its bytes in the order of its values, by Python alone."""
    width = tensor.dtype.itemsize
    memory = bytes(tensor.untyped_storage().tolist()) if tensor.numel() else b""
    found = b""
    for index in torch.cartesian_prod(*map(torch.arange, tensor.shape)).view(-1, tensor.dim()):
        place = tensor.storage_offset()
        place += sum(i * s for i, s in zip(index.tolist(), tensor.stride(), strict=True))
        found += memory[place * width : (place + 1) * width]
    return list(found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_size_comes_back_bit_by_bit(dtype: torch.dtype, some: Some) -> None:
    """known_faults 103 and 111: no dtype and no size is special."""
    for count in SIZES:
        tensor = some(dtype, count)
        layout = layout_of(tensor)
        data = as_bytes(tensor).clone()
        assert layout.nbytes == len(data) == count * dtype.itemsize
        back = layout.of_bytes(data)
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert as_bytes(back).equal(as_bytes(tensor))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_taken_by_its_strides(dtype: torch.dtype, some: Some) -> None:
    """known_faults 117: a view is its own values, not the start of its memory."""
    whole = some(dtype, 60).view(5, 4, 3)
    views = [whole[2:], whole[:, 1:3, ::2], whole.permute(2, 0, 1), whole[1, 2, 1]]
    views += [whole[:, :1].expand(5, 7, 3)]
    for view in views:
        target = torch.zeros(layout_of(view).nbytes, dtype=torch.uint8)
        fill(target, view)
        expected = plain(view) if view.dim() else target.tolist()
        assert target.tolist() == expected == as_bytes(view).tolist()


def test_lazy_conjugation_and_negation_are_made_real() -> None:
    """The bytes of a conjugated view are those of its values."""
    tensor = torch.tensor([[1 + 2j, 3 - 4j]])
    assert Layout(tensor.dtype, (1, 2)).of_bytes(as_bytes(tensor.conj())).tolist() == [
        [1 - 2j, 3 + 4j]
    ]
    imaginary = tensor.conj().imag
    assert imaginary.is_neg()
    target = torch.zeros(8, dtype=torch.uint8)
    fill(target, imaginary)
    assert target.view(torch.float32).tolist() == [-2.0, 4.0]


def test_what_is_not_simply_bytes_is_refused_by_name() -> None:
    """Sparse, nested, quantised and meta tensors are refused, each with its mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls quantised and nested tensors old or new
        quantised = torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)
        nested = torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)])
    refused = {
        "nested": nested,
        "sparse_coo": torch.zeros(2).to_sparse(),
        "qint8": quantised,
        "meta": torch.empty(2, device="meta"),
        "list": [1.0],
    }
    for word, value in refused.items():
        with pytest.raises(InputError, match=word):
            layout_of(value)


def test_a_layout_is_a_document() -> None:
    """What is stored beside a block says dtype and shape, and an unknown dtype is refused."""
    for dtype in DTYPES:
        layout = Layout(dtype, (3, 0, 2))
        assert Layout.from_json(layout.to_json()) == layout
    with pytest.raises(InputError, match=r"torch\.float5 is no dtype"):
        Layout.from_json({"dtype": "torch.float5", "shape": [1]})


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    start=st.integers(0, 3),
)
def test_dense_part_keeps_every_element_once_and_every_stride(
    sizes: list[int], order: object, start: int
) -> None:
    """A permuted, expanded or shifted tensor comes back with the strides that it had."""
    shuffle = order.sample  # type: ignore[attr-defined]
    count = int(torch.tensor(sizes).prod())
    tensor = torch.arange(float(count + start))[start:].view(sizes)
    tensor = tensor.permute(shuffle(range(len(sizes)), len(sizes)))
    tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    kept, strides = dense_part(tensor)
    assert kept.numel() == count
    back = kept.clone().as_strided(tensor.shape, strides) if strides else kept
    assert back.equal(tensor)
    assert back.stride() == tensor.stride()


def test_a_tensor_with_holes_is_kept_by_its_values() -> None:
    """Memory between the elements is nobody's business (known_faults 117)."""
    tensor = torch.arange(12.0).view(3, 4)[:, :3]
    kept, strides = dense_part(tensor)
    assert strides is None
    assert kept is tensor
    overlapping = torch.arange(5.0).as_strided((3, 2), (1, 1))
    assert dense_part(overlapping) == (overlapping, None)
