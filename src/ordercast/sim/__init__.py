"""The simulator: the same protocols in simulated time, on simulated networks, under faults, from a seed."""

from ordercast.sim.faults import FAULT_KINDS, AnyFault
from ordercast.sim.simulation import Simulation
from ordercast.sim.workload import Workload

__all__ = ["FAULT_KINDS", "AnyFault", "Simulation", "Workload"]
