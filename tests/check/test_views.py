"""Virtual synchrony and self-inclusion."""

import pytest

from tests.check.build import outcome, verdict_of

SYNC = "virtual-synchrony"


def two_sites(of_a: str, of_b: str) -> str:
    """Both install v, deliver these messages (m/s: with service s), and install w."""
    rows = []
    for site, words in (("a", of_a), ("b", of_b)):
        rows.append(f"{site} view v members=a,b")
        for word in words.split():
            message, _, service = word.partition("/")
            rows.append(f"{site} deliver {message}" + (f" service={service}" if service else ""))
        rows.append(f"{site} view w members=a,b")
    return "\n".join(rows)


def test_the_same_messages_in_one_view_hold_in_whatever_order() -> None:
    assert outcome(SYNC, two_sites("m n", "n m")) == "holds"


def test_different_messages_in_one_view_violate() -> None:
    verdict = verdict_of(SYNC, two_sites("m n", "m"))
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("a", "b"), ("n",))
    assert verdict.first.why == "a delivers n in view v (service: none), b does not, and both install w after it"


def test_a_message_in_the_next_view_came_too_late() -> None:
    assert outcome(SYNC, two_sites("m n", "m") + "\nb deliver n") == "violated"


@pytest.mark.parametrize(
    "rows",
    [
        "",
        two_sites("", ""),
        "a view v members=a,b\na deliver m\nb view v members=a,b\nb view w members=b",  # a has not gone on
        two_sites("m", "m").replace("b view w", "b view u"),  # they went apart
        two_sites("m", "n").replace("b view w", "b view u members=b\nb view w"),  # not in a row
    ],
)
def test_without_two_sites_that_went_on_together_it_is_vacuous(rows: str) -> None:
    assert outcome(SYNC, rows) == "vacuous"


def test_each_service_is_compared_by_itself() -> None:
    assert outcome(SYNC, two_sites("m/x n/y", "m/x n/y")) == "holds"
    assert outcome(SYNC, two_sites("m/x n/y", "m/y n/x")) == "violated"


def test_a_service_that_only_one_of_the_two_uses_is_not_compared() -> None:
    assert outcome(SYNC, two_sites("m/x", "n/y")) == "vacuous"
    assert outcome(SYNC, two_sites("m/x", "") + "\nb activate y") == "vacuous"
    assert outcome(SYNC, two_sites("m/x", "") + "\nb deliver n service=x") == "violated"
    assert outcome(SYNC, two_sites("m/x", "") + "\nb activate x") == "violated"


def test_whoever_delivers_nothing_and_names_no_service_is_accused() -> None:
    verdict = verdict_of(SYNC, two_sites("m/x", ""))
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("a", "b"), ("m",))
    assert outcome(SYNC, two_sites("m", "")) == "violated"


def test_a_view_of_everything_obliges_nobody_to_deliver_what_is_not_addressed_to_it() -> None:
    sent = "a multicast m g\na multicast n h\n"
    assert outcome(SYNC, sent + two_sites("m n", "n"), "g:a h:a,b") == "holds"
    assert outcome(SYNC, sent + two_sites("m n", "m"), "g:a h:a,b") == "violated"
    assert outcome(SYNC, sent + two_sites("m", ""), "g:a h:a,b") == "vacuous"


def test_what_was_delivered_before_an_activation_does_not_count() -> None:
    begin = "a view v members=a,b\nb view v members=a,b\n"
    end = "a view w members=a,b\nb view w members=a,b\n"
    # b has m by another service, and never got k.
    before = begin + "a deliver k service=x\na deliver m service=x\nb deliver m service=y\nb activate x\n"
    assert outcome(SYNC, before + end) == "vacuous"
    assert outcome(SYNC, before + "a deliver n service=x\nb deliver n service=x\n" + end) == "holds"
    verdict = verdict_of(SYNC, before + "a deliver n service=x\n" + end)
    assert [witness.messages for witness in verdict.all_witnesses] == [("n",)]


def test_what_precedes_the_first_message_after_an_activation_at_its_source_does_not_count() -> None:
    sent = "c multicast k g\nc multicast m g\nc multicast n g\n"
    begin = "a view v members=a,b\nb view v members=a,b\nb activate x\n"
    end = "a view w members=a,b\nb view w members=a,b\n"
    # a is slow: it delivers k when b has chosen the service already, from m on.
    delivered = "a deliver k service=x\na deliver m service=x\na deliver n service=x\nb deliver m service=x\n"
    assert outcome(SYNC, begin + sent + delivered + "b deliver n service=x\n" + end) == "holds"
    verdict = verdict_of(SYNC, begin + sent + delivered + end)
    assert [witness.messages for witness in verdict.all_witnesses] == [("n",)]


def test_an_activation_for_a_source_counts_for_its_messages_only() -> None:
    sent = "a multicast m g\nc multicast n g\n"
    begin = "a view v members=a,b\nb view v members=a,b\na deliver m service=x\na deliver n service=x\n"
    end = "b deliver k service=x\na deliver k service=x\na view w members=a,b\nb view w members=a,b\n"
    verdict = verdict_of(SYNC, sent + begin + "b activate x source=a\n" + end)
    assert [witness.messages for witness in verdict.all_witnesses] == [("n",)]
    assert outcome(SYNC, sent + begin + "b activate x\n" + end) == "holds"


def in_group(of_a: str, of_b: str, group: str = "g") -> str:
    return two_sites(of_a, of_b).replace("members=a,b", f"members=a,b groups={group}")


TWO_GROUPS = "a multicast m g\na multicast n h\n"


def test_views_count_for_the_messages_of_their_group() -> None:
    groups = "g:a,b h:a,b"
    assert outcome(SYNC, TWO_GROUPS + in_group("m n", "m"), groups) == "holds"
    assert outcome(SYNC, TWO_GROUPS + in_group("m n", "m", "h"), groups) == "violated"
    assert outcome(SYNC, TWO_GROUPS + in_group("m n", "m", "g,h"), groups) == "violated"
    assert outcome(SYNC, TWO_GROUPS + in_group("m", "m", "h"), groups) == "vacuous"


def test_the_views_of_another_group_between_do_not_matter() -> None:
    between = TWO_GROUPS + in_group("m", "m").replace("a deliver m", "a view u members=a groups=h\na deliver m")
    assert outcome(SYNC, between, "g:a,b h:a,b") == "holds"
    assert outcome(SYNC, between.replace("b deliver m\n", ""), "g:a,b h:a,b") == "violated"
    # Both groups call their views v and w.
    both = two_sites("m", "").replace("a view v members=a,b", "a view v members=a,b groups=g")
    both = both.replace("a view w members=a,b", "a view w members=a,b groups=g").replace("=a,b\n", "=a,b groups=h\n")
    assert outcome(SYNC, TWO_GROUPS + both, "g:a,b h:a,b") == "vacuous"


def test_a_receiver_outside_the_members_is_compared_once_it_has_joined_and_until_it_leaves() -> None:
    rows = "a multicast m g\n" + in_group("m", "").replace("members=a,b", "members=a")
    assert outcome(SYNC, rows, "g:a") == "vacuous"
    assert outcome(SYNC, "b join g\n" + rows, "g:a") == "violated"
    assert outcome(SYNC, rows, "g:a,b") == "violated"
    assert outcome(SYNC, rows.replace("b view w", "b leave g\nb view w"), "g:a,b") == "vacuous"
    assert outcome(SYNC, rows.replace("b view w", "b leave g\nb join g\nb view w"), "g:a,b") == "vacuous"


def test_what_another_service_has_delivered_is_no_longer_owed_where_only_one_counts() -> None:
    begin = "a view v members=a,b\nb view v members=a,b\n"
    end = "a deliver m service=x\na view w members=a,b\nb view w members=a,b"
    before = begin + "a multicast m g\nb deliver m service=y\nb activate x\n" + end
    assert outcome(SYNC, before, services={"x": [SYNC]}) == "vacuous"
    after = begin + "b activate x\na multicast m g\n" + end
    assert outcome(SYNC, after, services={"x": [SYNC]}) == "violated"


def test_what_began_before_an_activation_is_not_owed_though_others_deliver_it_later() -> None:
    begin = "a multicast m g\na view v members=a,b\nb view v members=a,b\nb activate x\n"
    end = "a deliver m service=x\na view w members=a,b\nb view w members=a,b"
    assert outcome(SYNC, begin + end, services={"x": [SYNC]}) == "vacuous"


SELF = "self-inclusion"


def test_a_sender_in_its_own_view_holds() -> None:
    assert outcome(SELF, "a view v members=a,b\na multicast m g") == "holds"


def test_a_sender_outside_its_own_view_violates() -> None:
    verdict = verdict_of(SELF, "a view v members=b\na multicast m g")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.sites == ("a",)
    assert verdict.first.why == "a multicasts in the view v, of which it is no member"


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "a view v members=b",
        "a multicast m g\na view v members=b",
        "a view v members=b\nb multicast m g",
    ],
)
def test_a_view_in_which_nothing_is_sent_is_no_obligation(rows: str) -> None:
    assert outcome(SELF, rows) == "vacuous"


def test_only_the_latest_view_counts() -> None:
    assert outcome(SELF, "a view v members=b\na view w members=a\na multicast m g") == "holds"


def test_a_sender_needs_to_be_in_its_view_of_the_group_that_it_sends_to() -> None:
    rows = "a view v members=b groups=g\na view w members=a groups=h\na multicast m {}"
    assert outcome(SELF, rows.format("g")) == "violated"
    assert outcome(SELF, rows.format("h")) == "holds"
    assert outcome(SELF, rows.format("g,h")) == "violated"
    assert outcome(SELF, rows.format("k")) == "vacuous"
    assert outcome(SELF, rows.format("destinations=b")) == "vacuous"


def test_a_multicast_through_a_proxy_makes_nobody_a_sender() -> None:
    rows = "a view v members=b groups=g\na multicast m g service=proxy"
    assert outcome(SELF, rows) == "vacuous"
    assert outcome(SELF, rows + "\na multicast n g") == "violated"


def test_whoever_has_left_a_group_has_no_view_of_it() -> None:
    rows = "a view v members=b groups=g\na leave g\n"
    assert outcome(SELF, rows + "a multicast m g") == "vacuous"
    assert outcome(SELF, rows + "a join g\na multicast m g") == "vacuous"
    assert outcome(SELF, rows.replace("leave g", "leave h") + "a multicast m g") == "violated"


ALONG = "transitional-set"
TOGETHER = (
    "a view v members=a,b groups=g\nb view v members=a,b groups=g\nc view u members=c groups=g\n"
    "a view w members=a,b,c groups=g transitional=a,b\nb view w members=a,b,c groups=g transitional=a,b\n"
    "c view w members=a,b,c groups=g transitional=c\n"
)


def test_those_who_come_from_the_same_view_are_the_transitional_set() -> None:
    assert outcome(ALONG, TOGETHER) == "holds"


@pytest.mark.parametrize("wrong", ["a", "a,b,c", "", "a,b,d"])
def test_a_transitional_set_with_too_few_or_too_many_violates(wrong: str) -> None:
    verdict = verdict_of(ALONG, TOGETHER.replace("transitional=a,b\nb", f"transitional={wrong}\nb"))
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.sites == ("a",)
    assert "installs the view w" in verdict.first.why


def test_a_first_view_has_nobody_to_come_along_with() -> None:
    assert outcome(ALONG, "a view v members=a,b groups=g transitional=a,b") == "vacuous"
    assert outcome(ALONG, "a view v members=a,b groups=g\na view w members=a,b groups=h transitional=a,b") == "vacuous"
    left = "a view v members=a groups=g\na leave g\na join g\na view w members=a groups=g transitional=a"
    assert outcome(ALONG, left) == "vacuous"


def test_whether_a_member_that_never_installs_the_view_comes_along_is_open() -> None:
    rows = TOGETHER.replace("b view w members=a,b,c groups=g transitional=a,b\n", "b fail\n")
    assert outcome(ALONG, rows) == "holds"
    assert outcome(ALONG, rows.replace("transitional=a,b", "transitional=a")) == "holds"


LAST = "view-agreement"
SAME = "a view v members=a,b groups=g\nb view v members=a,b groups=g\n"


def test_the_same_last_view_holds() -> None:
    assert outcome(LAST, SAME, "g:a,b") == "holds"
    assert outcome(LAST, SAME, "g:a,b", settled=False) == "not-judged"


@pytest.mark.parametrize(
    "more",
    [
        "b view w members=a,b groups=g",  # only one has gone on
        "a view w members=a,b groups=g\nb view w members=b groups=g",  # the same name for two
        "c join g",  # joined, without a view
        "b fail",  # a member that is down
        "b leave g",  # a member that is gone
    ],
)
def test_a_different_last_view_or_an_absent_member_violates(more: str) -> None:
    verdict = verdict_of(LAST, SAME + more, "g:a,b")
    assert verdict.verdict == "violated"


def test_whoever_is_down_or_gone_needs_no_last_view() -> None:
    gone_on = SAME + "{}\na view w members=a groups=g"
    assert outcome(LAST, gone_on.format("b fail"), "g:a,b") == "holds"
    assert outcome(LAST, gone_on.format("b leave g"), "g:a,b") == "holds"
    assert outcome(LAST, gone_on.format("b fail\nb recover"), "g:a,b") == "violated"
    assert outcome(LAST, gone_on.format("b leave g\nb join g"), "g:a,b") == "violated"


def test_views_of_two_groups_are_not_held_against_each_other() -> None:
    assert outcome(LAST, "a view v members=a groups=g\nb view w members=b groups=h", "g:a h:b") == "holds"
    assert outcome(LAST, "a view v members=a\nb view w members=b", "g:a,b") == "vacuous"
