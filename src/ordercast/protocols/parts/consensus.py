"""Uniform consensus with a rotating coordinator and ◇S (Chandra and Toueg 1996), over qualified majorities, with
recovery from the log.

A round belongs to one coordinator. It proposes, a quorum adopts, it decides. Whoever suspects the coordinator goes to a
later round and tells its coordinator what it has adopted; that one collects the estimates of a quorum, takes the one
that was adopted last, and proposes it. Nobody adopts anything of a round that it has left. Wrong suspicions cost time,
never agreement.
"""

from __future__ import annotations

from collections.abc import Callable

from ordercast.core import InvariantViolation, MessageId, Part, Protocol, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus_instance import NOTHING, Instance
from ordercast.protocols.parts.consensus_packets import (
    Ack,
    Adopted,
    Collect,
    Decide,
    Decided,
    Estimate,
    InstanceName,
    Lives,
    OpenState,
    Promised,
    Propose,
    Value,
)
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.link import Link
from ordercast.protocols.parts.quorum import Quorum


class Consensus(Part):
    """All instances at one site."""

    packets = (Propose, Ack, Decide, Collect, Estimate)
    records = (Promised, Adopted, Decided)
    branches = ("round-changed", "estimates-collected", "adopted-value-kept", "decision-told", "stale-round")

    def __init__(
        self,
        host: Protocol,
        link: Link,
        detector: FailureDetector,
        *,
        eager: bool,
        participants: Callable[[InstanceName], tuple[SiteId, ...] | None],
        quorum: Callable[[InstanceName], Quorum],
        estimate: Callable[[InstanceName], Value | None],
        on_decided: Callable[[InstanceName, Value], None],
        on_recalled: Callable[[InstanceName, Value], object],
        is_over: Callable[[InstanceName], bool],
        is_news: Callable[[InstanceName, Value], bool] = lambda name, value: False,
        is_possible: Callable[[InstanceName, Value], bool] = lambda name, value: True,
        on_impossible: Callable[[SiteId, InstanceName, Value], None] = lambda site, name, value: None,
        may_begin: Callable[[InstanceName], bool] = lambda name: True,
        lives: Callable[[], Lives] = lambda: (),
    ) -> None:
        self._host = host
        self._link = link
        self._detector = detector
        self._eager = eager
        """Whether everyone passes the decision on, (d-1)² packets; else those who lack it ask."""
        self._participants = participants
        """In the order in which they coordinate; None when that is not known here yet."""
        self._quorum = quorum
        self._estimate = estimate
        """What we would propose, if anything."""
        self._on_decided = on_decided
        self._on_recalled = on_recalled
        """After a crash: this decision is in the log."""
        self._is_over = is_over
        """Whether an instance is decided and forgotten."""
        self._is_news = is_news
        """Whether the host lacks something of the decision of an instance that is over."""
        self._is_possible = is_possible
        """Whether the host knows of no reason why this cannot be decided. What it rules out, somebody in every quorum
        must rule out, for good: then it counts as if it had not been adopted."""
        self._on_impossible = on_impossible
        """Somebody has proposed what is ruled out: tell it why."""
        self._may_begin = may_begin
        """Whether we cannot have proposed anything in the first round, and forgotten it."""
        self._lives = lives
        """Which sites have lost their log, as far as the host knows."""
        self.open: dict[InstanceName, Instance] = {}
        self.decisions: dict[InstanceName, Value] = {}
        """Kept until the host knows that everyone has them."""

    # ------------------------------------------------------------------ what the host says
    def start(self, name: InstanceName, topic: MessageId) -> None:
        """We want a decision about this message among others."""
        if name in self.decisions or self._is_over(name):
            return
        instance = self._instance(name)
        instance.active = True
        instance.topic = instance.topic or topic
        coordinator = self._coordinator(instance)
        if coordinator is None:
            return
        if coordinator == self._host.site:
            if instance.round == 0 and not self._may_begin(name):
                self._next_round(instance)
            elif instance.round == 0:
                self._propose_first(instance)
            else:
                # The estimates may have been here for long, and nobody had anything to propose.
                self._propose_collected(instance)
        elif coordinator in self._detector.suspected:
            self._next_round(instance)
        else:
            self._watch(instance)

    def forget(self, name: InstanceName) -> None:
        """Everyone knows the decision."""
        self.decisions.pop(name, None)

    def give_up(self, name: InstanceName) -> None:
        """Nothing is left that we want to have decided: wait for nobody. What we have promised or adopted holds."""
        if (instance := self.open.get(name)) is not None and instance.adopted == NOTHING:
            instance.active = False
            self._watch(instance)
            if not instance.round:
                del self.open[name]

    def on_suspected(self, site: SiteId) -> None:
        """Go on without the coordinator."""
        for instance in list(self.open.values()):
            if instance.watching == site:
                self._next_round(instance)

    def _instance(self, name: InstanceName) -> Instance:
        instance = self.open.get(name)
        if instance is None:
            instance = self.open[name] = Instance(name)
        return instance

    def _coordinator(self, instance: Instance) -> SiteId | None:
        participants = self._participants(instance.name)
        return None if participants is None else participants[instance.round % len(participants)]

    def _others(self, name: InstanceName) -> tuple[SiteId, ...]:
        return tuple(site for site in self._quorum(name).sites if site != self._host.site)

    # ------------------------------------------------------------------ rounds
    def _watch(self, instance: Instance) -> None:
        """Watch the coordinator of the present round, and nobody else."""
        coordinator = self._coordinator(instance) if instance.active else None
        if coordinator == self._host.site:
            coordinator = None
        if coordinator != instance.watching:
            if coordinator is not None:
                self._detector.watch(coordinator)
            self._unwatch(instance)
            instance.watching = coordinator

    def _unwatch(self, instance: Instance) -> None:
        if instance.watching is not None:
            self._detector.unwatch(instance.watching)
            instance.watching = None

    def _next_round(self, instance: Instance) -> None:
        """Go to the next round whose coordinator is not suspected; to the very next one when all are."""
        participants = self._participants(instance.name)
        if participants is None:
            return
        suspected = self._detector.suspected
        count = len(participants)
        following = range(instance.round + 1, instance.round + count + 1)
        self._host.branch("round-changed")
        self._enter(instance, next((r for r in following if participants[r % count] not in suspected), following[0]))
        coordinator = participants[instance.round % count]
        if coordinator == self._host.site:
            self._collect(instance)
        else:
            self._send_estimate(instance, coordinator)
        self._watch(instance)

    def _enter(self, instance: Instance, round_: int, topic: MessageId | None = None) -> None:
        """Leave a round for a later one, for good: this is logged before anyone hears of it.

        (Else: p tells the coordinator of round 1 that it has adopted nothing, crashes, forgets that, and adopts the
        proposal of round 0, which is decided; round 1 decides something else.)
        """
        instance.enter(round_)
        instance.topic = topic = topic or instance.topic
        if topic is None:
            raise InvariantViolation(f"nobody has said what the consensus {instance.name} is about")
        self._host.append(Promised(instance.name, round_, topic))

    # ------------------------------------------------------------------ first phase: estimates
    def _collect(self, instance: Instance) -> None:
        """As the coordinator of a later round: ask everyone to come to it. (Those who do not suspect the old one would
        never come by themselves, and there might be no quorum in either round.)"""
        own = self._own_estimate(instance)
        self._send_collect(instance, self._others(instance.name))
        self._add_estimate(instance, self._host.site, instance.adopted, own)

    def _send_collect(self, instance: Instance, to: tuple[SiteId, ...]) -> None:
        if instance.topic is not None:
            self._link.post(to, Collect(self._link.next, instance.name, instance.round, instance.topic))

    def _own_estimate(self, instance: Instance) -> Value | None:
        value = instance.value if instance.adopted > NOTHING else self._estimate(instance.name)
        if value is not None:
            instance.topic = value.numbers[0][0]
        return value

    def _send_estimate(self, instance: Instance, to: SiteId) -> None:
        value = self._own_estimate(instance)
        if instance.topic is not None:
            name, adopted = instance.name, instance.adopted
            self._link.post(
                (to,), Estimate(self._link.next, name, instance.round, adopted, value, instance.topic, self._lives())
            )

    def on_collect(self, sender: SiteId, collect: Collect, arrival: Arrival) -> None:
        """Go to the coordinator's round."""
        instance = self._find(sender, collect.instance)
        if instance is not None:
            if collect.round < instance.round:
                self._host.branch("stale-round")
            else:
                if collect.round > instance.round:
                    self._enter(instance, collect.round, collect.message)
                    self._watch(instance)
                instance.caller = sender
                self._send_estimate(instance, sender)
        self._link.acknowledge(sender, collect)

    def on_estimate(self, sender: SiteId, estimate: Estimate, arrival: Arrival) -> None:
        """As the coordinator: what a participant has adopted."""
        if estimate.value is not None:
            self._check(estimate.instance, estimate.value)
        instance = self._find(sender, estimate.instance)
        if instance is not None:
            if estimate.round > instance.round:
                # Somebody suspects those before us.
                self._enter(instance, estimate.round, estimate.message)
                self._watch(instance)
                self._collect(instance)
            if estimate.round == instance.round > 0:
                self._add_estimate(instance, sender, estimate.adopted, estimate.value)
            elif estimate.round < instance.round:
                self._host.branch("stale-round")
        self._link.acknowledge(sender, estimate)

    def _add_estimate(self, instance: Instance, site: SiteId, adopted: int, value: Value | None) -> None:
        instance.estimates[site] = (adopted, value)
        self._propose_collected(instance)

    def _propose_collected(self, instance: Instance) -> None:
        if not instance.proposed and self._quorum(instance.name).is_met(instance.estimates):
            chosen = self.choose(instance)
            if chosen is not None:
                self._host.branch("estimates-collected")
                self._propose(instance, chosen)

    def choose(self, instance: Instance) -> Value | None:
        """What was adopted in the latest round; it may be decided. Without any, whatever somebody would propose."""
        possible = [
            (adopted, value)
            for _, (adopted, value) in sorted(instance.estimates.items())
            if value is not None and self._is_possible(instance.name, value)
        ]
        adopted, value = max(possible, key=lambda estimate: estimate[0], default=(NOTHING, None))
        if adopted > NOTHING:
            self._host.branch("adopted-value-kept")
            return value
        return self._estimate(instance.name) or value

    # ------------------------------------------------------------------ second phase: the proposal
    def _propose_first(self, instance: Instance) -> None:
        """In round 0 nobody can have adopted anything: the coordinator need not ask."""
        if instance.adopted == NOTHING and not instance.proposed:
            value = self._estimate(instance.name)
            if value is not None:
                self._propose(instance, value)

    def _propose(self, instance: Instance, value: Value) -> None:
        """Logged before it is told. (Else: the coordinator proposes v to p, who adopts it, crashes, and proposes w to q
        in the same round.)"""
        instance.proposed = True
        self.adopt(instance, value)
        self._link.post(self._others(instance.name), Propose(self._link.next, instance.name, instance.round, value))
        self._add_ack(instance, self._host.site)

    def adopt(self, instance: Instance, value: Value) -> None:
        """Take over a proposal of the present round; logged before it is acknowledged."""
        instance.adopt(value)
        self._host.append(Adopted(instance.name, instance.round, value))

    def reconsider(self) -> None:
        """The host has learned something: where we have proposed what is ruled out, no quorum will answer that; let the
        next one try."""
        for instance in list(self.open.values()):
            value = instance.value
            if instance.proposed and value is not None and not self._is_possible(instance.name, value):
                self._next_round(instance)

    def abandon(self, is_decided: Callable[[InstanceName], bool]) -> None:
        """Instances are decided, and nobody can tell how any more."""
        for name in [name for name in self.open if is_decided(name)]:
            self._unwatch(self.open.pop(name))

    # ------------------------------------------------------------------ third phase: acknowledgements
    def on_propose(self, sender: SiteId, propose: Propose, arrival: Arrival) -> None:
        """Adopt it, unless we have left that round."""
        self._check(propose.instance, propose.value)
        instance = self._find(sender, propose.instance)
        if instance is not None:
            if propose.round < instance.round:
                self._host.branch("stale-round")
            elif not self._is_possible(propose.instance, propose.value):
                self._on_impossible(sender, propose.instance, propose.value)
            else:
                if propose.round > instance.round:
                    instance.enter(propose.round)
                    self._watch(instance)
                instance.caller = sender
                if instance.adopted < propose.round:
                    self.adopt(instance, propose.value)
                self._send_ack(instance, sender, propose.value)
        self._link.acknowledge(sender, propose)

    def _send_ack(self, instance: Instance, to: SiteId, value: Value) -> None:
        message = value.numbers[0][0]
        self._link.post((to,), Ack(self._link.next, instance.name, instance.round, message, self._lives()))

    def on_ack(self, sender: SiteId, ack: Ack, arrival: Arrival) -> None:
        """As the coordinator: one more has adopted it."""
        instance = self._find(sender, ack.instance, tell=False)
        if instance is not None and ack.round == instance.round and instance.proposed:
            self._add_ack(instance, sender)
        self._link.acknowledge(sender, ack)

    def _add_ack(self, instance: Instance, site: SiteId) -> None:
        instance.acks.add(site)
        if instance.value is not None and self.is_decided(instance):
            self._link.post(self._others(instance.name), Decide(self._link.next, instance.name, instance.value))
            self._decide(instance.name, instance.value)

    def is_decided(self, instance: Instance) -> bool:
        """Whether a quorum has adopted the proposal."""
        return self._quorum(instance.name).is_met(instance.acks)

    # ------------------------------------------------------------------ fourth phase: the decision
    def on_decide(self, sender: SiteId, decide: Decide, arrival: Arrival) -> None:
        """A decision comes."""
        name = decide.instance
        self._check(name, decide.value)
        instance = self._find(sender, name, tell=False)
        if instance is not None:
            # Who tells it may wait for our word all the same: it leaves before it is in the log. (Else: c decides,
            # tells a, crashes, is back, and comes to the round of a, which hears the old word then: c waits for ever.)
            may_wait = instance.round > 0 or self._coordinator(instance) == self._host.site
            if self._eager or self._is_awaited(instance):
                self._pass_on(name, decide.value, "" if may_wait else sender)
            self._decide(name, decide.value)
        elif name not in self.decisions and self._is_news(name, decide.value):
            self._decide(name, decide.value)
        self._link.acknowledge(sender, decide)

    def learn(self, name: InstanceName, value: Value) -> None:
        """A decision has become known in another way."""
        self._check(name, value)
        if name in self.decisions:
            return
        if not self._is_over(name):
            if self._is_awaited(self._instance(name)):
                self._pass_on(name, value, self._host.site)
            self._decide(name, value)
        elif self._is_news(name, value):
            self._decide(name, value)

    def _is_awaited(self, instance: Instance) -> bool:
        """Whether somebody may wait for our word: we are, or have been, the coordinator of a round, or cannot tell.

        (Else: e suspects a, and comes to the round of b; a decides, tells b and nobody else, and is gone. b has no
        question any more, and e waits for b, which is up, for ever.)
        """
        return instance.round > 0 or self._coordinator(instance) in (None, self._host.site)

    def _pass_on(self, name: InstanceName, value: Value, but: SiteId) -> None:
        others = tuple(site for site in self._others(name) if site != but)
        if others:
            self._link.post(others, Decide(self._link.next, name, value))

    def _decide(self, name: InstanceName, value: Value) -> None:
        instance = self.open.pop(name, None)
        if instance is not None:
            self._unwatch(instance)
        self._host.append(Decided(name, value))
        self.decisions[name] = value
        self._on_decided(name, value)

    def _check(self, name: InstanceName, value: Value) -> None:
        if not value.numbers or value.proposer not in self._quorum(name).sites:
            raise WireError(f"{value} cannot be what the consensus {name} is about")

    def _find(self, sender: SiteId, name: InstanceName, tell: bool = True) -> Instance | None:
        """The instance that a packet is about; None when it is decided, of which the sender hears then."""
        if sender not in self._quorum(name).sites:
            raise WireError(f"{sender} does not take part in the consensus {name}")
        decision = self.decisions.get(name)
        if decision is not None:
            if tell:
                self._host.branch("decision-told")
                self._link.post((sender,), Decide(self._link.next, name, decision))
            return None
        return None if self._is_over(name) else self._instance(name)

    # ------------------------------------------------------------------ a lost log
    def resume_without_log(self) -> None:
        """We stand where the others stood: say so, but lead no round that we may have led before."""
        for instance in list(self.open.values()):
            coordinator = self._coordinator(instance)
            if coordinator == self._host.site and instance.topic is not None:
                self._next_round(instance)
            elif coordinator is not None:
                self._answer(instance, coordinator)

    # ------------------------------------------------------------------ crash and recovery
    def recall_promised(self, record: Promised) -> None:
        """We have left the earlier rounds."""
        instance = self._instance(record.instance)
        instance.round, instance.topic = record.round, record.message

    def recall_adopted(self, record: Adopted) -> None:
        """We have adopted this."""
        instance = self._instance(record.instance)
        instance.round = instance.adopted = record.round
        instance.value = record.value
        instance.topic = record.value.numbers[0][0]

    def recall_decided(self, record: Decided) -> None:
        """We have known this decision."""
        self.open.pop(record.instance, None)
        self.decisions[record.instance] = record.value
        self._on_recalled(record.instance, record.value)

    def state(self) -> tuple[OpenState, ...]:
        """For a checkpoint: promises and what was adopted."""
        return tuple(
            OpenState(instance.name, instance.round, instance.adopted, instance.value, instance.topic)
            for instance in self.open.values()
            if instance.round or instance.value is not None
        )

    def restore(self, states: tuple[OpenState, ...]) -> None:
        """From a checkpoint."""
        for state in states:
            instance = self._instance(state.instance)
            instance.round, instance.adopted, instance.value = state.round, state.adopted, state.value
            instance.topic = state.message

    def resume(self) -> None:
        """The log is read: say again, to everyone, what was not said or may have been forgotten with the crash."""
        for instance in list(self.open.values()):
            coordinator = self._coordinator(instance)
            if coordinator == self._host.site:
                if instance.adopted == instance.round and instance.value is not None:
                    instance.proposed = True
                    propose = Propose(self._link.next, instance.name, instance.round, instance.value)
                    self._link.post(self._others(instance.name), propose)
                    self._add_ack(instance, self._host.site)
                elif instance.round:
                    self._collect(instance)
            elif coordinator is not None:
                self._answer(instance, coordinator)

    def _answer(self, instance: Instance, coordinator: SiteId) -> None:
        """Tell the coordinator of our round again what we have told it."""
        if instance.adopted == instance.round and instance.value is not None:
            self._send_ack(instance, coordinator, instance.value)
        elif instance.round:
            self._send_estimate(instance, coordinator)

    def resume_with(self, site: SiteId) -> None:
        """A participant has lost its memory, or our letters: tell it again where we stand."""
        for instance in list(self.open.values()):
            if site not in self._quorum(instance.name).sites:
                continue
            coordinator = self._coordinator(instance) or instance.caller
            if coordinator == site:
                self._answer(instance, coordinator)
            elif coordinator == self._host.site:
                if instance.proposed and instance.value is not None:
                    propose = Propose(self._link.next, instance.name, instance.round, instance.value)
                    self._link.post((site,), propose)
                elif instance.round:
                    self._send_collect(instance, (site,))
