"""All runs of a small world: every order of packets, timers, requests and crashes within the limits.

Every second state that is looked at is the least deep of those that are left, so that the search is whole in the end
and shallow faults are found with short runs. The others belong to dives: from one state to a random one of those that
follow it, as deep as it goes, for a fault that takes thirty actions is beyond what is less deep than thirty.

Nothing is lost explicitly: a packet that is never delivered is a lost one, and a state in which it is still under way
shows all that the state without it would. A site that is down is one that is not heard of; so a crash and the return
are one action.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from ordercast.explore.rename import Renaming
from ordercast.explore.settle import Settling, Stuck
from ordercast.explore.site import REFUSED, Cut, Sites, Step
from ordercast.explore.world import Limits, World, clock_at

Action = tuple[Any, ...]
"""("deliver", packet), ("again", packet), ("fire", site, timer), ("request", message), ("wait",), ("crash", site), or
("crash", site, action, number): in the middle of what an action begins, at the cut of that number."""

Rest = tuple[int, int, int, int, float]
"""Messages not yet multicast (bits); crashes, timers and second copies that may still happen; the time, where clocks
have rates."""

WHIMS = (0.1, 0.4, 1.0)
"""How often a dive does not do what it prefers: seldom, now and then, or always."""
SETTLE_SHARE = 0.2
"""Of the time, for runs that are left alone to see whether they come to an end."""


class State(NamedTuple):
    """A state of the world."""

    locals: tuple[int, ...]
    """The number of each site's state."""
    packets: tuple[int, ...]
    """Those under way, sorted."""
    rest: Rest


class Found:
    """What a search has found, and how far it came."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.path: tuple[Action, ...] = ()
        self.stuck: Stuck | None = None
        """What happens after that path, where the run never comes to its end."""
        self.states = 0
        self.depth = 0
        """Everything that takes fewer actions was looked at."""
        self.deepest = 0
        self.whole = False
        """Whether there is nothing left to look at."""
        self.seconds = 0.0
        self.settled = 0
        """Runs that were left alone."""


class Search:
    """One search of one world."""

    def __init__(self, world: World, limits: Limits | None = None, seed: int = 1) -> None:
        self.world = world
        self.limits = limits or world.limits
        self.sites = Sites(world)
        self._received: dict[Any, Step] = {}
        self._fired: dict[Any, Step] = {}
        self._requested: dict[Any, Step] = {}
        self._crashed: dict[Any, Step] = {}
        self._cut_short: dict[Any, tuple[tuple[Step, tuple[int, ...]], ...]] = {}
        self._judged: dict[Any, str | None] = {}
        self._queued = self.sites.queued
        self._key = Renaming(self.sites, world.symmetries).key if world.symmetries else hash
        self._settling = Settling(self.sites, self.limits.losses > 0)
        self._beginning: tuple[Action, ...] = ()
        """What has happened before the first state that is looked at."""
        self._seen: set[int] = set()
        self._parents = array("q")
        self._actions: list[Action] = []
        self._left: list[list[tuple[int, State]]] = []
        """Depth -> what is to be looked at there, by number."""
        self._lowest = 0
        """Everything less deep was looked at."""
        self._diving = True
        self._new = 0
        """So many states were found when the last one was looked at."""
        self._random = Random(seed)
        self._weights: dict[Action, float] = {}
        """What this dive prefers."""
        self._whim = 1.0
        self._problem: tuple[str, tuple[Action, ...]] | None = None
        self._stuck: Stuck | None = None
        self._number = 0
        self._depth = 0

    # ------------------------------------------------------------------ the search
    def run(self, progress: Callable[[Found], None] = lambda found: None) -> Found:
        """Look at everything, until something is wrong, the limits are reached, or nothing is left."""
        found = Found()
        began = time.process_time()
        self._begin()
        settle_seconds = 0.0
        settle_next = looked_at = 0
        while self._problem is None and (state := self._choose()) is not None:
            looked_at += 1
            if looked_at % 1024 == 0:
                found.states, found.seconds, found.depth = len(self._seen), time.process_time() - began, self._lowest
                progress(found)
                if found.seconds > self.limits.seconds or found.states >= self.limits.states:
                    break
            self._expand(state)
            if looked_at >= settle_next:
                # Spread over the whole search, as densely as their share of the time allows.
                at = time.process_time()
                self._settle(state)
                found.settled += 1
                now = time.process_time()
                settle_seconds += now - at
                settle_next = looked_at + 1
                if settle_seconds > SETTLE_SHARE * (now - began) > 0:
                    # As many more as the share is behind. (The clock may not have gone on since the beginning.)
                    settle_next += int((settle_seconds / SETTLE_SHARE / (now - began) - 1) * looked_at)
        else:
            found.whole = self._problem is None
        found.states, found.seconds, found.depth = len(self._seen), time.process_time() - began, self._lowest
        found.deepest = len(self._left) - 1
        if self._problem is not None:
            found.problem, found.path = self._problem
            found.stuck = self._stuck
        return found

    def _begin(self) -> None:
        locals_: list[int] = []
        packets: list[int] = []
        for site in range(len(self.world.sites)):
            step = self.sites.start(site)
            locals_.append(step.after)
            packets.extend(step.sends)
            if step.problem is not None:
                self._problem = (step.problem, ())
        limits = self.limits
        rest = ((1 << len(self.world.sources)) - 1, limits.crashes, limits.timers, limits.duplicates, 0.0)
        if self.world.begin_seconds and self._problem is None:
            begun = self._settling.begin(tuple(locals_), tuple(self._queued(packets)), self.world.begin_seconds)
            locals_, packets, self._beginning = begun.locals, begun.packets, begun.actions
            if begun.problem is not None:
                self._problem = (begun.problem, begun.actions)
        first = State(tuple(locals_), tuple(self._queued(packets)), rest)
        self._seen.add(self._key(first))
        self._parents.append(-1)
        self._actions.append(())
        self._left.append([(0, first)])

    def _choose(self) -> State | None:
        """The next state to look at."""
        depth = self._depth + 1
        if self._new and self._diving:
            # Those that follow the last one are the last at their depth.
            left = self._left[depth]
            chosen = self._prefer(left)
        else:
            while self._lowest < len(self._left) and not self._left[self._lowest]:
                self._lowest += 1
            if self._lowest == len(self._left):
                return None
            self._diving = not self._diving
            depth = self._lowest
            if self._diving:
                self._weights = {}
                self._whim = self._random.choice(WHIMS)
                depth = self._random.randrange(self._lowest, len(self._left))
                depth = depth if self._left[depth] else self._lowest
            left = self._left[depth]
            chosen = self._random.randrange(len(left)) if self._diving else len(left) - 1
        left[chosen], left[-1] = left[-1], left[chosen]
        self._number, state = left.pop()
        self._depth, self._new = depth, 0
        if depth + 1 == len(self._left):
            self._left.append([])
        return state

    def _prefer(self, left: list[tuple[int, State]]) -> int:
        """Which of the new states to dive to. Each dive draws what it prefers: packets of one kind from one site to
        another, timers, crashes. So some are held back for long, as when a site or a link is slow, and now and then a
        dive does something else. (Any one at random: everything arrives at about the time at which it was sent.)"""
        first = len(left) - self._new
        if self._random.random() < self._whim:
            return self._random.randrange(first, len(left))
        weights, actions = self._weights, self._actions
        best, chosen = -1.0, first
        for index in range(first, len(left)):
            kind = self._kind_of(actions[left[index][0]])
            weight = weights.get(kind)
            if weight is None:
                weight = weights[kind] = self._random.random()
            if weight > best:
                best, chosen = weight, index
        return chosen

    def _kind_of(self, action: Action) -> Action:
        if action[0] == "deliver" or action[0] == "again":
            receiver, sender, packet, _ = self.sites.packets[action[1]]
            return (action[0], receiver, sender, type(packet))
        return action[:2] if action[0] == "crash" else action

    def _path(self) -> tuple[Action, ...]:
        """The way to the state that is being looked at."""
        path = []
        number = self._number
        while number > 0:
            path.append(self._actions[number])
            number = self._parents[number]
        return (*self._beginning, *reversed(path))

    def _add(self, action: Action, before: State, site: int, step: Step, packets: tuple[int, ...], rest: Rest) -> None:
        """A state that follows; nothing when it is known."""
        locals_ = before.locals
        old = locals_[site]
        if step.after != old:
            locals_ = (*locals_[:site], step.after, *locals_[site + 1 :])
        after = State(locals_, packets, rest)
        key = self._key(after)
        if key in self._seen:
            return
        self._seen.add(key)
        problem = step.problem
        observations = self.sites.observations
        if problem is None and observations[step.after] is not observations[old]:
            problem = self._judge(after)
        if problem is not None and self._problem is None:
            self._problem = (problem, (*self._path(), action))
        self._left[self._depth + 1].append((len(self._actions), after))
        self._new += 1
        self._parents.append(self._number)
        self._actions.append(action)

    def _judge(self, state: State) -> str | None:
        observations = self.sites.observations
        key = (tuple([observations[local] for local in state.locals]), state.rest[-1])
        if key not in self._judged:
            self._judged[key] = self.world.safe(*key)
        return self._judged[key]

    def _settle(self, state: State) -> None:
        stuck = self._settling.run(state.locals, state.packets, state.rest[-1])
        if stuck is not None and self._problem is None:
            self._problem = (stuck.problem, self._path())
            self._stuck = stuck

    # ------------------------------------------------------------------ what may happen next
    def _expand(self, state: State) -> None:
        requests, crashes, timers, _, _ = state.rest
        self._deliver(state)
        if requests:
            self._request(state)
        if timers:
            self._fire(state)
        if crashes:
            self._crash(state)

    def _deliver(self, state: State) -> None:
        locals_, packets, rest = state
        requests, crashes, timers, again, now = rest
        flying, received = self.sites.packets, self._received
        timed, one_channel = self.world.rates is not None, self.world.one_channel
        last = heard_by = -1
        first = 0
        for index, packet in enumerate(packets):
            if packet == last:
                continue
            last = packet
            site = flying[packet].receiver
            if site != heard_by:
                heard_by, first = site, index
            local = locals_[site]
            key = (local, packet, now) if timed else (local, packet)
            step = received.get(key)
            if step is None:
                step = received[key] = self.sites.receive(local, packet, self._clock(local, site, now))
            if step.after == local and not step.sends and step.problem is None:
                # It changes nothing now, and may later: it stays under way.
                continue
            left = packets[: first if one_channel else index] + packets[index + 1 :]
            action = ("deliver", packet)
            self._add(action, state, site, step, tuple(self._queued(left + step.sends)) if step.sends else left, rest)
            if again:
                less = (requests, crashes, timers, again - 1, now)
                self._add(("again", packet), state, site, step, tuple(self._queued(packets + step.sends)), less)
            if crashes and step.cuts:
                # It may come again: whoever sent it has no receipt. (On one channel it would be sent again.)
                self._cut(action, state, site, step, left if one_channel else packets, rest)

    def _clock(self, local: int, site: int, now: float) -> float:
        return clock_at(self.sites.locals[local].clock, site, now, self.world)

    def _request(self, state: State) -> None:
        requests, crashes, timers, again, now = state.rest
        sources = self.world.sources
        asked = set()
        for message, site in enumerate(sources):
            if not requests & (1 << message) or site in asked:
                continue
            asked.add(site)
            local = state.locals[site]
            step = self._requested.get((local, now))
            if step is None:
                step = self._requested[local, now] = self.sites.request(local, self._clock(local, site, now))
            if step is not REFUSED:
                rest = (requests & ~(1 << message), crashes, timers, again, now)
                action = ("request", message)
                self._add(action, state, site, step, tuple(self._queued(state.packets + step.sends)), rest)
                if crashes and step.cuts:
                    self._cut(action, state, site, step, state.packets, rest)

    def _fire(self, state: State) -> None:
        requests, crashes, timers, again, now = state.rest
        rates = self.world.rates
        rest = (requests, crashes, timers - 1, again, now)
        earliest = None
        for site, local in enumerate(state.locals):
            for timer, due in self.sites.locals[local].timers:
                if rates is not None:
                    at = round(due / rates[site], 9)
                    if at > now:
                        earliest = at if earliest is None else min(at, earliest)
                        continue
                    # It is due, and time does not pass it by.
                    earliest = now
                step = self._fired.get((local, timer, now))
                if step is None:
                    clock = self._clock(local, site, now)
                    clock = max(clock, due) if self.world.reads_clock else clock
                    step = self._fired[local, timer, now] = self.sites.fire(local, timer, clock)
                action = ("fire", site, timer)
                packets = tuple(self._queued(state.packets + step.sends)) if step.sends else state.packets
                self._add(action, state, site, step, packets, rest)
                if crashes and step.cuts:
                    self._cut(action, state, site, step, state.packets, rest)
        if earliest is not None and earliest > now:
            same = Step(state.locals[0], (), None, (), ())
            self._add(("wait",), state, 0, same, state.packets, (requests, crashes, timers, again, earliest))

    def _crash(self, state: State) -> None:
        requests, crashes, timers, again, now = state.rest
        rest = (requests, crashes - 1, timers, again, now)
        for site in range(len(state.locals)):
            step = self._crashed_at(state.locals[site], None, site, now)
            self._add(("crash", site), state, site, step, tuple(self._queued(state.packets + step.sends)), rest)

    def _cut(self, action: Action, state: State, site: int, step: Step, left: tuple[int, ...], rest: Rest) -> None:
        """The same with a crash in the middle of it."""
        requests, crashes, timers, again, now = rest
        local = state.locals[site]
        known = self._cut_short.get((local, step.cuts, now))
        if known is None:
            steps = [(self._crashed_at(local, cut, site, now), cut.sends) for cut in step.cuts]
            known = tuple((step, sends + step.sends) for step, sends in steps)
            self._cut_short[local, step.cuts, now] = known
        less = (requests, crashes - 1, timers, again, now)
        for number, (crashed, sends) in enumerate(known):
            self._add(("crash", site, action, number), state, site, crashed, tuple(self._queued(left + sends)), less)

    def _crashed_at(self, local: int, cut: Cut | None, site: int, now: float) -> Step:
        step = self._crashed.get((local, cut, now))
        if step is None:
            step = self._crashed[local, cut, now] = self.sites.crash(local, cut, self._clock(local, site, now))
        return step
