"""The shipped models, each against literals worked from its geometry; files that contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiermem import shipped
from tiermem.errors import InputError
from tiermem.models.presets import llm

LLMS = shipped.folder("models") / "llms"

KV_BYTES_PER_TOKEN = {
    "bloom-176b": 4_014_080,  # 2 x 70 x 112 x 128 x 2
    "deepseek-v3": 70_272,  # 61 x (512 + 64) x 2
    "gpt3-175b": 4_718_592,  # 2 x 96 x 96 x 128 x 2
    "kimi-k2": 70_272,  # 61 x (512 + 64) x 2
    "llama-2-13b": 819_200,  # 2 x 40 x 40 x 128 x 2
    "llama-2-70b": 327_680,  # 2 x 80 x 8 x 128 x 2
    "llama-2-7b": 524_288,  # 2 x 32 x 32 x 128 x 2
    "llama-3.1-405b": 516_096,  # 2 x 126 x 8 x 128 x 2
    "llama-3.1-70b": 327_680,  # 2 x 80 x 8 x 128 x 2
    "llama-3.1-8b": 131_072,  # 2 x 32 x 8 x 128 x 2
    "mixtral-8x22b": 229_376,  # 2 x 56 x 8 x 128 x 2
    "mixtral-8x7b": 131_072,  # 2 x 32 x 8 x 128 x 2
    "opt-13b": 819_200,  # 2 x 40 x 40 x 128 x 2
    "opt-175b": 4_718_592,  # 2 x 96 x 96 x 128 x 2
    "opt-30b": 1_376_256,  # 2 x 48 x 56 x 128 x 2
    "opt-6.7b": 524_288,  # 2 x 32 x 32 x 128 x 2
    "opt-66b": 2_359_296,  # 2 x 64 x 72 x 128 x 2
    "qwen2.5-72b": 327_680,  # 2 x 80 x 8 x 128 x 2
    "qwen3-235b-a22b": 192_512,  # 2 x 94 x 4 x 128 x 2
    "qwen3-30b-a3b": 98_304,  # 2 x 48 x 4 x 128 x 2
    "qwen3-32b": 262_144,  # 2 x 64 x 8 x 128 x 2
    "qwen3-4b": 147_456,  # 2 x 36 x 8 x 128 x 2; not hidden / heads = 80
    "smollm2-135m": 23_040,  # 2 x 30 x 3 x 64 x 2
    "smollm2-135m-f32": 46_080,
}
# Published sizes in billions: total, and active where it differs.
PUBLISHED = {
    "llama-2-70b": (69.0, 69.0),
    "llama-3.1-405b": (405.9, 405.9),
    "llama-3.1-70b": (70.6, 70.6),
    "llama-3.1-8b": (8.03, 8.03),
    "mixtral-8x7b": (46.7, 12.9),
    "mixtral-8x22b": (140.6, 39.2),
    "qwen3-235b-a22b": (235.0, 22.0),
    "qwen3-30b-a3b": (30.5, 3.35),
    "qwen3-4b": (4.02, 4.02),
    "deepseek-v3": (671.0, 37.5),
}


def test_every_shipped_model_has_its_expected_cache_size() -> None:
    """Bytes a token, exact, for each model that ships (known fault 136)."""
    found = {path.stem: llm(path.stem).kv_bytes_per_token for path in LLMS.glob("*.toml")}
    assert found == KV_BYTES_PER_TOKEN


@pytest.mark.parametrize(("name", "sizes"), PUBLISHED.items())
def test_parameters_come_out_as_published(name: str, sizes: tuple[float, float]) -> None:
    """Parameters computed from the shapes agree with what the makers say, to one percent."""
    model = llm(name)
    assert model.params_total / 1e9 == pytest.approx(sizes[0], rel=0.01)
    assert model.params_active / 1e9 == pytest.approx(sizes[1], rel=0.01)


def test_exact_sizes_of_three_models() -> None:
    """To the parameter: Llama-3.1-8B, Llama-2-70B, and DeepSeek-V3 at one byte a parameter."""
    eight = llm("llama-3.1-8b")
    assert (eight.params_total, eight.weight_bytes) == (8_030_261_248, 16_060_522_496)
    # Everything but norms (65 x 4096) and the input table (128256 x 4096), twice.
    assert eight.linear_flops_per_token == 2 * (8_030_261_248 - 266_240 - 525_336_576)
    assert llm("llama-2-70b").params_total == 68_976_648_192
    deep = llm("deepseek-v3")
    assert deep.params_total == deep.weight_bytes == 671_026_419_200


def test_latent_attention_is_far_below_its_heads() -> None:
    """DeepSeek-V3 caches 57 times less than 128 heads of 128 keys and values would."""
    assert 61 * 2 * 128 * 128 * 2 / llm("deepseek-v3").kv_bytes_per_token == pytest.approx(
        56.9, 0.01
    )


def edited(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of a shipped model with some text replaced, its sources dropped."""
    text = (LLMS / f"{name}.toml").read_text().split("[source.model]")[0]
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("llama-3.1-8b", ("head_dim = 128\n", ""), r":3: model.head_dim: is missing"),
        ("llama-3.1-8b", ("kv_heads = 8", "kv_heads = 5"), r":7: .*5 does not divide heads = 32"),
        ("llama-3.1-8b", ("ffn = 14336\n", ""), r":3: model.ffn: is missing"),
        ("mixtral-8x7b", ("active = 2", "active = 9"), r"experts.active: more than count = 8"),
        ("mixtral-8x7b", ("dense_layers = 0", "dense_layers = 1"), r"model.ffn: is missing"),
        ("mixtral-8x7b", ("dense_layers = 0", "dense_layers = 32"), r"must be under layers = 32"),
        ("mixtral-8x7b", ("ffn_gated", "ffn = 1\nffn_gated"), r"model.ffn: no layer is dense"),
        ("deepseek-v3", ("heads = 128", "heads = 128\nkv_heads = 8"), r"nothing beside \[latent\]"),
        ("llama-3.1-8b", ("vocab", "sliding_window = 128\nvocab"), r":11: unknown key 'sliding_w"),
    ],
)
def test_contradictions_are_refused(
    tmp_path: Path, name: str, change: tuple[str, str], message: str
) -> None:
    """What the cache size hangs on is asked for, and shapes that do not fit are named by line."""
    with pytest.raises(InputError, match=message):
        llm(edited(tmp_path, name, change))


def test_a_model_of_ones_own_needs_no_sources(tmp_path: Path) -> None:
    """A file by path, without provenance, loads under its own name with the same geometry."""
    model = llm(edited(tmp_path, "qwen3-4b"))
    assert model.name == "mine"
    assert model.kv_bytes_per_token == KV_BYTES_PER_TOKEN["qwen3-4b"]
