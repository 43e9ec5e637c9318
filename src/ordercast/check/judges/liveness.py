"""What must happen in the end: agreement, termination and recovery, judged in settled runs only."""

from __future__ import annotations

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools
from ordercast.check.verdict import NOT_JUDGED, WITNESSES_MAX, Finding, Witness


def judge_uniform_agreement(facts: Facts) -> Finding:
    """Delivered anywhere, correct site or not: delivered at every correct destination."""
    if not facts.run.settled:
        return NOT_JUDGED
    delivered = facts.deliveries.first_row >= 0
    elsewhere = (facts.deliveries.delivered_at - delivered) > 0
    why = "{a} is delivered at another site, but never at {0}, which is correct"
    return _everywhere(facts, elsewhere, delivered, why)


def judge_agreement(facts: Facts) -> Finding:
    """Delivered at a correct site and not taken back: delivered at every correct destination, and not taken back."""
    if not facts.run.settled:
        return NOT_JUDGED
    stands = _stands(facts)
    at_correct = stands & facts.outages.correct[:, np.newaxis]
    elsewhere = (np.count_nonzero(at_correct, axis=0) - at_correct) > 0
    why = "{a} is delivered at another correct site for good, but not at {0}, which is correct"
    return _everywhere(facts, elsewhere, stands, why)


def _stands(facts: Facts) -> Bools:
    """[site, message]: whether the site has delivered the message and not taken it back."""
    columns, deliveries = facts.columns, facts.deliveries
    rollbacks = columns.rows("rollback")
    rollbacks = rollbacks[columns.message[rollbacks] >= 0]
    if not len(rollbacks):
        return deliveries.first_row >= 0
    latest = np.full((len(columns.sites), columns.message_count), -1, dtype=np.int64)
    for rows in (deliveries.rows, rollbacks):
        np.maximum.at(latest, (columns.site[rows], columns.message[rows]), rows)
    return (latest >= 0) & columns.are("deliver", latest)


def judge_view_termination(facts: Facts) -> Finding:
    """What a correct source multicasts is delivered where it is owed, if the source stays in the views there."""
    if not facts.run.settled:
        return NOT_JUDGED
    columns, correct = facts.columns, facts.outages.correct
    due = facts.owed & facts.activations.active(facts.messages, facts.services)
    for site in range(len(columns.sites)):
        stays = facts.stays(site)
        if not stays.matters:
            continue
        end = columns.site_start[site + 1 : site + 2]
        for source, chain in enumerate(facts.messages.chains):
            if not due[site, chain].any():
                continue
            for _, stayed in stays.judge(source, chain, end):
                due[site, chain] &= stayed
    return _everywhere(
        facts,
        due & _from_correct_source(facts) & correct[:, np.newaxis],
        facts.deliveries.first_row >= 0,
        "{a} is multicast by a correct site that stays in the views of {0}, which never delivers it",
    )


def judge_termination(facts: Facts) -> Finding:
    """Multicast by a correct site: delivered at every correct destination."""
    if not facts.run.settled:
        return NOT_JUDGED
    delivered = facts.deliveries.first_row >= 0
    return _everywhere(
        facts,
        _from_correct_source(facts)[np.newaxis, :],
        delivered,
        "{a} is multicast by a correct site, but never delivered at {0}, which is correct",
    )


def judge_recovery(facts: Facts) -> Finding:
    """A site that has come back takes part fully again."""
    if not facts.run.settled:
        return NOT_JUDGED
    back = facts.outages.back
    why = "{0} comes back at {time} s, and never takes part fully again"
    witnesses = [
        facts.witness((site,), (), why, time=f"{facts.columns.time[row]:g}")
        for site, row in back.items()
        if not facts.outages.correct[site]
    ]
    return Finding(bool(back), witnesses[:WITNESSES_MAX])


def judge_selective_information(facts: Facts) -> Finding:
    """Every message reaches exactly its destinations; that it reaches all of them is judged in settled runs only."""
    deliveries = facts.deliveries
    known = facts.messages.known[deliveries.message]
    site, message = deliveries.site[known], deliveries.message[known]
    stray = np.flatnonzero(~facts.membership.ever_addressed(site, message))
    why = "{0} delivers {a}, which is not addressed to it"
    witnesses: list[Witness] = [
        facts.witness((site[index],), (message[index],), why) for index in stray[:WITNESSES_MAX].tolist()
    ]
    obliged = bool(known.any())
    if facts.run.settled:
        missing = judge_termination(facts)
        obliged |= missing.obliged
        witnesses += missing.witnesses
    return Finding(obliged, witnesses)


def _from_correct_source(facts: Facts) -> Bools:
    """The messages of correct sites that were not refused after they had multicast them: what only a log had that is
    lost, nobody can deliver."""
    messages, outages = facts.messages, facts.outages
    if not len(messages.row):
        return messages.known
    last = np.array([times[-1] if len(times) else -np.inf for times in outages.refusals])
    return messages.known & outages.correct[messages.source] & (last[messages.source] <= messages.begin)


def _everywhere(facts: Facts, due: Bools, delivered: Bools, why: str) -> Finding:
    """Whether every correct destination delivered what is due there ([site, message] or [1, message])."""
    owed = facts.owed & facts.outages.correct[:, np.newaxis] & due
    missing = np.argwhere((owed & ~delivered).T)
    witnesses = [facts.witness((site,), (message,), why) for message, site in missing[:WITNESSES_MAX].tolist()]
    return Finding(bool(owed.any()), witnesses)
