"""Streamed weights: the same bits, one unit ahead, within the budget, and no gradients."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tiermem.errors import DoesNotFit, InputError
from tiermem.offload.frozen import NoGradient
from tiermem.offload.memory import TieredMemory
from tiermem.offload.module import offload, restore, streaming_of
from tiermem.offload.tensor import TensorLost, TieredTensor

Make = Callable[..., TieredMemory]
Model = tuple[Any, tuple[Any, ...]]


class Tied(nn.Module):
    """A language model in small: the head has the weights of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.body = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embed(ids) * self.scale
        for layer in (*self.body, self.body[1]):
            x = torch.relu_(layer(x))
        return {"logits": self.head(x), "ids": ids}


def models() -> dict[str, Model]:
    """Of many shapes, each with inputs."""
    torch.manual_seed(3)
    image = torch.randn(2, 3, 16, 16)
    sequence = torch.randn(5, 2, 32)
    return {
        "linear": (nn.Sequential(*(nn.Linear(32, 32) for _ in range(6))), (torch.randn(4, 32),)),
        "tied": (Tied(), (torch.arange(10).view(2, 5),)),
        "lstm": (nn.LSTM(32, 32, num_layers=2), (sequence,)),
        "attention": (nn.MultiheadAttention(32, 4), (sequence, sequence, sequence)),
        "encoder": (
            nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 3),
            (sequence,),
        ),
        "norms": (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.GroupNorm(2, 8)),
            (image,),
        ),
        "weight norm": (
            nn.utils.parametrizations.weight_norm(nn.Linear(32, 7)),
            (torch.randn(3, 32),),
        ),
        "bfloat16": (nn.Linear(32, 32).bfloat16(), (torch.randn(4, 32).bfloat16(),)),
        "no weights": (nn.Sequential(nn.ReLU()), (torch.randn(3),)),
    }


def leaves(output: Any) -> list[torch.Tensor]:
    """The tensors of an output."""
    found: list[torch.Tensor] = torch.utils._pytree.tree_leaves(output)
    return found


@pytest.mark.parametrize("name", list(models()))
def test_outputs_are_the_same_bits(make: Make, name: str) -> None:
    """For any module, in the first forward and in later ones, out of a memory it does not fit."""
    model, inputs = models()[name]
    model.eval()
    with torch.no_grad():
        expected = leaves(model(*inputs))
    memory = make("96 KiB", "64 MiB")
    assert offload(model, memory) is model
    for _ in range(3):
        with torch.no_grad():
            assert all(a.equal(b) for a, b in zip(leaves(model(*inputs)), expected, strict=True))
    restore(model)
    assert memory.ledger.nbytes == 0
    with torch.no_grad():
        assert all(a.equal(b) for a, b in zip(leaves(model(*inputs)), expected, strict=True))


def test_weights_come_one_unit_ahead(make: Make) -> None:
    """All but the first of a forward are on their way before they are needed; in between there
    are shapes and no bytes, and nothing is pinned."""
    model, inputs = models()["linear"]
    memory = make("64 KiB", "64 MiB")
    offload(model, memory)
    streaming = streaming_of(model)
    for _ in range(4):
        with torch.no_grad():
            model(*inputs)
    assert (streaming.ahead, streaming.late) == (20, 4)
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert [tuple(p.shape) for p in model[0].parameters()] == [(32, 32), (32,)]
    with pytest.raises(InputError, match="weight of a Linear is offloaded"):
        model[0].weight.sum()
    assert memory.sink(), "nothing is pinned"


def test_the_order_is_learnt(make: Make) -> None:
    """What runs in another order than it was registered in comes ahead from the second time on."""

    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(5)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in reversed(self.layers):
                x = layer(x)
            return x

    model = Backwards()
    offload(model, make("64 KiB", "64 MiB"))
    streaming = streaming_of(model)
    with torch.no_grad():
        model(torch.zeros(1, 16))
        assert streaming.ahead == 0
        model(torch.zeros(1, 16))
    assert (streaming.ahead, streaming.late) == (4, 6)


def test_tied_weights_are_kept_once_and_stay_tied(make: Make) -> None:
    """One block, one parameter, also after `restore`."""
    model, _ = models()["tied"]
    count = len(list(model.parameters()))
    memory = make("64 KiB", "64 MiB")
    offload(model, memory)
    assert memory.ledger.blocks == count == len(list(model.parameters()))
    restore(model)
    assert model.head.weight is model.embed.weight
    assert model.head.weight.requires_grad


def test_a_state_dict_has_the_values(make: Make) -> None:
    """Saving works as ever; loading, copying and pickling are refused with the mend."""
    model, _ = models()["tied"]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    offload(model, make("64 KiB", "64 MiB"))
    state = model.state_dict()
    assert list(state) == list(before)
    assert all(state[name].equal(before[name]) for name in before)
    with pytest.raises(InputError, match="offloaded: load the state_dict first"):
        model.load_state_dict(state)
    with pytest.raises(InputError, match="restore"):
        copy.deepcopy(model)
    with pytest.raises(InputError, match="state_dict"):
        pickle.dumps(model)
    with pytest.raises(InputError, match="offloaded already"):
        offload(model, make("64 KiB"))


def test_training_through_it_is_refused(make: Make) -> None:
    """The forward runs; a backward that would need the weights says why it cannot go on, whether
    it is for them or for what is before them."""
    model, inputs = models()["linear"]
    offload(model, make("64 KiB", "64 MiB"))
    for x in (inputs[0], inputs[0].clone().requires_grad_()):
        output = model(x)
        assert torch.is_grad_enabled()
        with pytest.raises(NoGradient, match=r"Sequential.*restore\(\)"):
            output.sum().backward()


def test_an_error_inside_lets_everything_go(make: Make) -> None:
    """A forward that raises leaves gradients on, weights away and the model usable."""
    model, inputs = models()["linear"]
    memory = make("64 KiB", "64 MiB")
    offload(model, memory)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.zeros(1, 7))
    assert torch.is_grad_enabled()
    assert memory.sink(), "nothing is pinned"
    assert model(*inputs).shape == (4, 32)


def test_lost_weights_are_an_error_and_never_zeros(make: Make) -> None:
    """What no tier has any more is said so."""
    model, inputs = models()["linear"]
    memory = make("64 KiB", "64 MiB")
    offload(model, memory)
    memory.clear()
    with pytest.raises(TensorLost):
        model(*inputs)
    assert torch.is_grad_enabled()


def test_what_cannot_work_changes_nothing(make: Make) -> None:
    """A unit larger than the fastest tier, a model larger than all of them."""
    model, inputs = models()["linear"]
    expected = model(*inputs)
    with pytest.raises(DoesNotFit, match=r"Linear needs 8 KiB .* tier 'dram' has 4 KiB"):
        offload(model, make("4 KiB", "64 MiB"))
    with pytest.raises(DoesNotFit, match="more do not fit"):
        offload(model, make("16 KiB"))
    assert model(*inputs).equal(expected)
    with pytest.raises(InputError, match="not offloaded"):
        restore(model)
    with pytest.raises(InputError, match="neither a tensor nor a module"):
        offload([1], make("64 KiB"))


def test_a_type_can_be_one_unit(make: Make) -> None:
    """With all that is in it: its parts may read each other's weights."""

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.inner.weight)

    x = torch.randn(2, 16)
    model = nn.Sequential(Reads(), Reads())
    expected = model(x)
    offload(model, make("64 KiB", "64 MiB"), whole=[Reads])
    assert len(streaming_of(model).units) == 2
    assert model(x).equal(expected)
    restore(model)
    offload(model, make("64 KiB"))
    with pytest.raises(InputError, match="whole="):
        model(x)


def test_threads_may_run_one_model(make: Make) -> None:
    """A unit that several are in is brought once and goes with the last."""
    model, inputs = models()["tied"]
    expected = model(*inputs)["logits"]
    offload(model, make("64 KiB", "64 MiB"))
    wrong: list[Any] = []

    def run() -> None:
        with torch.no_grad():
            wrong.extend(1 for _ in range(20) if not model(*inputs)["logits"].equal(expected))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_tensor_is_offloaded_too(make: Make) -> None:
    """By the same name."""
    handle = offload(torch.arange(5), make())
    assert isinstance(handle, TieredTensor)
    assert handle.load().tolist() == [0, 1, 2, 3, 4]
