"""What no sensible run does, to messages and packets; and the list of all mutations.

A mutation does nothing where the trace has nothing that it could be done to.
"""

from __future__ import annotations

from collections.abc import Callable

from .draft import Draft, swap_times
from .mutations_of_sites import (
    activate,
    activate_late,
    change_members,
    change_service,
    come_back,
    come_or_go,
    come_or_go_while_sending,
    drop_view,
    exclude_sender,
    fail_after_loss,
    fail_at_the_end_of_a_window,
    fail_between_inverted,
    fail_site,
    lag_behind,
    move_failure,
    move_view,
    refuse_between,
    roll_back,
    skip_ahead,
    split_off,
)


def swap_deliveries(draft: Draft) -> None:
    site = draft.random.choice(draft.sites)
    deliveries = draft.of("deliver", site=site)
    if len(deliveries) >= 2:
        first = draft.random.randrange(len(deliveries) - 1)
        last = first + 1 if draft.chance(0.7) else draft.random.randrange(len(deliveries))
        swap_times(deliveries[first], deliveries[last])


def swap_deliveries_of_one_source(draft: Draft) -> None:
    addresses = {
        row["message"]: (row["site"], row.get("groups"), row.get("destinations")) for row in draft.of("multicast")
    }
    deliveries = draft.of("deliver")
    pairs = [
        (one, other)
        for one in deliveries
        for other in deliveries
        if one["site"] == other["site"]
        and one["time"] < other["time"]
        and one["message"] != other["message"]
        and addresses.get(one["message"]) == addresses.get(other["message"])
    ]
    if pairs:
        swap_times(*draft.random.choice(pairs))


def reorder_everywhere(draft: Draft) -> None:
    """The same two messages change places wherever both are delivered: still the same order at all sites."""
    messages = sorted({row["message"] for row in draft.of("deliver")})
    if len(messages) < 2:
        return
    message, other = draft.random.sample(messages, 2)
    for site in draft.sites:
        ones = [row for row in draft.of("deliver", site=site) if row["message"] == message]
        others = [row for row in draft.of("deliver", site=site) if row["message"] == other]
        if ones and others:
            swap_times(ones[0], others[0])


def make_cycle(draft: Draft) -> None:
    """Three messages, three sites: each two sites agree on what both have, and yet there is no common order."""
    if len(draft.sites) < 3:
        return
    sites = draft.random.sample(draft.sites, 3)
    common = set.intersection(*({row["message"] for row in draft.of("deliver", site=site)} for site in sites))
    if len(common) < 3:
        return
    messages = draft.random.sample(sorted(common), 3)
    for number, site in enumerate(sites):
        doomed, first, second = (messages[(number + offset) % 3] for offset in range(3))
        rows = {row["message"]: row for row in draft.of("deliver", site=site)}
        if rows[first]["time"] > rows[second]["time"]:
            swap_times(rows[first], rows[second])
        draft.remove([rows[doomed]])


def duplicate_delivery(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if not deliveries:
        return
    delivery = draft.random.choice(deliveries)
    time = delivery["time"]
    for number in range(2, draft.random.choice([3, 3, 4])):
        later = time + draft.between(0.01, 3.0)
        if draft.chance(0.5):
            draft.add("rollback", delivery["site"], draft.between(time, later), message=delivery["message"])
        draft.rows.append({**delivery, "time": later, "delivery": number})
        time = later


def drop_delivery(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if deliveries:
        draft.remove([draft.random.choice(deliveries)])


def drop_message(draft: Draft) -> None:
    """Delivered nowhere, or at one site only."""
    deliveries = draft.of("deliver")
    if deliveries:
        message = draft.random.choice(deliveries)["message"]
        doomed = [row for row in deliveries if row["message"] == message]
        draft.remove(doomed if draft.chance(0.4) else doomed[1:])


def drop_most_deliveries(draft: Draft) -> None:
    kept = draft.random.choice([0.0, 0.2, 0.4])
    draft.remove(row for row in draft.of("deliver") if not draft.chance(kept))


def delay_delivery(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if deliveries:
        draft.random.choice(deliveries)["time"] += draft.between(0.3, 5.0)


def delay_site(draft: Draft) -> None:
    """Everything that a site delivers comes late, in the same order."""
    site, delay = draft.random.choice(draft.sites), draft.between(0.5, 4.0)
    for row in draft.of("deliver", site=site):
        row["time"] += delay


def deliver_early(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if deliveries:
        delivery = draft.random.choice(deliveries)
        delivery["time"] -= draft.between(0.1, 2.0)


def deliver_elsewhere(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        strangers = [site for site in draft.sites if site not in draft.targets(multicast)]
        if strangers:
            time = multicast["time"] + draft.between(-0.2, 2.0)
            draft.add("deliver", draft.random.choice(strangers), time, message=multicast["message"])


def deliver_in_a_view(draft: Draft) -> None:
    """A site delivers what is not addressed to it, in a view that may or may not make it a member of a group of the
    address, and after which there may be others."""
    multicasts = [row for row in draft.of("multicast") if row.get("groups")]
    if not multicasts:
        return
    multicast = draft.random.choice(multicasts)
    strangers = [site for site in draft.sites if site not in draft.targets(multicast)]
    if not strangers:
        return
    site, time = draft.random.choice(strangers), multicast["time"] + draft.between(0.3, 1.0)
    for number in range(draft.random.choice([1, 1, 2])):
        time += draft.between(0.001, 0.1)
        members = sorted({*draft.random.sample(draft.sites, 2), *([site] if draft.chance(0.8) else [])})
        view = draft.add("view", site, time, view=f"own-{site}-{number}", members=members)
        if draft.chance(0.7):
            named = multicast["groups"] if draft.chance(0.7) else sorted(draft.groups)
            view["groups"] = [draft.random.choice(named)]
    time += draft.between(-0.05, 0.2)
    draft.add("deliver", site, time, message=multicast["message"], source=multicast["site"], delivery=1)


def remove_multicast(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        draft.remove(draft.random.sample(multicasts, min(len(multicasts), draft.random.randint(1, 2))))


def multicast_again(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        again = {**multicast, "time": multicast["time"] + draft.between(-1.0, 2.0)}
        if draft.chance(0.3):
            again["site"] = draft.random.choice(draft.sites)
        draft.rows.append(again)


def multicast_late(draft: Draft) -> None:
    """The multicast row comes after the sends, and perhaps after deliveries (Spauster 6.2 allows it)."""
    multicasts = draft.of("multicast")
    if multicasts:
        draft.random.choice(multicasts)["time"] += draft.between(0.1, 1.0)


def lose_packet(draft: Draft) -> None:
    receipts = draft.of("receive")
    if receipts:
        receipt = draft.random.choice(receipts)
        if draft.chance(0.6):
            receipt["kind"], receipt["reason"] = "drop", "loss"
        else:
            draft.remove([receipt])


def lose_packet_and_delivery(draft: Draft) -> None:
    """Lost, with what it should have led to; sometimes sent again."""
    receipts = [row for row in draft.of("receive") if row.get("messages")]
    if not receipts:
        return
    receipt = draft.random.choice(receipts)
    receipt["kind"], receipt["reason"] = "drop", "loss"
    site, message = receipt["site"], receipt["messages"][0]
    deliveries = [row for row in draft.of("deliver", site=site) if row["message"] == message]
    if draft.chance(0.4):
        draft.remove(deliveries)
        return
    sent, packet_id = receipt["time"] + draft.between(0.5, 3.0), draft.next_packet()
    columns = {"packet_id": packet_id, "packet": "data", "messages": receipt["messages"], "size": receipt["size"]}
    draft.add("send", receipt["peer"], sent, peer=site, **columns)
    arrival = sent + draft.between(0.02, 0.5)
    draft.add("receive", site, arrival, peer=receipt["peer"], **columns)
    for row in deliveries:
        row["time"] = max(row["time"], arrival + draft.between(0.01, 0.4))


def delay_packet(draft: Draft) -> None:
    receipts = draft.of("receive")
    if receipts:
        receipt = draft.random.choice(receipts)
        delay = draft.between(0.3, 4.0)
        receipt["time"] += delay
        for row in draft.of("deliver", site=receipt["site"]):
            if row["message"] in receipt.get("messages", ()):
                row["time"] += delay


def stray_packet(draft: Draft) -> None:
    """Somebody who has nothing to do with a message sends or receives it."""
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        sender, receiver = draft.random.sample(draft.sites, 2)
        columns = {"packet_id": draft.next_packet(), "packet": "data", "messages": [multicast["message"]], "size": 30}
        sent = multicast["time"] + draft.between(-0.05, 1.0)
        draft.add("send", sender, sent, peer=receiver, **columns)
        if draft.chance(0.7):
            draft.add("receive", receiver, sent + draft.between(0.02, 0.5), peer=sender, **columns)


def grow_packet(draft: Draft) -> None:
    sends = [row for row in draft.of("send") if row.get("messages")]
    if sends:
        draft.random.choice(sends)["size"] += draft.random.randint(0, 120)


def pack_together(draft: Draft) -> None:
    """A packet serves a second message."""
    packets = [row for row in draft.of("send") if row.get("messages")]
    multicasts = draft.of("multicast")
    if packets and multicasts:
        packet = draft.random.choice(packets)
        message = draft.random.choice(multicasts)["message"]
        for row in draft.of("send", "receive", "drop"):
            if row["packet_id"] == packet["packet_id"] and message not in row["messages"]:
                row["messages"] = [*row["messages"], message]
                row["size"] += draft.random.randint(0, 140)


def replay(draft: Draft) -> None:
    """Read again from the log: not a delivery."""
    for delivery in draft.of("deliver"):
        if draft.chance(0.3):
            draft.add(
                "replay", delivery["site"], delivery["time"] + draft.between(0.1, 2.0), message=delivery["message"]
            )


def send_to_itself(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        site, sent = draft.random.choice(draft.sites), multicast["time"] + draft.between(0.0, 0.5)
        columns = {"packet_id": draft.next_packet(), "packet": "data", "messages": [multicast["message"]], "size": 30}
        draft.add("send", site, sent, peer=site, **columns)
        if draft.chance(0.8):
            draft.remove(row for row in draft.of("deliver", site=site) if row["message"] == multicast["message"])


def change_parent(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if deliveries:
        delivery = draft.random.choice(deliveries)
        delivery["parent"] = draft.random.choice([*draft.sites, None])


def depend(draft: Draft) -> None:
    """A dependency that no delivery shows."""
    multicasts = draft.of("multicast")
    if len(multicasts) >= 2:
        earlier, later = sorted(draft.random.sample(range(len(multicasts)), 2))
        if draft.chance(0.1):
            earlier, later = later, earlier
        row = multicasts[later]
        row["depends"] = [*row.get("depends", ()), multicasts[earlier]["message"]]


def depend_in_a_chain(draft: Draft) -> None:
    """The first of three messages precedes the last only by way of the second, which somebody lacks."""
    multicasts = draft.of("multicast")
    if len(multicasts) < 3 or len(draft.sites) < 3:
        return
    first, second, third = (multicasts[i] for i in sorted(draft.random.sample(range(len(multicasts)), 3)))
    second["depends"], third["depends"] = [first["message"]], [second["message"]]
    q = draft.random.choice(draft.sites)
    at_q = {row["message"]: row for row in draft.of("deliver", site=q)}
    if first["message"] in at_q and third["message"] in at_q:
        swap_times(at_q[first["message"]], at_q[third["message"]])
    draft.remove(row for row in draft.of("deliver", site=q) if row["message"] == second["message"])
    draft.remove(
        row
        for row in draft.of("deliver", site=third["site"])
        if third["site"] != q and row["message"] == first["message"]
    )


def talk_on(draft: Draft) -> None:
    """A site still sends when everything is over: much, or something that serves a message, or neither."""
    site, multicasts = draft.random.choice(draft.sites), draft.of("multicast")
    for _ in range(draft.random.choice([1, 1, 3, 10])):
        serves = {"messages": [draft.random.choice(multicasts)["message"]]} if multicasts and draft.chance(0.2) else {}
        columns = {"packet_id": draft.next_packet(), "packet": "alive", "size": 8, **serves}
        draft.add("send", site, draft.end() + draft.between(0.0, 0.3), peer=draft.random.choice(draft.sites), **columns)


MUTATIONS_AT_REST: dict[str, Callable[[Draft], None]] = {"talk-on": talk_on}

MUTATIONS: dict[str, Callable[[Draft], None]] = {
    mutation.__name__.replace("_", "-"): mutation
    for mutation in (
        swap_deliveries, swap_deliveries_of_one_source, reorder_everywhere, make_cycle, duplicate_delivery,
        drop_delivery, drop_message, drop_most_deliveries, delay_delivery, delay_site, deliver_early,
        deliver_elsewhere, remove_multicast, multicast_again, lose_packet, lose_packet_and_delivery, delay_packet,
        stray_packet, grow_packet, pack_together, fail_site, move_failure, fail_between_inverted, roll_back, replay,
        come_or_go, change_members, exclude_sender, drop_view, move_view, lag_behind, activate, change_service,
        change_parent, depend, depend_in_a_chain, multicast_late, fail_after_loss, split_off, activate_late,
        skip_ahead, fail_at_the_end_of_a_window, come_or_go_while_sending, send_to_itself,
    )
}  # fmt: skip

MUTATIONS_OF_MEMBERS = {mutation.__name__.replace("_", "-"): mutation for mutation in (deliver_in_a_view, come_back)}
"""Only for traces in which it matters who is in which group, or who takes part again."""
MUTATIONS_OF_REFUSED = {mutation.__name__.replace("_", "-"): mutation for mutation in (refuse_between,)}
"""Only for traces in which somebody is refused; they are of no interest to any other property."""
