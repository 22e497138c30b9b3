"""The contract of the runtime: lines that no single room can show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.offload.memory import TieredMemory
from tiermem.testing.twin import Tape, same_actions

POLICY = '''
from collections import OrderedDict


class Stack:
    """The newest goes first."""

    def __init__(self, capacity):
        self.blocks = OrderedDict()

    def insert(self, block, size):
        self.blocks[block] = size

    def touch(self, block):
        pass

    def remove(self, block):
        del self.blocks[block]

    def victims(self):
        return iter(list(reversed(self.blocks)))
'''

RUN = """
import sys, torch, transformers
from tiermem.offload.cache import TieredCache
from tiermem.offload.memory import TieredMemory
from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.testing.twin import Tape, same_actions

config = transformers.LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256,
)
torch.manual_seed(1)
model = transformers.LlamaForCausalLM(config).eval()
tape = Tape()
memory = TieredMemory(
    "64 KiB", sys.argv[1], "16 MiB", policy="newest", taps=[tape],
    identity=TieredCache.identity(model, block_tokens=16, name="tiny"),
)
cache = TieredCache(model, memory, block_tokens=16, name="tiny")
for turn in range(16):
    dice = torch.Generator().manual_seed(turn % 9)
    ids = torch.randint(0, 64, (1, 40 + 16 * (turn % 8)), generator=dice)
    plain = model.generate(ids, max_new_tokens=8, do_sample=False)
    assert torch.equal(cache.generate(ids, max_new_tokens=8, do_sample=False), plain)
runtime = memory.runtime
policy = type(runtime.policy.evict("dram")).__name__
topology, sizes = runtime.topology, runtime.capacities_bytes
memory.close()
fresh = Controller(topology, sizes, make_policy(memory.policy, sizes))
print(policy, same_actions(tape, fresh))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of somebody else, installed beside tiermem, that names a policy."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "their_policies.py").write_text(POLICY)
    installed = folder / "their_policies-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-policies\nVersion: 1.0\n"
    )
    (installed / "entry_points.txt").write_text("[tiermem.evict]\nnewest = their_policies:Stack\n")
    return folder


def run(site: Path, *arguments: str) -> str:
    """A process in which the package is installed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_8_an_installed_policy_runs_in_hits(site: Path) -> None:
    """It is listed, and counted beside ours."""
    told = run(
        site, "-m", "tiermem", "hits", "synthetic-chat", "--policy", "newest", "--capacity", "500"
    )
    assert "newest" in told


def test_8_an_installed_policy_runs_in_simulate(site: Path) -> None:
    """A run under it ends, and is called by its name."""
    command = ["-m", "tiermem", "simulate", "synthetic-chat", "--policy", "newest"]
    machine = ["--system", "h100-share-ddr5-cxl-nvme", "--llm", "llama-3.1-8b"]
    run(site, *command, *machine, "--out", "out")
    assert "newest" in (site / "out" / "results.json").read_text()


def test_8_an_installed_policy_runs_in_a_cache_and_has_a_twin(site: Path, tmp_path: Path) -> None:
    """INV-10: the tokens are those of the plain cache, and a fresh core answers the tape alike."""
    name, compared = run(site, "-c", RUN, str(tmp_path / "blocks")).split()
    assert name == "Stack"
    assert int(compared) > 20


@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu", "s3fifo"])
def test_8_every_built_in_policy_has_a_twin(policy: str, tmp_path: Path) -> None:
    """INV-10 with real tensors on real tiers."""
    tape = Tape()
    memory = TieredMemory("256 KiB", tmp_path, "32 MiB", policy=policy, taps=[tape])
    held = [memory.put(torch.full((50_000,), index, dtype=torch.uint8)) for index in range(20)]
    for index in (3, 19, 0, 3, 7, 3, 12, 0):
        assert int(memory.get(held[index])[-1]) == index
    runtime = memory.runtime
    topology, sizes = runtime.topology, runtime.capacities_bytes
    memory.close()
    assert (
        same_actions(tape, Controller(topology, sizes, make_policy(str(memory.policy), sizes))) > 40
    )


def test_the_store_and_the_main_job_need_no_torch() -> None:
    """Whatever is installed: none of these imports pulls torch, kvikio or nixl in."""
    names = (
        "tiermem, tiermem.runtime.runtime, tiermem.runtime.file.store, tiermem.runtime.io.choose"
    )
    script = f"import sys, {names}; print(sorted(set(sys.modules) & {{'torch', 'kvikio', 'nixl'}}))"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "[]"
