"""From the policy that a user wrote, `lru` or `my_file:MyPolicy:order=forward`, to the object.

A spec names either an eviction order (group `tiermem.evict`, or any class with `victims`), which
is completed with a place and a prefetch part, or a whole policy (group `tiermem.policy`, or any
class with `demote`, or one made of `Parts`).
"""

from __future__ import annotations

from typing import Any, cast

from tiermem import registry
from tiermem.core.policy import Evict, Parts, Policy, TouchOrder
from tiermem.errors import InputError, UnknownName
from tiermem.registry import Spec

ORDERS = ("reverse", "forward")
PARTS = ("order", "place", "prefetch")
DEFAULT_PLACE = "cheapest"

EVICT = ("insert", "touch", "remove", "victims")
PLACE = ("admit", "demote", "demote_ahead", "reuse", "site")
PREFETCH = ("prefetch",)
WHOLE = ("evict", "touch_order", *PLACE, *PREFETCH)


def make_policy(text: str, capacities_bytes: dict[str, int]) -> Policy:
    """The policy that `text` names, for tiers of these capacities.

    Of its parameters `order` ("reverse" or "forward"), `place` and `prefetch` choose the other
    parts of a policy made around an eviction order; what is left goes to the class itself. A place
    takes its own parameters after a slash: `place=waterfall/write_through=true`.
    """
    spec = registry.parse_spec(text)
    plugin = _find(spec)
    if hasattr(plugin, "demote") or (isinstance(plugin, type) and issubclass(plugin, Parts)):
        whole = registry.make(plugin, spec, dict(capacities_bytes), kind="policy")
        return cast(Policy, _answering(whole, WHOLE, f"policy {spec.target!r}"))
    if not hasattr(plugin, "victims"):
        raise InputError(f"policy {spec.target!r} has neither victims() nor demote()")
    chosen: dict[str, Any] = {key: value for key, value in spec.parameters if key in PARTS}
    own = Spec(spec.target, tuple(pair for pair in spec.parameters if pair[0] not in PARTS))
    order = str(chosen.get("order", "reverse"))
    if order not in ORDERS:
        raise UnknownName("order", order, ORDERS)

    def evict(capacity_bytes: int) -> Evict:
        made = registry.make(plugin, own, capacity_bytes, kind="policy")
        return cast(Evict, _answering(made, EVICT, f"policy {spec.target!r}"))

    return Parts(
        evict,
        _part("place", str(chosen.get("place", DEFAULT_PLACE))),
        _part("prefetch", str(chosen.get("prefetch", "none"))),
        capacities_bytes,
        cast(TouchOrder, order),
    )


def _find(spec: Spec) -> Any:
    """The class behind a spec; the bounds of `tiermem hits` are refused by name."""
    if spec.target in ("belady", "belady-bypass", "infinite"):
        raise InputError(
            f"{spec.target!r} is a bound that knows the future: "
            "`tiermem hits` counts it, a simulation cannot run it"
        )
    if ":" not in spec.target and spec.target in registry.names("tiermem.policy"):
        return registry.find("tiermem.policy", spec.target, kind="policy")
    return registry.find("tiermem.evict", spec.target, kind="policy")


def _part(kind: str, text: str) -> Any:
    part = registry.build(f"tiermem.{kind}", registry.parse_spec(text.replace("/", ":")), kind=kind)
    return _answering(part, PLACE if kind == "place" else PREFETCH, f"{kind} {text!r}")


def _answering(made: Any, names: tuple[str, ...], what: str) -> Any:
    """`made`, if it has an answer to each question it will be asked."""
    missing = [name for name in names if not hasattr(made, name)]
    if missing:
        raise InputError(f"{what} has no {', '.join(missing)}")
    return made
