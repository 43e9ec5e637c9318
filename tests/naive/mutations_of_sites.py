"""What no sensible run does, to sites: failures, rollbacks, membership, views and services."""

from __future__ import annotations

from .draft import Draft, swap_times


def fail_site(draft: Draft) -> None:
    """A failure that nothing else in the trace takes account of."""
    site, time = draft.random.choice(draft.sites), draft.between(0.0, draft.end())
    draft.add("fail", site, time)
    if draft.chance(0.7):
        awake = time + draft.between(0.01, 1.5)
        if draft.chance(0.6):
            draft.add("awake", site, awake)
        draft.add("recover", site, awake + draft.between(0.01, 1.5))


def fail_after_loss(draft: Draft) -> None:
    """Whether the network or a site is to blame for a lost packet depends on when the site failed."""
    losses = draft.of("drop")
    if losses:
        loss = draft.random.choice(losses)
        site = draft.random.choice([loss["site"], loss["peer"]])
        time = loss["time"] + draft.between(-0.3, draft.phi_n)
        draft.add("fail", site, time)
        draft.add("awake", site, time + draft.between(0.001, 0.2))
        draft.add("recover", site, time + draft.between(0.2, 0.4))


def fail_at_the_end_of_a_window(draft: Draft) -> None:
    """A packet is lost within what a promise covers; the site that is to blame fails only after that."""
    multicasts = draft.of("multicast")
    if not multicasts or not draft.promised:
        return
    multicast = draft.random.choice(multicasts)
    others = [site for site in draft.targets(multicast) if site != multicast["site"]]
    if not others:
        return
    other = draft.random.choice(others)
    end = multicast["time"] + draft.random.choice(list(draft.promised.values()))
    sender, receiver = draft.random.sample([multicast["site"], other], 2)
    sent = end - draft.between(0.0, 0.2)
    draft.add("send", sender, sent, peer=receiver, packet="alive", packet_id=draft.next_packet(), size=8)
    draft.add("fail", draft.random.choice([sender, receiver]), end + draft.between(0.0, 0.3))
    if draft.chance(0.8):
        draft.remove(row for row in draft.of("deliver", site=other) if row["message"] == multicast["message"])


def move_failure(draft: Draft) -> None:
    rows = draft.of("fail", "awake", "recover")
    if rows:
        row = draft.random.choice(rows)
        following = [other["time"] for other in rows if other["site"] == row["site"] and other["time"] > row["time"]]
        preceding = [other["time"] for other in rows if other["site"] == row["site"] and other["time"] < row["time"]]
        row["time"] = draft.between(max(preceding, default=0.0), min(following, default=draft.end() + 1.0))


def fail_between_inverted(draft: Draft) -> None:
    """A site delivers two messages in its own order, early, and fails; the others never see its order."""
    site = draft.random.choice(draft.sites)
    deliveries = draft.of("deliver", site=site)
    if len(deliveries) < 2:
        return
    first = draft.random.randrange(len(deliveries) - 1)
    one, other = deliveries[first], deliveries[first + 1]
    swap_times(one, other)
    elsewhere = [
        row["time"]
        for row in draft.of("deliver")
        if row["site"] != site and row["message"] in (one["message"], other["message"])
    ]
    if elsewhere:
        shift = one["time"] - min(elsewhere) + draft.between(0.05, 0.5)
        for row in (one, other):
            row["time"] -= max(0.0, shift)
    time = one["time"] + draft.between(-0.02, 0.1)
    draft.add("fail", site, time)
    if draft.chance(0.6):
        draft.add("recover", site, time + draft.between(0.05, 3.0))


def refuse_between(draft: Draft) -> None:
    """A site delivers in its own order, or something that nobody else has, and is refused before, between or after the
    deliveries of the others."""
    site = draft.random.choice(draft.sites)
    deliveries = draft.of("deliver", site=site)
    if len(deliveries) < 2:
        return
    first = draft.random.randrange(len(deliveries) - 1)
    one, other = deliveries[first], deliveries[first + 1]
    if draft.chance(0.6):
        swap_times(one, other)
    elif draft.chance(0.5):
        draft.remove(row for row in draft.of("deliver") if row["site"] != site and row["message"] == one["message"])
    else:
        draft.remove([one])
    pair = (one["message"], other["message"])
    moments = sorted(row["time"] for row in draft.of("deliver") if row["message"] in pair)
    time = draft.random.choice(moments) + draft.between(-0.1, 0.1)
    draft.add("fail", site, time, reason="refused" if draft.chance(0.9) else "down")
    if draft.chance(0.7):
        draft.remove(row for row in draft.of("deliver", site=site) if row["time"] > time)
    if draft.chance(0.4):
        draft.add("recover", site, time + draft.between(0.05, 3.0))


def roll_back(draft: Draft) -> None:
    """A site delivers in its own order, takes it back and delivers again; often it is down in between."""
    site = draft.random.choice(draft.sites)
    deliveries = draft.of("deliver", site=site)
    if len(deliveries) < 2:
        return
    first = draft.random.randrange(len(deliveries) - 1)
    taken = deliveries[first : first + draft.random.randint(2, 3)]
    times = [row["time"] for row in taken]
    again = [{**row, "delivery": 2} for row in taken]
    for row, time in zip(taken, draft.random.sample(times, len(times)), strict=True):
        row["time"] = time
    if draft.chance(0.4):
        earliest = min(row["time"] for row in draft.of("deliver"))
        for row in taken:
            row["time"] -= times[-1] - earliest
    time = max(row["time"] for row in taken)
    if draft.chance(0.75):
        time += draft.between(0.0001, 0.05)
        draft.add("fail", site, time)
        time += draft.between(0.01, 1.0)
        if draft.chance(0.8):
            draft.add("recover", site, time + draft.between(0.0, 0.5))
    for row in taken:
        time += draft.between(0.001, 0.05)
        if draft.chance(0.95):
            draft.add("rollback", site, time, message=row["message"])
    for row in again:
        time += draft.between(0.001, 0.2)
        row["time"] = time
        if draft.chance(0.9):
            draft.rows.append(row)


def come_back(draft: Draft) -> None:
    """A site comes back, but it may never say that it has recovered; or it may fail once more after that."""
    site, time = draft.random.choice(draft.sites), draft.between(0.0, draft.end())
    recovers = draft.of("recover", site=site)
    if recovers and draft.chance(0.5):
        draft.add("awake", site, recovers[-1]["time"])
        draft.remove([recovers[-1]])
        return
    for _ in range(draft.random.choice([1, 1, 2])):
        draft.add("fail", site, time)
        time += draft.between(0.1, 0.5)
        if draft.chance(0.9):
            draft.add("awake", site, time)
        time += draft.between(0.1, 0.5)
        if draft.chance(0.3):
            draft.add("recover", site, time)
        time += draft.between(0.1, 0.5)


def come_or_go(draft: Draft) -> None:
    group = draft.random.choice(sorted(draft.groups))
    kind = draft.random.choice(["join", "leave"])
    time = draft.between(-0.1, draft.end())
    multicasts = draft.of("multicast")
    if multicasts and draft.chance(0.5):
        time = draft.random.choice(multicasts)["time"] + draft.between(-0.5, 0.3)
    draft.add(kind, draft.random.choice(draft.sites), time, groups=[group])


def come_or_go_while_sending(draft: Draft) -> None:
    """Between the first send of a message and its multicast row: then the first send is what counts."""
    sends = [row for row in draft.of("send") if row.get("messages")]
    if not sends:
        return
    send = draft.random.choice(sends)
    multicasts = [row for row in draft.of("multicast") if row["message"] in send["messages"] and row.get("groups")]
    if not multicasts:
        return
    first = min(row["time"] for row in sends if multicasts[0]["message"] in row["messages"])
    multicasts[0]["time"] = first + draft.between(0.2, 1.0)
    groups, time = [draft.random.choice(multicasts[0]["groups"])], draft.between(first, multicasts[0]["time"])
    draft.add(draft.random.choice(["join", "leave"]), draft.random.choice(draft.sites), time, groups=groups)


def change_members(draft: Draft) -> None:
    views = draft.of("view")
    if views:
        view = draft.random.choice(views)
        site = view["site"] if draft.chance(0.5) else draft.random.choice(draft.sites)
        view["members"] = sorted(set(view["members"]) ^ {site})


def exclude_sender(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        for view in draft.of("view", site=multicast["site"])[-2:]:
            view["members"] = [site for site in view["members"] if site != multicast["site"]]


def drop_view(draft: Draft) -> None:
    views = draft.of("view")
    if views:
        draft.remove([draft.random.choice(views)])


def move_view(draft: Draft) -> None:
    views = draft.of("view")
    if views:
        draft.random.choice(views)["time"] += draft.between(-1.5, 1.5)


def lag_behind(draft: Draft) -> None:
    """A site installs the views after the first late, and meanwhile delivers in an order of its own."""
    views = draft.of("view")
    if not views:
        return
    site = draft.random.choice(draft.sites)
    own = [row for row in draft.of("view", site=site) if row["time"] > views[0]["time"]]
    own = own[draft.random.randrange(2) :]
    if not own:
        return
    delay = draft.between(0.5, 3.0)
    begin, end = own[0]["time"], own[0]["time"] + delay
    for row in own:
        row["time"] += delay
    meanwhile = [row for row in draft.of("deliver", site=site) if begin < row["time"] < end]
    times = [row["time"] for row in meanwhile]
    for row, time in zip(meanwhile, draft.random.sample(times, len(times)), strict=True):
        row["time"] = time
    if draft.chance(0.3):
        for row in meanwhile:
            draft.add("rollback", site, end - draft.between(0.0, 0.01), message=row["message"])
    if draft.chance(0.3):
        for row in meanwhile:
            end += draft.between(0.001, 0.01)
            draft.rows.append({**row, "time": end})


def split_off(draft: Draft) -> None:
    """A site delivers two messages in its own order just before the others install a view without it."""
    names = sorted({row["view"] for row in draft.of("view")})
    site = draft.random.choice(draft.sites)
    if len(names) < 2:
        return
    name = draft.random.choice(names[1:])
    installs = [row["time"] for row in draft.of("view") if row["view"] == name and row["site"] != site]
    if not installs:
        return
    draft.remove(row for row in draft.of("view", site=site) if row["view"] == name)
    after = [row for row in draft.of("deliver", site=site) if row["time"] > min(installs)]
    if len(after) >= 2:
        time = min(installs)
        for row in after[:2]:
            time -= draft.between(0.001, 0.05)
            row["time"] = time
        if draft.chance(0.7):
            draft.remove(after[2:])


def skip_ahead(draft: Draft) -> None:
    """A site leaves out a view and has the next one before the others have either."""
    site = draft.random.choice(draft.sites)
    own = draft.of("view", site=site)
    if len(own) >= 2:
        place = draft.random.randrange(len(own) - 1)
        name = own[place]["view"]
        installs = [row["time"] for row in draft.of("view") if row["view"] == name]
        draft.remove([own[place]])
        own[place + 1]["time"] = min(installs) - draft.between(0.0, 0.1)


def activate_late(draft: Draft) -> None:
    """A site takes up its service in the middle of a view, mostly without what was delivered before."""
    deliveries = draft.of("deliver")
    if not deliveries:
        return
    first = draft.random.choice(deliveries)
    row = draft.add("activate", first["site"], first["time"] - 0.0001)
    if "service" in first:
        row["service"] = first["service"]
    since = max((v["time"] for v in draft.of("view", site=first["site"]) if v["time"] < first["time"]), default=0.0)
    if draft.chance(0.8):
        draft.remove(d for d in draft.of("deliver", site=first["site"]) if since < d["time"] < first["time"])


def activate(draft: Draft) -> None:
    site, time = draft.random.choice(draft.sites), draft.between(0.0, draft.end())
    service = draft.random.choice([None, "total", "source"])
    row = draft.add("activate", site, time)
    if service is not None:
        row["service"] = service
    for delivery in draft.of("deliver", site=site):
        if delivery["time"] > time:
            delivery.pop("service", None)
            if service is not None:
                delivery["service"] = service


def change_service(draft: Draft) -> None:
    deliveries = draft.of("deliver")
    if deliveries:
        draft.random.choice(deliveries)["service"] = draft.random.choice(["total", "source"])
