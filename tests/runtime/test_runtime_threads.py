"""The runtime among threads and forks: one history, and a child is told at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tiermem.core.chosen import make_policy
from tiermem.core.controller import Controller
from tiermem.errors import RuntimeFault
from tiermem.testing.twin import same_actions


def test_a_fork_is_refused(world: Callable[..., Any]) -> None:
    """Threads do not survive it: the child is told at once instead of waiting for ever."""
    small = world()
    small.put(1)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            small.get(1)
            said = "nothing"
        except RuntimeFault as error:
            said = str(error)
        small.runtime.close()
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(read, 1000)
    assert small.get(1), "the parent goes on"
    os.close(read)
    os.close(write)


def test_many_threads_one_history(world: Callable[..., Any]) -> None:
    """Eight threads put, get and delete; every byte seen is right, and INV-10 holds after."""
    small = world(pages=32, files_bytes=1 << 22)
    errors: list[BaseException] = []
    stop = time.monotonic() + 3

    def work(seed: int) -> None:
        dice = np.random.default_rng(seed)
        try:
            while time.monotonic() < stop:
                name = int(dice.integers(0, 60))
                match int(dice.integers(0, 6)):
                    case 0 | 1 | 2:
                        small.put(name, 3000)
                    case 3 | 4:
                        small.get(name, 3000)
                    case 5:
                        small.runtime.hint([small.block(name, 3000)])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    runtime = small.runtime
    runtime.close(flush=False)
    fresh = Controller(
        runtime.topology, runtime.capacities_bytes, make_policy("lru", runtime.capacities_bytes)
    )
    assert same_actions(small.tape, fresh) > 0
