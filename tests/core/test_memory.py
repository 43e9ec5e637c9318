"""A site that comes back with less than others have heard of is noticed, and nobody else."""

from ordercast.core.memory import Memory


def remembering(position: int, incarnation: int = 0, boot: bytes = b"first") -> Memory:
    """One that has met a in a life, and heard of a position then."""
    memory = Memory()
    memory.meet("a", 0, incarnation, boot=boot)
    memory.note("a", position)
    return memory


def test_a_site_of_which_nothing_was_heard_is_welcome() -> None:
    assert Memory().judge("a", 0) is None


def test_a_log_that_ends_before_what_was_heard_is_refused_and_the_line_has_both_numbers() -> None:
    reason = remembering(512).judge("a", 300, incarnation=1)
    assert reason is not None
    assert "300 records" in reason
    assert "512" in reason
    assert "lost" in reason


def test_a_log_that_ends_where_it_was_heard_or_later_is_welcome() -> None:
    memory = remembering(512)
    assert memory.judge("a", 512, incarnation=1) is None
    assert memory.judge("a", 600, incarnation=1) is None


def test_a_lower_position_changes_nothing() -> None:
    memory = remembering(512)
    memory.note("a", 300)
    assert memory.heard == {"a": 512}


def test_a_life_that_was_met_is_not_judged_by_where_it_began() -> None:
    memory = remembering(512, incarnation=3, boot=b"this")
    assert memory.judge("a", 300, incarnation=3, boot=b"this") is None
    assert memory.judge("a", 300, incarnation=3, boot=b"that") is not None


def test_what_was_heard_before_a_repair_does_not_count() -> None:
    memory = remembering(512, incarnation=3)
    assert memory.judge("a", 0, incarnation=9, began=9) is None
    memory.meet("a", 0, incarnation=9, began=9, boot=b"repaired")
    memory.note("a", 0)
    assert memory.heard == {"a": 0}
    memory.note("a", 7)
    assert memory.judge("a", 6, incarnation=10, began=9) is not None
    assert memory.judge("a", 7, incarnation=10, began=9) is None


def test_whoever_was_away_during_the_life_of_a_repair_accepts_the_next_one() -> None:
    assert remembering(512, incarnation=3).judge("a", 7, incarnation=10, began=9) is None


def test_an_earlier_incarnation_and_another_boot_of_the_same_one_were_surpassed() -> None:
    memory = remembering(0, incarnation=3, boot=b"this")
    assert memory.has_met_later("a", 2, b"this")
    assert memory.has_met_later("a", 3, b"that")
    assert not memory.has_met_later("a", 3, b"this")
    assert not memory.has_met_later("a", 4, b"that")
    assert not Memory().has_met_later("a", 0)


def test_a_life_of_which_nothing_was_heard_does_not_count() -> None:
    """It was refused by others, and comes back with the log that it had and the same incarnation."""
    memory = remembering(5, incarnation=3, boot=b"this")
    memory.meet("a", 5, incarnation=4, boot=b"refused elsewhere")
    assert not memory.has_met_later("a", 4, b"with its own log")
    memory.meet("a", 9, incarnation=4, boot=b"with its own log")
    memory.note("a", 10)
    assert memory.has_met_later("a", 4, b"refused elsewhere")


def test_only_what_has_changed_is_written_again() -> None:
    memory = remembering(5)
    memory.note("b", 2)
    first = memory.take_changes()
    assert memory.take_changes() == b""
    memory.note("b", 3)
    second = memory.take_changes()
    assert len(second) < len(first)
    again = Memory()
    again.restore([first, second])
    assert again.heard == {"a": 5, "b": 3}
    assert again.has_met_later("a", 0, b"another")


def test_pieces_are_read_in_any_order() -> None:
    memory = remembering(512, incarnation=3)
    before = memory.take_changes()
    memory.meet("a", 0, incarnation=9, began=9, boot=b"repaired")
    memory.note("a", 0)
    after = memory.everything()
    for pieces in ([before, after], [after, before]):
        again = Memory()
        again.restore(pieces)
        assert again.heard == {"a": 0}
        assert again.judge("a", 0, incarnation=10, began=9) is None
