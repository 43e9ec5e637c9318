"""A simulated site: a clock, a processor, a disk, timers, an application, and the driver that holds them together."""

from ordercast.sim.site.site import SimulatedSite

__all__ = ["SimulatedSite"]
