"""SCALATOM, scalable atomic multicast (Rodrigues, Guerraoui, Schiper 1998). See README.md beside this file."""

from ordercast.protocols.scalatom.options import ScalatomOptions
from ordercast.protocols.scalatom.protocol import Scalatom

__all__ = ["Scalatom", "ScalatomOptions"]
