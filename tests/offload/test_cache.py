"""TieredCache under generate(), with a tiny random model: the answers are those of DynamicCache."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.cache_utils import Cache, DynamicCache

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.errors import InputError
from tiermem.offload.cache import KEYWORD, TieredCache
from tiermem.offload.memory import TieredMemory
from tiermem.runtime.stores import Fault, FaultKind
from tiermem.testing.twin import Tape, same_actions

Make = Callable[..., TieredMemory]
Tiny = Callable[..., Any]

NEW = {"max_new_tokens": 12, "do_sample": False}


def prompt(seed: int, count: int) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(1, 97) for _ in range(count)]


def plain(model: Any, ids: list[int], **options: Any) -> list[int]:
    """What generate() answers without us."""
    return list(model.generate(torch.tensor([ids]), **{**NEW, **options})[0].tolist())


def tiered(cache: TieredCache, ids: list[int], **options: Any) -> list[int]:
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids))}
    return list(cache.generate(**inputs, **{**NEW, **options})[0].tolist())


@pytest.mark.parametrize("host", ["16 KiB", "64 KiB", "4 MiB"])
def test_a_conversation_is_that_of_a_dynamic_cache(make: Make, tiny: Tiny, host: str) -> None:
    """Three conversations in turn, each turn on top of the last answer, over an arena of one
    block, of five, and of everything: the same tokens, and all full blocks but the last loaded."""
    model = tiny()
    cache = TieredCache(model, make(host, "4 MiB"), block_tokens=16)
    said = [prompt(0, 40) + prompt(seed, 25) for seed in range(1, 4)]
    for turn in range(3):
        for number, ids in enumerate(said):
            answer = tiered(cache, ids)
            assert answer == plain(model, ids)
            if turn:
                known = len(ids) - 20  # all but what was just asked, and the last token
                assert cache.loaded_tokens == (known - 1) // 16 * 16
            said[number] = answer + prompt(turn * 10 + number, 20)
    assert cache.counts.lost == cache.counts.unstored == 0


def test_loaded_logits_are_those_of_the_same_split(make: Make, tiny: Tiny) -> None:
    """The KV that is loaded is the KV that was computed: a DynamicCache that computed the same
    prefix first gives the same logits, bit by bit."""
    model, ids = tiny(), torch.tensor([prompt(5, 61)])
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    with torch.no_grad():
        with cache.session(ids[:, :48]):
            model(ids[:, :48], **{KEYWORD: cache})
        with cache.session(ids):
            assert cache.get_seq_length() == cache.loaded_tokens == 48
            loaded = model(ids[:, 48:], **{KEYWORD: cache}).logits
            kept = [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]
        other = DynamicCache(config=model.config)
        model(ids[:, :48], **{KEYWORD: other})
        assert loaded.equal(model(ids[:, 48:], **{KEYWORD: other}).logits)
    for (keys, values), layer in zip(kept, other.layers, strict=True):
        assert keys.equal(layer.keys)
        assert values.equal(layer.values)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_come_back_exactly(make: Make, tiny: Tiny, dtype: torch.dtype) -> None:
    """KV is kept in the dtype of the model."""
    model, ids = tiny().to(dtype), torch.tensor([prompt(6, 33)])
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    with torch.no_grad(), cache.session(ids):
        model(ids, **{KEYWORD: cache})
        kept = [(layer.keys[:, :, :32].clone(), layer.values[:, :, :32]) for layer in cache.layers]
    with cache.session(ids):
        for (keys, values), layer in zip(kept, cache.layers, strict=True):
            assert keys.dtype is dtype
            assert keys.equal(layer.keys)
            assert values.equal(layer.values)


def test_requests_share_what_they_have_in_common(make: Make, tiny: Tiny) -> None:
    """Two caches on one memory: the second loads the system prompt that the first computed."""
    memory, model = make("1 MiB"), tiny()
    one, other = (TieredCache(model, memory, block_tokens=16) for _ in range(2))
    tiered(one, prompt(1, 50) + prompt(2, 10))
    answer = tiered(other, prompt(1, 50) + prompt(3, 10))
    assert other.loaded_tokens == 48
    assert answer == plain(model, prompt(1, 50) + prompt(3, 10))


def test_threads_share_a_memory(make: Make, tiny: Tiny) -> None:
    """Four threads, a cache each, the same system prompt, a small arena: every answer is right."""
    memory, model = make("96 KiB", "4 MiB"), tiny()
    asked = [prompt(1, 40) + prompt(seed, 20) for seed in range(12)]
    wanted = [plain(model, ids) for ids in asked]
    wrong: list[str] = []

    def serve(mine: range) -> None:
        cache = TieredCache(model, memory, block_tokens=16)
        wrong.extend(f"{i}" for i in mine if tiered(cache, asked[i]) != wanted[i])

    threads = [threading.Thread(target=serve, args=(range(n, 12, 4),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


@pytest.mark.parametrize("policy", ["fifo", "lfu:place=waterfall/write_through=true", "s3fifo"])
def test_any_policy_serves_and_has_a_twin(make: Make, tiny: Tiny, policy: str) -> None:
    """INV-10: answers are right under each, and a fresh mind takes the same actions."""
    tape, model = Tape(), tiny()
    memory = make("64 KiB", "256 KiB", policy=policy, taps=(tape,))
    cache = TieredCache(model, memory, block_tokens=16)
    for ids in [prompt(1, 40) + prompt(seed % 4, 30) for seed in range(12)]:
        assert tiered(cache, ids, max_new_tokens=2) == plain(model, ids, max_new_tokens=2)
    assert cache.counts.loaded > 20
    memory.close()
    runtime = memory.runtime
    twin = make_policy(str(memory.policy), runtime.capacities_bytes)
    fresh = Controller(runtime.topology, runtime.capacities_bytes, twin)
    assert same_actions(tape, fresh) > 20


def test_a_later_process_finds_it(make: Make, tiny: Tiny, tmp_path: Path) -> None:
    """Closed and opened again: the prefix is loaded, the answer is the same."""
    model, ids = tiny(), prompt(1, 60)
    for turn in range(2):
        memory = make("1 MiB", "4 MiB", disk=tmp_path / "kv")
        cache = TieredCache(model, memory, block_tokens=16)
        assert tiered(cache, ids) == plain(model, ids)
        assert cache.loaded_tokens == turn * 48
        memory.close()


def test_other_models_and_layouts_are_refused_by_name(
    make: Make, tiny: Tiny, tmp_path: Path
) -> None:
    """Files of another model, dtype or block size are counted as ignored, and say whose they are;
    in a memory without an identity they are simply not found."""
    ids = prompt(1, 60)
    others = [(tiny(), 16), (tiny(seed=1), 16), (tiny(), 32), (tiny().to(torch.bfloat16), 16)]
    for number, (model, block_tokens) in enumerate(others):
        name = TieredCache.identity(model, block_tokens=block_tokens)
        memory = make("1 MiB", "8 MiB", disk=tmp_path / "kv", identity=name)
        cache = TieredCache(model, memory, block_tokens=block_tokens)
        answer = tiered(cache, ids)
        assert (answer, cache.loaded_tokens) == (plain(model, ids), 0)
        store: Any = memory.runtime.inventory.files["nvme"]
        ignored = store.report().ignored
        assert bool(ignored) == bool(number)
        if number:
            assert "LlamaForCausalLM" in str(ignored)
        memory.close()
    shared = make("4 MiB", "8 MiB", disk=tmp_path / "shared")
    for model, block_tokens in others:
        cache = TieredCache(model, shared, block_tokens=block_tokens)
        assert (tiered(cache, ids), cache.loaded_tokens) == (plain(model, ids), 0)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_fault_is_a_miss(
    make: Make, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    """With every read failing, answers stay right and hits are 0 (ai-dynamo/dynamo#15079)."""
    memory, model, ids = make("1 MiB", "4 MiB"), tiny(), prompt(1, 60)
    cache = TieredCache(model, memory, block_tokens=16)
    tiered(cache, ids)
    memory.flush()
    memory.clear("dram")
    store: Any = memory.runtime.inventory.files["nvme"]
    monkeypatch.setattr(store, "read", lambda items: [Fault(kind, "as told")] * len(items))
    assert tiered(cache, ids) == plain(model, ids)
    assert (cache.loaded_tokens, cache.counts.lost) == (0, 3)
    monkeypatch.undo()
    assert tiered(cache, ids) == plain(model, ids)


def test_sampling_takes_the_same_dice(make: Make, tiny: Tiny) -> None:
    """Nothing of ours draws random numbers."""
    memory, model, ids = make("1 MiB"), tiny(), prompt(1, 60)
    cache, options = TieredCache(model, memory, block_tokens=16), {"do_sample": True}
    found = []
    for answer in (plain, lambda _, *given, **named: tiered(cache, *given, **named)):
        torch.manual_seed(3)
        found.append(answer(model, ids, **options))
    assert found[0] == found[1]


def test_tokens_that_were_taken_back_are_not_stored(make: Make, tiny: Tiny) -> None:
    """A draft that is cropped away leaves no block behind."""
    model, ids = tiny(), torch.tensor([prompt(1, 40)])
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    with torch.no_grad(), cache.session(ids):
        model(ids, **{KEYWORD: cache})
        model(torch.tensor([prompt(2, 20)]), **{KEYWORD: cache})
        cache.crop(-25)
        assert cache.get_seq_length() == 35
    assert cache.counts.stored == 2
    assert tiered(cache, ids[0].tolist()) == plain(model, ids[0].tolist())


def test_it_is_a_cache_that_comes_and_goes(make: Make, tiny: Tiny) -> None:
    """A `Cache` of transformers; after a session it holds no KV and the model has no hook; an
    exception inside stores nothing."""
    model = tiny()
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    assert isinstance(cache, Cache)
    ids = torch.tensor([prompt(1, 60)])

    def fail() -> None:
        with cache.session(ids):
            model.generate(ids, **{KEYWORD: cache}, **NEW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (cache.get_seq_length(), cache.counts.stored) == (0, 0)
    assert not model._forward_pre_hooks
    cache.begin(ids)
    model.generate(ids, **{KEYWORD: cache}, **NEW)
    cache.begin(prompt(1, 70))  # commits what was begun
    assert cache.loaded_tokens == 48
    cache.reset()


MISUSES: dict[str, tuple[Callable[[Any, TieredCache], Any], str]] = {
    "no session": (lambda m, c: m(torch.tensor([[1, 2]]), **{KEYWORD: c}), "unknown tokens"),
    "a batch": (lambda m, c: c.begin(torch.ones(2, 5, dtype=torch.long)), "a batch of 2"),
    "nothing": (lambda m, c: c.begin([]), "at least one"),
    "no numbers": (lambda m, c: c.begin([1.5]), "float"),
    "beams": (lambda m, c: c.generate(torch.tensor([[1, 2]]), num_beams=2, **NEW), "a batch of 2"),
    "other ids": (
        lambda m, c: m(torch.tensor([[1, 9]]), **{KEYWORD: c.begin([1, 2])}),
        "other ids than session",
    ),
    "padding": (
        lambda m, c: m(
            torch.tensor([[0, 2]]),
            attention_mask=torch.tensor([[0, 1]]),
            **{KEYWORD: c.begin([0, 2])},
        ),
        "no padding",
    ),
    "positions": (
        lambda m, c: m(
            torch.tensor([[1, 2]]),
            position_ids=torch.tensor([[4, 5]]),
            **{KEYWORD: c.begin([1, 2])},
        ),
        "no position_ids",
    ),
    "embeddings": (
        lambda m, c: m(inputs_embeds=torch.ones(1, 2, 64), **{KEYWORD: c.begin([1, 2])}),
        "only embeddings",
    ),
}


@pytest.mark.parametrize("misuse", list(MISUSES))
def test_misuse_is_refused_by_name(make: Make, tiny: Tiny, misuse: str) -> None:
    """What would be keyed wrongly is an error, never a wrong block."""
    model = tiny()
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    call, said = MISUSES[misuse]
    with pytest.raises(InputError, match=said):
        call(model, cache)
    cache.reset()
    assert cache.counts.stored == 0


def test_changed_weights_are_noticed(make: Make, tiny: Tiny) -> None:
    """A model that was trained meanwhile has no KV here."""
    model = tiny()
    cache = TieredCache(model, make("1 MiB"), block_tokens=16)
    with torch.no_grad():
        model.lm_head.weight.add_(0.1)
    with pytest.raises(InputError, match="weights have changed"):
        cache.begin([1, 2, 3])
