"""What all processes of a cluster must agree on, its digests, and the words for where two of them differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

SECTIONS = ("protocol", "[processes]", "[groups]", "[options]")
"""In the order in which a difference is told: another protocol has other options."""

DIGEST_BYTES = 8
"""A digest tells honest processes apart; whoever holds the key could lie about it anyway."""

DIGESTS_BYTES = DIGEST_BYTES * len(SECTIONS)

SHOWN_CHARACTERS = 100
"""Of each of two values that differ: a line that a terminal shows in two or three rows."""

ENTRY_OVERHEAD_BYTES = 6
"""What MessagePack adds to a key and a text at the most, when neither is longer than a datagram."""

_CUT = "…"
"""Ends a text of which the rest did not fit; as a key: there are more entries than these."""


class Agreement:
    """The entries of one process: key -> value, the first word of a key being one of `SECTIONS`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        texts = {key: json.dumps(value, sort_keys=True, ensure_ascii=False) for key, value in sorted(values.items())}
        # Made here: a flood of recorded hellos is answered out of these.
        self._sections = {section: _part(texts, section) for section in SECTIONS}
        self.digests = b"".join(_digest(entries) for entries in self._sections.values())
        """Those of all sections, one after the other."""

    def _differing(self, digests: bytes) -> list[str]:
        """The sections in which somebody with these digests differs."""
        starts = range(0, DIGESTS_BYTES, DIGEST_BYTES)
        return [
            section
            for section, start in zip(SECTIONS, starts, strict=True)
            if digests[start : start + DIGEST_BYTES] != self.digests[start : start + DIGEST_BYTES]
        ]

    def tell(self, digests: bytes, room: int) -> dict[str, str]:
        """What to tell somebody who has other digests: the entries of the sections that differ, in so many bytes."""
        told: dict[str, str] = {}
        for section in self._differing(digests):
            for key, text in self._sections[section].items():
                left = room - len(key.encode()) - 2 * ENTRY_OVERHEAD_BYTES - len(_CUT.encode())
                if left < len(_CUT.encode()):
                    told[_CUT] = ""
                    return told
                encoded = text.encode()
                if len(encoded) > left:
                    text = encoded[: left - len(_CUT.encode())].decode(errors="ignore") + _CUT
                told[key] = text
                room = left + ENTRY_OVERHEAD_BYTES + len(_CUT.encode()) - len(text.encode())
        return told

    def explain(self, digests: bytes, told: Mapping[str, str], here: str = "here", there: str = "there") -> str:
        """Where somebody differs who has these digests and told this; on one line, whatever was told."""
        sections = self._differing(digests)
        for section in sections:
            found = self._first_difference(section, _part(told, section), complete=_CUT not in told)
            if found is not None:
                key, own, other = found
                return _one_line(f"{key} differs: {own} {here}, {other} {there}")
        return f"{' and '.join(sections)} differ, in more than a datagram holds"

    def _first_difference(self, section: str, theirs: Mapping[str, str], complete: bool) -> tuple[str, str, str] | None:
        ours = self._sections[section]
        for key in sorted({*ours, *theirs}):
            own, other = ours.get(key), theirs.get(key)
            if own is None or other is None:
                if own is not None and not complete:
                    continue
                return key, _shown(own or "nothing", 0), _shown(other or "nothing", 0)
            same = _common(own, other)
            if own != other and not (other.endswith(_CUT) and same == len(other) - len(_CUT)):
                return key, _shown(own, same), _shown(other, same)
        return None


def explain_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What has changed between two sets of entries, the first of it; None when nothing has."""
    old, new = Agreement(before), Agreement(now)
    if old.digests == new.digests:
        return None
    return old.explain(new.digests, new.tell(old.digests, 1 << 62), here="then", there="now")


def _part(texts: Mapping[str, str], section: str) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key.split(" ", 1)[0] == section}


def _digest(entries: Mapping[str, str]) -> bytes:
    return hashlib.blake2b(json.dumps(entries).encode(), digest_size=DIGEST_BYTES).digest()


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """How many characters two texts have in common before they differ."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count


def _shown(text: str, differs_at: int) -> str:
    """The text, or of a long one what stands around a place."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    start = max(0, min(differs_at - SHOWN_CHARACTERS // 4, len(text) - SHOWN_CHARACTERS))
    end = start + SHOWN_CHARACTERS
    return f"{_CUT if start else ''}{text[start:end]}{_CUT if end < len(text) else ''}"


def _one_line(text: str) -> str:
    """Where nothing is sealed, anybody can tell anything."""
    return "".join(character if character.isprintable() else "?" for character in text[: 4 * SHOWN_CHARACTERS])
