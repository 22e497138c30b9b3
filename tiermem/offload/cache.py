"""TieredCache: a `Cache` for `generate()` of transformers 5 whose prefixes outlive the request.

    cache = TieredCache(model, memory)
    output = cache.generate(ids, max_new_tokens=100)

which is short for

    with cache.session(ids):
        output = model.generate(ids, past_key_values=cache, max_new_tokens=100)

(`cache=cache` from transformers 5.24 on). `session` loads the longest stored prefix of the prompt,
so that generate() computes only the rest; at its end the full blocks of the whole sequence, answer
included, are stored for the next request, in this process or a later one. What is stored is named
by the tokens that the model was really given, which a hook on its forward watches, and never by
what the caller said.

K and V come back bit by bit. A prompt whose beginning was loaded is computed in other portions
than a whole one, so its logits may differ from those in the last bits, as with any split prefill.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any, Self, TypeAlias

import torch
from transformers.cache_utils import DynamicCache
from transformers.generation.utils import ALL_CACHE_NAMES

from tiermem.errors import InputError
from tiermem.offload import checks, fingerprint
from tiermem.offload.benefit import Benefit
from tiermem.offload.keys import KvLayout, prefix_keys
from tiermem.offload.memory import TieredMemory
from tiermem.offload.prefixes import BlockCounts, Prefixes
from tiermem.offload.stamp import stamp_of

Tensor: TypeAlias = Any

BLOCK_TOKENS = 64
KEYWORD: str = ALL_CACHE_NAMES[0]
"""What this transformers calls a cache: `cache`, or `past_key_values` before 5.24."""
# What a forward may be given besides the tokens without changing what KV they have.
_HARMLESS = {"input_ids", "attention_mask", "position_ids", "cache_position", "logits_to_keep"}


class TieredCache(DynamicCache):
    """The KV of one sequence while it is generated, over the blocks of a memory.

    One cache serves one request at a time, of batch size 1; any number of caches, of any number of
    threads, may stand on one memory and share its blocks. `model` is the module whose generate()
    is called; `name` stands for its weights where they cannot be read.

    Refused, each by name: sliding windows and other layers that are not full attention, rotary
    angles that depend on the prompt's length, padding, inputs that are not tokens.
    """

    def __init__(
        self, model: Any, memory: TieredMemory, *, block_tokens: int = BLOCK_TOKENS, name: str = ""
    ) -> None:
        super().__init__()
        if not isinstance(memory, TieredMemory):
            raise InputError(f"{memory!r} is not a TieredMemory", key="memory")
        checks.text(name, "name")
        codec = "exact" if memory.codec is None else memory.codec.name
        self.layout: KvLayout = fingerprint.describe(model, block_tokens, codec=codec, name=name)
        self.benefit = Benefit()
        self.loaded_tokens = 0  # of this prompt, found in the memory
        self._model = model
        self._stamp = stamp_of(model)
        self._prefixes = Prefixes(memory, self.layout)
        self._prompt: list[int] = []
        self._tokens: list[int] = []  # those that the layers hold KV of
        self._given: list[int] | None = None  # to a forward that has not come to the cache yet
        self._watch: Any = None

    @classmethod
    def identity(cls, model: Any, *, block_tokens: int = BLOCK_TOKENS, name: str = "") -> str:
        """What to call a memory that is for this model's blocks alone:
        `TieredMemory(..., identity=TieredCache.identity(model))` refuses the files of others."""
        return fingerprint.describe(model, block_tokens, name=name).identity

    @property
    def counts(self) -> BlockCounts:
        """Blocks loaded, stored, lost and not stored since the start."""
        return self._prefixes.counts

    # -- one request ---------------------------------------------------------------------------

    def generate(self, input_ids: Tensor, **options: Any) -> Any:
        """`model.generate(input_ids, ...)` over this cache, whatever it calls that argument."""
        with self.session(input_ids):
            return self._model.generate(input_ids, **{KEYWORD: self}, **options)

    @contextmanager
    def session(self, ids: Any) -> Iterator[Self]:
        """Serve the prompt `ids` inside: `begin`, then `commit`, or `reset` after an exception."""
        self.begin(ids)
        try:
            yield self
        except BaseException:
            self.reset()
            raise
        self.commit()

    def begin(self, ids: Any) -> Self:
        """Start on the prompt `ids` (a list, or a tensor of [tokens] or [1, tokens]): load what is
        stored of it, all but its last token at most. What was begun before is committed."""
        self.commit()
        prompt = _one_sequence(ids)
        self._same_weights()
        started = time.perf_counter()
        usable = prompt[: len(prompt) - 1]  # something has to be computed to sample from
        keys = prefix_keys(self.layout.seed, usable, self.layout.block_tokens)
        kv = self._prefixes.fetch(keys, self._model.get_input_embeddings().weight.device)
        self.loaded_tokens = kv.shape[-2]
        if self.loaded_tokens:
            for layer, (key_states, value_states) in enumerate(kv):
                super().update(key_states, value_states, layer)
        self.benefit.loaded(self.loaded_tokens, time.perf_counter() - started)
        self._prompt, self._tokens = prompt, prompt[: self.loaded_tokens]
        self._watch = self._model.register_forward_pre_hook(self._see, with_kwargs=True)
        return self

    def commit(self) -> None:
        """End the request: its full blocks are staged in the memory, its KV here is let go."""
        if self._watch is None:
            return
        self.benefit.computed()
        try:
            self._same_weights()  # else this KV is another model's
        except InputError:
            self.reset()
            raise
        keys = prefix_keys(self.layout.seed, self._tokens, self.layout.block_tokens)
        started = time.perf_counter()
        with torch.no_grad():
            self._prefixes.store(keys, self.loaded_tokens // self.layout.block_tokens, self._block)
        self.benefit.store_s += time.perf_counter() - started
        self.reset()

    def reset(self) -> None:
        """Drop the request; nothing of it is stored."""
        if self._watch is not None:
            self._watch.remove()
        self._watch, self._given = None, None
        self._prompt, self._tokens = [], []
        self.layers.clear()

    # -- what transformers calls -----------------------------------------------------------------

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """As that of `DynamicCache`, once it is known which tokens these are."""
        if layer_idx == 0:
            self._admit(key_states)
        both: tuple[Tensor, Tensor] = super().update(
            key_states, value_states, layer_idx, *args, **kwargs
        )
        return both

    def crop(self, *args: Any, **kwargs: Any) -> None:
        """As that of `DynamicCache`: tokens that were tried and not taken are forgotten."""
        super().crop(*args, **kwargs)
        del self._tokens[self.get_seq_length() :]

    def _see(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a forward of the model: which tokens it is given, if it is ours."""
        if not any(value is self for value in (*args, *kwargs.values())):
            return
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise InputError("TieredCache names blocks by their tokens; here are only embeddings")
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor) and name not in _HARMLESS:
                raise InputError(f"TieredCache names blocks by tokens alone; {name} is given too")
        given = _one_sequence(ids)
        end = len(self._tokens) + len(given)
        expected = self._prompt[len(self._tokens) : end]
        if given[: len(expected)] != expected:
            raise InputError("generate() was given other ids than session(): both want the same")
        mask, positions = kwargs.get("attention_mask"), kwargs.get("position_ids")
        if mask is not None and (mask.dim() != 2 or not bool(mask.all())):
            raise InputError("TieredCache takes no padding: tokenize each prompt by itself")
        plain = list(range(len(self._tokens), end))
        if positions is not None and positions.reshape(-1).tolist() != plain:
            raise InputError("TieredCache takes no position_ids but the plain ones")
        self.benefit.computing(len(given))
        self._given = given

    def _admit(self, key_states: Tensor) -> None:
        """Before the first layer: these are the tokens that the forward was seen to be given."""
        batch, heads, count, head_dim = key_states.shape
        if batch != 1:
            raise InputError(f"a batch of {batch}; a TieredCache serves one sequence at a time")
        if self._given is None or len(self._given) != count:
            raise InputError(
                "KV of unknown tokens: call generate() inside `with cache.session(ids)`, on the "
                "model that the cache was made for"
            )
        made = (heads, head_dim, str(key_states.dtype).removeprefix("torch."))
        if made != (self.layout.kv_heads, self.layout.head_dim, self.layout.dtype):
            raise InputError(f"the model makes KV of {made}, not that of {self.layout.identity}")
        self._tokens += self._given
        self._given = None

    def _same_weights(self) -> None:
        if stamp_of(self._model) != self._stamp:
            raise InputError("the model's weights have changed: make a new TieredCache for it")

    def _block(self, number: int) -> Tensor:
        """KV of one full block of the sequence, in the shape of the layout."""
        start = number * self.layout.block_tokens
        at = slice(start, start + self.layout.block_tokens)
        layers: list[Any] = self.layers
        pairs = [(layer.keys[0, :, at], layer.values[0, :, at]) for layer in layers]
        return torch.stack([torch.stack(pair) for pair in pairs])


def _one_sequence(ids: Any) -> list[int]:
    """The token ids of one sequence; InputError for a batch or for none."""
    if isinstance(ids, torch.Tensor):
        if ids.dim() == 2 and len(ids) > 1:
            raise InputError(f"a batch of {len(ids)}; a TieredCache serves one sequence at a time")
        if ids.device.type == "meta" or ids.layout is not torch.strided:
            raise InputError(
                f"the token ids of one prompt are expected, not a {ids.layout} tensor "
                f"on {ids.device}"
            )
        ids = ids.reshape(-1).tolist()
    try:
        tokens = [index(token) for token in ids]
    except TypeError as error:
        raise InputError(f"the token ids of one prompt are expected: {error}") from None
    if not tokens:
        raise InputError("the token ids of one prompt are expected, at least one")
    return tokens
