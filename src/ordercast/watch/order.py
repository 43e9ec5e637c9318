"""Are there two sites that deliver two messages in different orders? Found when the last of the four is delivered.

A message becomes common to two sites when the second of them delivers it; it is the last one there at that moment. So
it stands in another order than some message before it exactly if, at the first site, it stands before the highest of
those that were common already. That takes one number for each two sites, and of each message its place at every site,
until everybody has it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Orders(msgspec.Struct):
    """What of the orders of all sites has to be known."""

    next_place: dict[str, int] = {}
    """Site -> the place of its next delivery."""
    highest: dict[str, dict[str, dict[str, tuple[int, str]]]] = {}
    """Scope -> site -> another one -> of the messages in the scope that both have, the highest place at the other, and
    the message there."""

    def deliver(self, site: str, message: str, places: dict[str, int], scopes: Iterable[str]) -> list[tuple[str, str]]:
        """A site delivers a message that has these places at others, and within these scopes an order; which other
        sites have it before which message that this one has delivered already."""
        place = self.next_place.get(site, 0)
        self.next_place[site] = place + 1
        inverted = []
        for scope in scopes:
            highest = self.highest.setdefault(scope, {})
            own = highest.setdefault(site, {})
            for other, there in places.items():
                known = own.get(other)
                if known is None or there > known[0]:
                    own[other] = (there, message)
                else:
                    inverted.append((other, known[1]))
                # Here it is the last one, so it is the highest.
                highest.setdefault(other, {})[site] = (place, message)
        places[site] = place
        return inverted

    def forget(self, site: str) -> None:
        """Its order begins anew: nothing before is compared with what follows."""
        for highest in self.highest.values():
            highest.pop(site, None)
            for others in highest.values():
                others.pop(site, None)
