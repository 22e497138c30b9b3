"""A scenario is a trace, a machine, a model and a policy; `simulate` plays it in virtual time."""

from tiermem.core.chosen import make_policy as make_policy
from tiermem.scenario.simulation import Run as Run
from tiermem.scenario.simulation import Scenario as Scenario
from tiermem.scenario.simulation import Simulation as Simulation
from tiermem.scenario.simulation import capacities_for_kv as capacities_for_kv
from tiermem.scenario.simulation import simulate as simulate
