"""From a checked LLM file to its geometry. What the cache size hangs on is asked for, not guessed.

Every complaint points at the line of the file that has to change.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiermem.models.documents import LLMSheet, Said
from tiermem.models.llm import LLM, Experts, Latent
from tiermem.models.provenance import Number, check_sources, numbers, written
from tiermem.models.sheet import Sheet


def geometry(sheet: Sheet[LLMSheet], name: str) -> LLM:
    """The model that an LLM file describes; `InputError` where numbers contradict each other."""
    model, latent, experts = sheet.content.model, sheet.content.latent, sheet.content.experts
    for table, said in _tables(sheet):
        check_sources(sheet, written(getattr(sheet.content, table)), said, table)
    kv_heads, head_dim = _heads(sheet)
    _check_layers(sheet)
    shape = written(model) | {"kv_heads": kv_heads, "head_dim": head_dim, "ffn": model.ffn or 0}
    return LLM(
        name=name,
        latent=None if latent is None else Latent(**written(latent)),
        experts=None if experts is None else Experts(**written(experts)),
        **shape,
    )


def geometry_numbers(sheet: Sheet[LLMSheet]) -> tuple[Number, ...]:
    """The provenance of every number in an LLM file."""
    every: list[Number] = []
    for table, said in _tables(sheet):
        every += numbers(table, written(getattr(sheet.content, table)), said)
    return tuple(every)


def _tables(sheet: Sheet[LLMSheet]) -> list[tuple[str, Mapping[str, Said]]]:
    source = sheet.content.source
    return [("model", source.model), ("latent", source.latent), ("experts", source.experts)]


def _heads(sheet: Sheet[LLMSheet]) -> tuple[int, int]:
    """Key-value heads and their width, which latent attention has only once expanded."""
    model, latent = sheet.content.model, sheet.content.latent
    if latent is not None:
        for key in ("kv_heads", "head_dim"):
            if getattr(model, key) is not None:
                raise sheet.wrong("means nothing beside [latent]", "model", key)
        return model.heads, latent.v_head_dim
    if model.kv_heads is None or model.head_dim is None:
        key = "kv_heads" if model.kv_heads is None else "head_dim"
        raise sheet.wrong("is missing, and the cache size cannot be guessed", "model", key)
    if model.heads % model.kv_heads:
        told = f"{model.kv_heads} does not divide heads = {model.heads}"
        raise sheet.wrong(told, "model", "kv_heads")
    return model.kv_heads, model.head_dim


def _check_layers(sheet: Sheet[LLMSheet]) -> None:
    """Every layer has a feed-forward block, of one width or of experts."""
    model, experts = sheet.content.model, sheet.content.experts
    dense_layers = model.layers
    if experts is not None:
        dense_layers = experts.dense_layers
        if experts.active > experts.count:
            raise sheet.wrong(f"more than count = {experts.count}", "experts", "active")
        if dense_layers >= model.layers:
            raise sheet.wrong(f"must be under layers = {model.layers}", "experts", "dense_layers")
    if model.ffn is None and dense_layers:
        raise sheet.wrong("is missing, and there are dense layers", "model", "ffn")
    if model.ffn is not None and not dense_layers:
        raise sheet.wrong("no layer is dense", "model", "ffn")
