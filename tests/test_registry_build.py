"""Making a plug-in from its spec: parameters are checked by name before it is called."""

from __future__ import annotations

from typing import Any

import pytest

from tiermem import registry
from tiermem.errors import InputError, UnknownName

GROUP = "tiermem.test"


class Plain:
    """Takes one argument and two parameters."""

    def __init__(self, capacity: int, small: float = 0.1, *, big: int = 3) -> None:
        if big < 0:
            raise InputError("too small", key="big")
        self.given = (capacity, small, big / (small != 0.5))


class Leaves:
    """Ends the process."""

    def __init__(self, capacity: int) -> None:
        raise SystemExit(0)


class Open:
    """Takes any parameter."""

    def __init__(self, capacity: int, **others: Any) -> None:
        self.given = (capacity, others)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes above, by name, and something that is no class."""
    shelf = {"plain": Plain, "open": Open, "leaves": Leaves, "number": 7}
    monkeypatch.setattr(registry, "_registered", {GROUP: shelf})


def built(text: str) -> Any:
    return registry.build(GROUP, registry.parse_spec(text), 10, kind="policy")


def test_parameters_reach_the_plugin() -> None:
    """Arguments come first, then the parameters of the spec by name."""
    assert built("plain").given == (10, 0.1, 3)
    assert built("plain:big=4:small=0.2").given == (10, 0.2, 4)
    assert built("open:whatever=1").given == (10, {"whatever": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plain:smal=1", "unknown parameter of policy 'plain': 'smal'; did you mean 'small'?"),
        ("plain:capacity=1", "'capacity'; known: big, small"),
        ("plain:big=-1", "big: too small"),
        ("leaves", "policy 'leaves' cannot be made: SystemExit: 0"),
        ("plain:small=0.5", "policy 'plain:small=0.5' cannot be made: ZeroDivisionError"),
        ("open:capacity=1", "policy 'open:capacity=1' cannot be made: TypeError"),
        ("number", "policy 'number' is of type int, not a class"),
    ],
)
def test_what_cannot_be_made_is_named(text: str, message: str) -> None:
    """One line with the spec, the parameter or the nearest one; the plug-in's own error stays."""
    with pytest.raises(InputError) as caught:
        built(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_parameter_is_an_unknown_name() -> None:
    """Callers can offer the nearest name."""
    with pytest.raises(UnknownName) as caught:
        built("plain:bigg=1")
    assert caught.value.nearest == "big"
