"""Where should the memory of a language model live? Placement policies over tiers of memory.

The names below are loaded when they are first used, so that `import tiermem` stays light: it
needs neither torch nor a GPU, and loads neither SimPy nor pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiermem.experiment import compare as compare
    from tiermem.offload import TieredEmbedding as TieredEmbedding
    from tiermem.offload import TieredMemory as TieredMemory
    from tiermem.report.folder import load as load
    from tiermem.scenario import Scenario as Scenario
    from tiermem.scenario import simulate as simulate
    from tiermem.traces.catalog import open_trace as open_trace

__all__ = [
    *("Scenario", "TieredEmbedding", "TieredMemory", "__version__"),
    *("compare", "load", "open_trace", "simulate"),
]

_HOMES = {
    "Scenario": "tiermem.scenario",
    "TieredEmbedding": "tiermem.offload",
    "TieredMemory": "tiermem.offload",
    "compare": "tiermem.experiment",
    "load": "tiermem.report.folder",
    "open_trace": "tiermem.traces.catalog",
    "simulate": "tiermem.scenario",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its home, once; `__version__` is that of the installed package."""
    if name == "__version__":
        value: Any = importlib.import_module("importlib.metadata").version("tiermem")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'tiermem' has no attribute {name!r}")
    globals()[name] = value
    return value
