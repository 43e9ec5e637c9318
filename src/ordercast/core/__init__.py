"""The core: identifiers, events, effects and the contract that every protocol fulfils. No input or output here."""

from ordercast.core.arrangement import Arrangement, Capacity, OptionValues, Situation, Tuning, no_options
from ordercast.core.clocks import HybridClock, LamportClock
from ordercast.core.contract import (
    CRASH_FAULTS,
    EVERY_FAULT,
    NETWORK_FAULTS,
    TOTAL_ORDER,
    AtRest,
    Bounds,
    Contract,
    Options,
    Renamed,
    is_liveness,
    times,
)
from ordercast.core.errors import InvariantViolation, OrdercastError, RenamedOption, StorageError, UsageError, WireError
from ordercast.core.identifiers import (
    MAIN_INSTANCE,
    ChannelId,
    GroupId,
    InstanceId,
    MessageId,
    Multicast,
    Payload,
    SiteId,
)
from ordercast.core.intervals import IntervalSet, missing_intervals
from ordercast.core.memo import Address, AddressMemo
from ordercast.core.packets import Packet, Record, encode, encoded_size
from ordercast.core.part import Part
from ordercast.core.protocol import LATER, PROXY, Context, Protocol
from ordercast.core.randomness import log_uniform, random_stream

__all__ = [
    "CRASH_FAULTS",
    "EVERY_FAULT",
    "LATER",
    "MAIN_INSTANCE",
    "NETWORK_FAULTS",
    "PROXY",
    "TOTAL_ORDER",
    "Address",
    "AddressMemo",
    "Arrangement",
    "AtRest",
    "Bounds",
    "Capacity",
    "ChannelId",
    "Context",
    "Contract",
    "GroupId",
    "HybridClock",
    "InstanceId",
    "IntervalSet",
    "InvariantViolation",
    "LamportClock",
    "MessageId",
    "Multicast",
    "OptionValues",
    "Options",
    "OrdercastError",
    "Packet",
    "Part",
    "Payload",
    "Protocol",
    "Record",
    "Renamed",
    "RenamedOption",
    "SiteId",
    "Situation",
    "StorageError",
    "Tuning",
    "UsageError",
    "WireError",
    "encode",
    "encoded_size",
    "is_liveness",
    "log_uniform",
    "missing_intervals",
    "no_options",
    "random_stream",
    "times",
]
