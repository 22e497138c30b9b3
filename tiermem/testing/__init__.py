"""The public kit: bodies that do as they are told, an adversary, suites to inherit."""

from tiermem.testing.executors import InstantExecutor as InstantExecutor
from tiermem.testing.executors import ScriptedExecutor as ScriptedExecutor
