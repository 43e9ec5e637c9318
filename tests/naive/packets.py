"""What packets may carry and where they may go: genuineness and message-size."""

from __future__ import annotations

from .terms import NOT_JUDGED, Outcome, Row, Run, Violation, outcome, terms_of, violation


def genuineness(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        for packet in terms.of_kind(site, "send", "receive"):
            for message in packet.get("messages") or []:
                if message not in terms.known:
                    continue
                obliged = True
                if site != terms.source(message) and site not in terms.ever_addressed(message):
                    violations.add(violation([site], [message]))
    return outcome(obliged, violations)


def message_size(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    bound = terms.bounds.get("message_size")
    if bound is None:
        return NOT_JUDGED, set()
    per_message, per_destination = (bound["a"], bound["b"]) if isinstance(bound, dict) else (bound, 0)
    obliged = False
    violations: set[Violation] = set()
    for send in terms.sends:
        # A message without a multicast row has neither address nor payload that could be looked at.
        messages = [message for message in send.get("messages") or [] if message in terms.known]
        if not messages or send.get("size") is None:
            continue
        obliged = True
        allowed = 0
        for message in messages:
            payload = terms.multicast_row[message].get("size") or 0
            allowed += per_message + per_destination * len(terms.ever_addressed(message)) + payload
        if send["size"] > allowed:
            violations.add(violation([send["site"]], messages))
    return outcome(obliged, violations)
