"""Units: each weight of a module in one of them or, if it is shared, in several."""

from __future__ import annotations

from torch import nn

from tiermem.offload.units import units_of


def names(module: nn.Module, whole: tuple[type, ...] = ()) -> list[tuple[str, list[str]]]:
    """(type, names of weights) of each unit."""
    return [
        (type(unit.module).__name__, [weight.name for weight in unit.weights])
        for unit in units_of(module, whole)
    ]


def test_a_unit_is_a_module_with_weights_of_its_own() -> None:
    """In the order of the modules; a module that is used twice is one unit."""
    shared = nn.Linear(2, 2)
    module = nn.Sequential(shared, nn.ReLU(), nn.LayerNorm(2), shared)
    assert names(module) == [("Linear", ["weight", "bias"]), ("LayerNorm", ["weight", "bias"])]
    assert names(nn.Sequential(nn.ReLU())) == []
    assert names(nn.Linear(2, 2, bias=False)) == [("Linear", ["weight"])]


def test_modules_that_read_their_children_are_whole() -> None:
    """Attention uses the weights of its projection without calling it; and whatever is named."""
    weights = ["in_proj_weight", "in_proj_bias", "weight", "bias"]
    assert names(nn.Sequential(nn.MultiheadAttention(4, 2))) == [("MultiheadAttention", weights)]
    module = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    assert len(names(module)) == 2
    assert names(module, (nn.Sequential,)) == [("Sequential", ["weight", "bias"] * 2)]


def test_what_is_open_around_a_unit_is_known() -> None:
    """A module's own weights are there while its children run; tied ones are charged once."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(nn.Linear(1, 1).weight.detach())
            self.one, self.two = nn.Linear(40, 40), nn.Linear(40, 40, bias=False)
            self.two.weight = self.one.weight

    outer, one, two = units_of(Outer())
    assert one.around == two.around == (outer,)
    assert outer.around == ()
    assert (outer.charge, one.charge, two.charge) == (4096, 8192 + 4096, 8192)
    both = units_of(nn.Sequential(Outer()), (Outer,))
    assert [unit.charge for unit in both] == [4096 + 8192 + 4096]
