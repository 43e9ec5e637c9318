"""Offsets: whoever enters a group goes on from where the others are."""

from tests.check.build import outcome, verdict_of

NAME = "offset-agreement"
TWO = "a multicast m g\na multicast n g\n"


def test_members_from_the_beginning_count_from_0() -> None:
    assert outcome(NAME, TWO + "a deliver m\na deliver n\nb deliver m\nb deliver n", "g:a,b") == "holds"
    verdict = verdict_of(NAME, TWO + "a deliver m\na deliver n\nb deliver n", "g:a,b", settled=False)
    assert verdict.first is not None
    assert verdict.first.why == "n has the offset 1 of g at a, and 0 at b"


def test_whoever_enters_goes_on_from_the_offset_of_the_others() -> None:
    rows = TWO + "a deliver m\nb join g offset={}\na deliver n\nb deliver n"
    assert outcome(NAME, rows.format(1), "g:a") == "holds"
    assert outcome(NAME, rows.format(0), "g:a") == "violated"


def test_a_newcomer_that_passes_by_what_was_multicast_before_it_came_is_seen_in_what_it_delivers_next() -> None:
    rows = TWO + "b join g offset=0\na deliver m\na deliver n\nb deliver n"
    assert outcome("uniform-agreement", rows, "g:a") == "holds", "it is not owed m"
    assert outcome(NAME, rows, "g:a", settled=False) == "violated"


def test_a_newcomer_that_passes_by_the_last_message_is_seen_in_the_end() -> None:
    rows = TWO + "b join g offset=0\na deliver m\nb deliver m\na deliver n"
    verdict = verdict_of(NAME, rows, "g:a")
    assert verdict.first is not None
    assert verdict.first.why == "a ends at the offset 2 of g, b at 1"
    assert outcome(NAME, rows, "g:a", settled=False) == "holds"
    assert outcome(NAME, rows + "\nb fail", "g:a") == "holds", "it may be on its way"


def test_who_comes_back_behind_a_gap_begins_where_it_says() -> None:
    rows = TWO + "a deliver m\nb leave g\nb join g offset=1\na deliver n\nb deliver n"
    assert outcome(NAME, rows, "g:a,b") == "holds"


def test_who_does_not_say_where_it_enters_does_not_count() -> None:
    rows = TWO + "a deliver m\nb join g\na deliver n\nb deliver n"
    assert outcome(NAME, rows, "g:a") == "vacuous"


def test_a_bundle_counts_as_many_as_it_has() -> None:
    rows = TWO + "a deliver m count=3\nb join g offset={}\na deliver n count=2\nb deliver n count=2"
    assert outcome(NAME, rows.format(3), "g:a") == "holds"
    assert outcome(NAME, rows.format(1), "g:a") == "violated"


def test_what_is_taken_back_gives_its_offset_to_the_next() -> None:
    rows = TWO + "a deliver m\na rollback m\na deliver n\nb deliver n"
    assert outcome(NAME, rows, "g:a,b") == "holds"
    assert outcome(NAME, rows + "\nb deliver m", "g:a,b", settled=False) == "holds", "m stands at b alone"


def test_groups_count_apart_and_a_message_to_both_counts_in_both() -> None:
    sent = "a multicast m g\na multicast n g,h\na multicast o h\n"
    rows = sent + "a deliver m\na deliver n\na deliver o\nb deliver n\nb deliver o"
    assert outcome(NAME, rows, "g:a h:a,b") == "holds"
    assert outcome(NAME, rows.replace("b deliver n\n", ""), "g:a h:a,b") == "violated"


def test_messages_to_explicit_destinations_have_no_offset() -> None:
    rows = "a multicast m destinations=a\na multicast n g\na deliver m\na deliver n\nb deliver n"
    assert outcome(NAME, rows, "g:a,b") == "holds"
