"""One rule says to which addresses a protocol can multicast."""

from __future__ import annotations

import pytest

from ordercast.core import Address, Contract, UsageError
from ordercast.core.address import check_address

GROUPS = {"g": ("a", "b"), "h": ("b", "c")}
SITES = ("a", "b", "c")


def contract(several_groups: bool, explicit_destinations: bool) -> Contract:
    return Contract(
        "plain", "", "", (), (), "", (), several_groups=several_groups, explicit_destinations=explicit_destinations
    )


ABLE, PLAIN = contract(True, True), contract(False, False)


@pytest.mark.parametrize("address", [(("g",), None), (("g", "h"), None), ((), ("c",)), ((), ("a", "b", "c"))])
def test_what_is_there_and_what_the_protocol_can_do_is_taken(address: Address) -> None:
    check_address(ABLE, GROUPS, SITES, address)


@pytest.mark.parametrize(
    ("claims", "address", "complaint"),
    [
        (ABLE, ((), None), "a multicast needs at least one group"),
        (ABLE, ((), ()), "a multicast needs at least one destination"),
        (ABLE, (("g", "x"), None), "there is no group 'x'; known: g, h"),
        (ABLE, ((), ("a", "x")), "there is no site 'x'"),
        (ABLE, (("x",), ("a",)), "there is no group 'x'; known: g, h"),
        (PLAIN, (("g", "h"), None), "plain multicasts to one group at a time, not to g, h"),
        (PLAIN, ((), ("a",)), "plain addresses groups, not single sites"),
    ],
)
def test_anything_else_is_refused_with_the_reason(claims: Contract, address: Address, complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_address(claims, GROUPS, SITES, address)
    assert str(refused.value) == complaint


def test_where_groups_come_and_go_one_that_has_ended_can_be_made_again() -> None:
    changing = Contract("plain", "", "", (), (), "", (), dynamic=True)
    with pytest.raises(UsageError, match=r"^there is no group 'g'; known: none; whoever joins it first makes it$"):
        check_address(changing, {}, SITES, (("g",), None))


def test_the_caller_chooses_the_word_for_a_site() -> None:
    with pytest.raises(UsageError, match=r"^there is no process 'x'$"):
        check_address(ABLE, GROUPS, SITES, ((), ("x",)), "process")
    with pytest.raises(UsageError, match=r"not single processes$"):
        check_address(PLAIN, GROUPS, SITES, ((), ("a",)), "process")
