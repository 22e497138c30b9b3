"""Which model this is, and what its KV cache looks like: enough to know whose blocks are whose.

The shapes are those that the model makes in one pass over one token, not those that its
configuration promises. The weights enter with the integer sum of each tensor's bits, which is the
same in any order on any device and changes with any element, and with 1,024 elements of each.
Models whose KV does not depend on the tokens before it alone, or not in one layout for every
layer, are refused by name.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

import torch
from transformers.cache_utils import Cache, DynamicLayer

from tiermem.errors import InputError
from tiermem.offload import checks
from tiermem.offload.keys import KvLayout
from tiermem.offload.layout import integers

Model: TypeAlias = Any

SAMPLE = 1024
# What a configuration says besides what the model computes; the dtype is taken from the KV itself.
_VOLATILE = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}
_VOLATILE |= {"quantization_config", "use_cache", "output_attentions", "output_hidden_states"}
# Angles that depend on the length of the whole prompt: a prefix has no KV of its own.
_LENGTH_BOUND_ROPE = {"dynamic", "longrope"}


def describe(model: Model, block_tokens: int, *, codec: str = "exact", name: str = "") -> KvLayout:
    """The layout of `model`'s KV in blocks of `block_tokens`.

    `name` stands for the weights where they cannot be read (offloaded to meta tensors, adapters
    that are switched): the caller answers for it being different for different weights.
    """
    block_tokens = checks.whole(block_tokens, "block_tokens", unit=" of tokens")
    refuse_unfit(model)
    keys = _probe(model)
    layers, kv_heads, head_dim = len(keys), keys[0].shape[1], keys[0].shape[-1]
    return KvLayout(
        model=f"{type(model).__name__} {name or _weights(model)}",
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=str(keys[0].dtype).removeprefix("torch."),
        element_bytes=keys[0].element_size(),
        block_tokens=block_tokens,
        positions=_positions(model.config),
        codec=codec,
    )


def refuse_unfit(model: Model) -> None:
    """InputError for a model whose KV of a prefix is not a function of the prefix alone."""
    what = type(model).__name__
    wanted = ("config", "generate", "get_input_embeddings", "register_forward_pre_hook")
    if isinstance(model, type) or not all(hasattr(model, name) for name in wanted):
        raise InputError(f"{what} is not a model of transformers that generates", key="model")
    if getattr(model.config, "is_encoder_decoder", False):
        raise InputError(f"{what} is an encoder and a decoder; TieredCache serves decoders only")
    if model.training:
        raise InputError(f"{what} is in training mode, where dropout changes its KV: model.eval()")
    rope = _rope(model.config)
    kinds = {str(part.get("rope_type")) for part in (rope, *rope.values()) if _is_table(part)}
    if kinds & _LENGTH_BOUND_ROPE:
        kind = sorted(kinds & _LENGTH_BOUND_ROPE)[0]
        raise InputError(
            f"{what} has the rope type {kind!r}: its KV depends on the length of the whole prompt"
        )


def _probe(model: Model) -> list[Any]:
    """The keys of each layer after one token."""
    what = type(model).__name__
    device = model.get_input_embeddings().weight.device
    with torch.no_grad():
        out = model(torch.zeros((1, 1), dtype=torch.long, device=device), use_cache=True)
    cache = next((value for value in out.values() if isinstance(value, Cache)), None)
    if cache is None or not cache.layers:
        raise InputError(f"{what} gives back no KV cache of transformers")
    layers: list[Any] = cache.layers
    other = [type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer]
    if other:
        raise InputError(
            f"{what} has {other[0]} in {len(other)} of {len(layers)} layers (sliding window, "
            "hybrid or shared); TieredCache needs full attention in every layer"
        )
    pairs = [(layer.keys, layer.values) for layer in layers]
    looks = {(tuple(part.shape), part.dtype) for pair in pairs for part in pair}
    if len(looks) > 1:
        shown = " and ".join(sorted(str(list(shape)) for shape, _ in looks)[:2])
        raise InputError(f"{what} has keys and values of unlike shapes or dtypes, {shown}")
    return [keys for keys, _ in pairs]


def _weights(model: Model) -> str:
    """A digest of the configuration and of every weight and persistent buffer."""
    digest = hashlib.blake2b(digest_size=8, person=b"tiermem-model")
    config = {
        key: value
        for key, value in model.config.to_dict().items()
        if key not in _VOLATILE and not key.endswith("_token_id")
    }
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(str(getattr(model, "active_adapter", "")).encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.device.type == "meta":
            raise InputError(
                f"{key} is a meta tensor, its bytes cannot be read; give TieredCache a name="
            )
        if tensor.numel():
            digest.update(_extract(tensor))
    return digest.hexdigest()


def _extract(tensor: Any) -> bytes:
    """The sum of all bits, and SAMPLE elements or so, evenly from the whole tensor."""
    flat = integers(tensor).reshape(-1)
    flat = flat.view(torch.int64) if flat.is_complex() else flat
    few = flat[:: max(1, len(flat) // SAMPLE)]
    total = int(flat.sum(dtype=torch.int64).item())
    return total.to_bytes(8, "little", signed=True) + bytes(few.cpu().numpy().tobytes())


def _rope(config: Any) -> dict[str, Any]:
    """What the configuration says of rotary positions, under the name of any transformers 5."""
    found: Any = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    return dict(found) if _is_table(found) else {}


def _positions(config: Any) -> str:
    return json.dumps(_rope(config), sort_keys=True, default=str)


def _is_table(value: Any) -> bool:
    return hasattr(value, "keys") and hasattr(value, "get")
