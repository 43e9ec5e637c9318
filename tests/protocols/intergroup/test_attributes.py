"""What is on the way of every packet keeps its attributes where Python 3.11 finds them quickly: at most 29 in an
object, or in slots."""

from __future__ import annotations

from random import Random

from ordercast.core import Context
from ordercast.core.events import Started
from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.membership.options import MembershipOptions
from tests.support import find_crowded


def test_what_is_on_the_way_of_every_packet_has_few_attributes() -> None:
    core = DynamicInterGroup(Context("a", {"g": ("a", "b")}, ("a", "b"), MembershipOptions(), Random(1)))
    core.step(0.0, Started())
    group = core.process_groups["g"]
    member = group.member
    assert member is not None
    on_the_way = (core, group, group.sending, member, member.order, member.detector, core.reception, core.transmission)
    assert find_crowded(*on_the_way) == {}
