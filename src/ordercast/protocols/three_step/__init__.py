"""Three steps: genuine total order that goes on without its leader. See README.md beside this file."""

from ordercast.protocols.three_step.options import ThreeStepOptions
from ordercast.protocols.three_step.protocol import ThreeStep

__all__ = ["ThreeStep", "ThreeStepOptions"]
