"""A process that says that it is there, by both ways, hears the others, and tells what it has heard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

import ordercast
from ordercast.cli.beacon.hearing import Heard, Hearing
from ordercast.core import Packet, SiteId
from ordercast.node.beacon_packets import BEACON_INSTANCE, SOURCES_MAX, Beacon, Seconds, Told
from ordercast.node.state_packets import Number
from ordercast.trace.interface import describe

BARE = "bare"
"""The way without a protocol: a datagram to each process, or one by IP multicast where that reaches all of them."""

Sources = Annotated[dict[SiteId, Heard], msgspec.Meta(max_length=SOURCES_MAX)]


class Report(msgspec.Struct, frozen=True, tag="report"):
    """What one process has heard in a period: way -> source -> what came."""

    number: Number
    seconds: Seconds
    ways: Annotated[dict[str, Sources], msgspec.Meta(max_length=2)]


class Word(msgspec.Struct, frozen=True, tag="beacon"):
    """A beacon in the group."""

    beacon: Beacon


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Report | Word).decode


class Talk:
    """One process of the test bed. `on_reports` gets all reports of a period that has just ended, by process."""

    def __init__(
        self,
        node: ordercast.Node,
        group: ordercast.Group,
        on_reports: Callable[[int, dict[SiteId, Report]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._group = group
        self._on_reports = on_reports
        self._clock = clock
        self._life = time.time_ns()
        self._sent = 0
        self._periods = 0
        self._began = clock()
        self.ways: dict[str, dict[SiteId, Hearing]] = {BARE: {}, node.configuration.protocol: {}}
        self._by_group = node.configuration.protocol
        self.reports: dict[SiteId, Report] = {}
        """The last one of each process."""
        self.foreign = 0
        """Messages that are none of ours."""
        self.held_back = 0
        """Messages for which the group had no room."""
        node.internals.engine.site.hear(BEACON_INSTANCE, self._on_packet)
        group.on_delivery(self._on_delivery)

    async def run(self, interval: float, every: float, periods: int | None) -> None:
        """Say so every `interval` seconds, tell every `every` seconds what was heard, so many times or for ever."""
        beats, until = 0, self._began + every
        while periods is None or self._periods < periods:
            self._say()
            beats += 1
            if self._clock() >= until:
                until += every
                self._tell()
            await asyncio.sleep(max(0.0, self._began + beats * interval - self._clock()))

    # ------------------------------------------------------------------ saying
    def _say(self) -> None:
        self._sent += 1
        self._send_bare(self._beacon(BARE))
        self._send_to_group(Word(self._beacon(self._by_group)))

    def _send_bare(self, packet: Packet) -> None:
        engine = self._node.internals.engine
        others = tuple(sorted(engine.endpoint.established))
        envelope = describe(self._node.process, BEACON_INSTANCE, packet)

        def leave(now: float) -> None:
            if others:
                engine.endpoint.send(others, BEACON_INSTANCE, packet)
            if engine.recorder is not None:
                for other in others:
                    engine.recorder.send(now, other, envelope)

        engine.site.step(leave)

    def _send_to_group(self, word: Word | Report) -> None:
        """Nobody waits for room: a beacon that finds none is one that does not arrive."""
        try:
            self._group.try_multicast(_encode(word))
        except (ordercast.WouldBlock, ordercast.GroupBlocked):
            self.held_back += 1

    def _beacon(self, way: str) -> Beacon:
        now = self._clock()
        echoes = {source: hearing.echo(now) for source, hearing in self.ways[way].items()}
        known = {source: echo for source, echo in echoes.items() if echo is not None}
        return Beacon(self._life, self._sent, now, known)

    def _tell(self) -> None:
        now = self._clock()
        self._periods += 1
        expected = set(self._node.members(self._group.name)) | set(self._node.internals.engine.endpoint.established)
        heard = {
            way: {
                source: self._hearing(way, source).report()
                for source in sorted((expected | set(hearings)) - {self._node.process})
            }
            for way, hearings in self.ways.items()
        }
        self._forget_all_but(expected, heard)
        report = self.reports[self._node.process] = Report(self._periods, now - self._began, heard)
        self._on_reports(report.number, dict(self.reports))
        self._send_bare(Told(_encode(report)))
        self._send_to_group(report)

    def _forget_all_but(self, expected: set[SiteId], heard: Mapping[str, Mapping[SiteId, Heard]]) -> None:
        """Where no file lists the processes, whoever has gone does not come back under its name."""
        for way, sources in heard.items():
            for source, found in sources.items():
                if source not in expected and not found.received:
                    del self.ways[way][source]
        self.reports = {source: report for source, report in self.reports.items() if source in expected}

    # ------------------------------------------------------------------ hearing
    def _hearing(self, way: str, source: SiteId) -> Hearing:
        hearings = self.ways[way]
        if source not in hearings:
            if len(hearings) >= SOURCES_MAX:
                del hearings[next(iter(hearings))]
            hearings[source] = Hearing()
        return hearings[source]

    def _hear(self, way: str, source: SiteId, beacon: Beacon) -> None:
        now = self._clock()
        hearing = self._hearing(way, source)
        hearing.hear(beacon, now)
        echo = beacon.echoes.get(self._node.process)
        if echo is not None:
            hearing.measure(echo, now)

    def _on_packet(self, sender: SiteId, packet: Packet) -> None:
        recorder = self._node.internals.engine.recorder
        if recorder is not None:
            recorder.receive(self._clock(), describe(sender, BEACON_INSTANCE, packet))
        if isinstance(packet, Beacon):
            self._hear(BARE, sender, packet)
        elif isinstance(packet, Told):
            self._take(sender, packet.report)

    def _on_delivery(self, delivery: ordercast.Delivery) -> None:
        if delivery.source != self._node.process:
            self._take(delivery.source, delivery.payload)

    def _take(self, source: SiteId, payload: bytes) -> None:
        try:
            word = _decode(payload)
        except msgspec.DecodeError:
            self.foreign += 1
            return
        if isinstance(word, Word):
            self._hear(self._by_group, source, word.beacon)
        elif source in self.reports or len(self.reports) < SOURCES_MAX:
            self.reports[source] = word
