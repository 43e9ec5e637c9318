"""Where two configurations differ is told by key and values, on one line, in as few bytes as there are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.agreement import DIGESTS_BYTES, SECTIONS, Agreement, explain_change

AGREED: dict[str, Any] = {
    "protocol": "sequencer",
    "[processes]": ["a", "b", "c"],
    "[groups] g": ["a", "b"],
    "[groups] h": ["c"],
    "[options] sequencer": "a",
}
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(st.none() | st.integers() | NAMES, lambda inner: st.lists(inner, max_size=20), max_leaves=40)
ENTRIES = st.dictionaries(st.builds("{} {}".format, st.sampled_from(SECTIONS), NAMES), VALUES, max_size=20)


def met(ours: dict[str, Any], theirs: dict[str, Any], room: int = 400) -> str:
    """What we say about them."""
    us, them = Agreement(ours), Agreement(theirs)
    return us.explain(them.digests, them.tell(us.digests, room))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol": "token"}, 'protocol differs: "sequencer" here, "token" there'),
        ({"[groups] h": ["b", "c"]}, '[groups] h differs: ["c"] here, ["b", "c"] there'),
        ({"[groups] i": ["b"]}, '[groups] i differs: nothing here, ["b"] there'),
        ({"[options] sequencer": ""}, '[options] sequencer differs: "a" here, "" there'),
        ({"protocol": "token", "[options] sequencer": "b"}, 'protocol differs: "sequencer" here, "token" there'),
    ],
)
def test_the_first_difference_is_told_by_its_key_and_both_values(change: dict[str, Any], words: str) -> None:
    assert met(AGREED, AGREED | change) == words
    assert explain_change(AGREED, AGREED | change) == words.replace(" here", " then").replace(" there", " now")


def test_the_order_in_which_entries_stand_does_not_matter() -> None:
    turned = dict(reversed(AGREED.items()))
    assert Agreement(turned).digests == Agreement(AGREED).digests
    assert explain_change(AGREED, turned) is None


def test_of_long_values_what_stands_around_the_difference_is_shown() -> None:
    many = [f"process-{number:04}" for number in range(40)]
    told = met({"[processes]": many}, {"[processes]": [*many[:20], "other", *many[20:]]}, room=2000)
    assert '"process-0020"' in told
    assert '"other"' in told
    assert len(told) < 300


def test_a_difference_that_does_not_fit_is_told_by_its_section() -> None:
    many = [f"process-{number:04}" for number in range(1000)]
    assert met({"[processes]": many}, {"[processes]": [*many, "z"]}) == (
        "[processes] differ, in more than a datagram holds"
    )
    groups = {f"[groups] {number:04}": ["a", "b"] for number in range(1000)}
    assert met(groups, groups | {"[groups] 0999": ["a"]}) == "[groups] differ, in more than a datagram holds"
    assert "[groups] 0001 differs" in met(groups, groups | {"[groups] 0001": ["a"]})


@given(ENTRIES, ENTRIES, st.integers(0, 600))
def test_what_is_told_fits_and_what_is_said_of_it_is_one_short_line(
    ours: dict[str, Any], theirs: dict[str, Any], room: int
) -> None:
    us, them = Agreement(ours), Agreement(theirs)
    assert len(us.digests) == DIGESTS_BYTES
    told = them.tell(us.digests, room)
    assert len(msgspec.msgpack.encode(told)) <= max(room, 0) + 10
    line = us.explain(them.digests, told)
    assert line.isprintable()
    assert len(line) <= 400
    assert (explain_change(ours, theirs) is None) == (us.digests == them.digests)


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=300), max_size=10), st.binary(min_size=32, max_size=32))
def test_whatever_is_told_the_line_is_one_line(told: dict[str, str], digests: bytes) -> None:
    line = Agreement(AGREED).explain(digests, told)
    assert line.isprintable()
    assert len(line) <= 400
