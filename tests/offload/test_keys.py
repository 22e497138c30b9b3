"""Keys: the same for the same content in any process, another for anything else."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys

import pytest

from tiermem.offload.keys import KEY_BYTES, KvLayout, prefix_keys

LAYOUT = KvLayout(
    model="Llama 0123456789abcdef",
    layers=30,
    kv_heads=3,
    head_dim=64,
    dtype="bfloat16",
    element_bytes=2,
    block_tokens=64,
    positions='{"rope_theta": 100000.0}',
)
OTHERS = {
    "model": "Llama 0123456789abcdee",
    "layers": 31,
    "kv_heads": 4,
    "head_dim": 32,
    "dtype": "float16",
    "element_bytes": 4,
    "block_tokens": 32,
    "positions": '{"rope_theta": 10000.0}',
    "codec": "int8",
}


def test_known_content_has_known_keys() -> None:
    """Written down once: a change of these bytes makes every stored cache cold, and needs a new
    SCHEME."""
    assert LAYOUT.seed.hex() == "5a86de9ed2aab472e47c3cbf50e5ae8f"
    assert [key.hex() for key in prefix_keys(LAYOUT.seed, range(8), 3)] == [
        "4cb4d17b3c8b8d66d15025aa99cefc69",
        "32067eab94e45c19f3b1dc4540efb3f4",
    ]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_keys_do_not_depend_on_the_process(hash_seed: str) -> None:
    """Another interpreter with another hash seed finds the same keys (LMCache #2979)."""
    code = (
        "from tiermem.offload.keys import KvLayout, prefix_keys; import ast, sys;"
        "layout = KvLayout(**ast.literal_eval(sys.argv[1]));"
        "print(*[key.hex() for key in prefix_keys(layout.seed, range(1000), 64)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ended = subprocess.run(
        [sys.executable, "-c", code, repr(dataclasses.asdict(LAYOUT))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.split() == [k.hex() for k in prefix_keys(LAYOUT.seed, range(1000), 64)]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(KvLayout)])
def test_every_part_of_a_layout_changes_its_keys(field: str) -> None:
    """Another model, shape, dtype, block size, position encoding or codec shares no key and no
    file with this one."""
    other = dataclasses.replace(LAYOUT, **{field: OTHERS[field]})
    assert other.seed != LAYOUT.seed
    assert other.identity != LAYOUT.identity
    assert not set(prefix_keys(other.seed, range(99), 9)) & set(
        prefix_keys(LAYOUT.seed, range(99), 9)
    )


def test_a_key_names_a_whole_prefix() -> None:
    """Keys agree up to the first token that differs and never after; a tail has none."""
    dice = random.Random(3)
    for _ in range(200):
        block = dice.randint(1, 7)
        one = [dice.randrange(50_000) for _ in range(dice.randint(0, 40))]
        keys = prefix_keys(LAYOUT.seed, one, block)
        assert len(keys) == len(one) // block
        assert {len(key) for key in keys} <= {KEY_BYTES}
        if one:
            changed = dice.randrange(len(one))
            other = [*one[:changed], one[changed] + 1, *one[changed + 1 :]]
            same = changed // block
            others = prefix_keys(LAYOUT.seed, other, block)
            assert others[:same] == keys[:same]
            assert not set(others[same:]) & set(keys[same:])


def test_equal_blocks_in_other_places_are_other_blocks() -> None:
    """The same sixteen tokens twice are two blocks: their positions and pasts differ."""
    first, second = prefix_keys(LAYOUT.seed, [7] * 32, 16)
    assert first != second


def test_a_chain_can_be_continued() -> None:
    """The last key of a prefix stands for all of it."""
    keys = prefix_keys(LAYOUT.seed, range(64), 16)
    assert prefix_keys(keys[1], range(32, 64), 16) == keys[2:]


def test_a_block_has_the_bytes_of_its_elements() -> None:
    """30 layers, keys and values, 3 heads, 64 tokens, 64 wide, 2 bytes each."""
    assert LAYOUT.shape == (30, 2, 3, 64, 64)
    assert LAYOUT.block_bytes == 30 * 2 * 3 * 64 * 64 * 2
