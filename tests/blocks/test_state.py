"""The state behind the blocks: what each call does, whatever the clock of a replica says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ordercast.blocks.state import CHANGES_MAX, State
from ordercast.node import Context


def at(time: float) -> Context:
    return Context(time, "a", "a", 0, 1, 0)


def test_a_lock_has_one_holder_and_serves_its_line_in_order() -> None:
    state = State()
    assert state.acquire(at(0), "l", "a", 10, True) == 1
    assert state.acquire(at(1), "l", "b", 10, True) == 0
    assert state.acquire(at(2), "l", "c", 10, True) == 0
    assert state.acquire(at(3), "l", "a", 10, True) == 1, "whoever has it goes on having it"
    assert not state.release(at(4), "l", "c", 10), "whoever waits stops waiting"
    assert state.release(at(5), "l", "a", 10)
    assert state.acquire(at(6), "l", "b", 10, False) == 2
    assert state.release(at(7), "l", "b", 10)
    assert state.locks == {}
    assert state.acquire(at(8), "l", "c", 10, False) == 3, "no number is given twice"


def test_a_lease_that_has_ended_goes_to_the_first_of_the_line() -> None:
    state = State()
    assert state.acquire(at(0), "l", "a", 10, True) == 1
    assert state.acquire(at(1), "l", "b", 10, True) == 0
    assert state.acquire(at(2), "l", "c", 10, True) == 0
    assert state.acquire(at(11), "l", "c", 10, True) == 0, "b is before it"
    assert state.locks["l"].holder == "b"
    assert state.acquire(at(12), "l", "a", 10, True) == 0, "it has lost it, and has a place in the line"
    assert state.acquire(at(22), "l", "c", 10, True) == 3, "b never came"


calls = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["acquire", "try", "release"]), st.floats(0, 4)), max_size=60
)


@given(calls)
def test_fencing_numbers_grow_and_belong_to_one_holder_each(steps: list[tuple[str, str, float]]) -> None:
    state, now, last = State(), 0.0, 0
    holders: dict[int, str] = {}
    for who, what, pause in steps:
        now += pause
        if what == "release":
            state.release(at(now), "l", who, 5)
        else:
            before = state.locks.get("l")
            fence = state.acquire(at(now), "l", who, 5, what == "acquire")
            if fence:
                assert holders.setdefault(fence, who) == who
                assert fence >= last
                if before is not None and before.holder != who:
                    assert before.until <= now, "nobody has it while the lease of another one runs"
                last = fence


def test_a_key_is_set_only_at_the_version_that_was_seen() -> None:
    state = State()
    assert state.put("m", "k", b"1", 0) == 1
    assert state.put("m", "k", b"2", 0) is None
    assert state.put("m", "k", b"2", 1) == 2
    assert not state.remove("m", "k", 1)
    assert state.remove("m", "k", 2)
    assert state.maps == {}
    assert [(each.revision, each.value) for each in state.changes] == [(1, b"1"), (2, b"2"), (3, None)]
    for index in range(3 * CHANGES_MAX):
        state.put("m", f"{index}", b"", None)
    assert CHANGES_MAX <= len(state.changes) <= 2 * CHANGES_MAX


def test_an_item_is_one_workers_until_its_lease_ends() -> None:
    state = State()
    assert [state.enqueue("q", b"%d" % index) for index in range(3)] == [1, 2, 3]
    assert state.dequeue(at(0), "q", "a", 10) == (1, b"0", 1)
    assert state.dequeue(at(1), "q", "b", 10) == (2, b"1", 1)
    assert state.finish("q", 2, "b", 1, again=False)
    assert state.dequeue(at(10), "q", "b", 10) == (1, b"0", 2), "a was not done in time"
    assert not state.finish("q", 1, "a", 1, again=False)
    assert state.finish("q", 1, "b", 2, again=True)
    assert state.dequeue(at(11), "q", "c", 10) == (1, b"0", 3)
    assert state.dequeue(at(11), "q", "c", 10) == (3, b"2", 1)
    assert state.dequeue(at(11), "q", "c", 10) is None
    assert state.dequeue(at(11), "none", "c", 10) is None
