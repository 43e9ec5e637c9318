"""The fan: Protocols 0 to 3 of Spauster 1991, chapter 6.4. See README.md beside this file."""

from ordercast.protocols.fan.protocol0 import Fan0
from ordercast.protocols.fan.protocol1 import Fan1, FanOptions
from ordercast.protocols.fan.protocol2 import Fan2
from ordercast.protocols.fan.protocol3 import Fan3

__all__ = ["Fan0", "Fan1", "Fan2", "Fan3", "FanOptions"]
