"""What no sensible run does, to groups that come and go: their views, transitional sets, services and members."""

from __future__ import annotations

from .draft import Draft


def fall_silent(draft: Draft) -> None:
    """A site delivers nothing in one of its views, or in the whole run, and may name no service either."""
    site = draft.random.choice(draft.sites)
    views = draft.of("view", site=site)
    if draft.chance(0.4) or len(views) < 2:
        draft.remove(draft.of("deliver", site=site))
        if draft.chance(0.6):
            draft.remove(draft.of("activate", site=site))
        return
    place = draft.random.randrange(len(views) - 1)
    low, high = views[place]["time"], views[place + 1]["time"]
    draft.remove(row for row in draft.of("deliver", site=site) if low < row["time"] < high)


def change_transitional(draft: Draft) -> None:
    views = draft.of("view")
    if views:
        view = draft.random.choice(views)
        named = view["members"] if view["members"] and draft.chance(0.8) else draft.sites
        view["transitional"] = sorted(set(view.get("transitional", ())) ^ {draft.random.choice(named)})


def rename_view(draft: Draft) -> None:
    """One site has another name for a view, perhaps that of a view of another group."""
    views = draft.of("view")
    if views:
        names = [row["view"] for row in views]
        draft.random.choice(views)["view"] = draft.random.choice(names) if draft.chance(0.5) else "other"


def change_groups_of_view(draft: Draft) -> None:
    """A view of one group becomes one of another group, of two, or of everything."""
    views = draft.of("view")
    if not views:
        return
    view = draft.random.choice(views)
    chosen = draft.random.choice([[], [draft.random.choice(sorted(draft.groups))], sorted(draft.groups)[:2]])
    for row in views if draft.chance(0.3) else [view]:
        if row["view"] == view["view"]:
            row.pop("groups", None)
            if chosen:
                row["groups"] = chosen


def miss_last_view(draft: Draft) -> None:
    views = draft.of("view", site=draft.random.choice(draft.sites))
    draft.remove(views[-draft.random.randint(1, 2) :])


def keep_in_last_view(draft: Draft) -> None:
    """Somebody who is down, has left or was never there is still in the last views."""
    ghost = draft.random.choice([*draft.sites, "nobody"])
    for site in draft.sites:
        for view in draft.of("view", site=site)[-2:]:
            if draft.chance(0.9):
                view["members"] = sorted({*view["members"], ghost})


def leave_and_deliver(draft: Draft) -> None:
    """A site leaves a group in the middle of its deliveries, and may join it again."""
    deliveries = [row for row in draft.of("deliver") if row.get("message")]
    if not deliveries:
        return
    delivery = draft.random.choice(deliveries)
    group = draft.random.choice(sorted(draft.groups))
    time = delivery["time"] - draft.between(0.0, 0.01)
    draft.add("leave", delivery["site"], time, groups=[group])
    if draft.chance(0.5):
        draft.add("join", delivery["site"], time + draft.between(0.0, 0.5), groups=[group])


def send_by_proxy(draft: Draft) -> None:
    multicasts = draft.of("multicast")
    if multicasts:
        multicast = draft.random.choice(multicasts)
        if multicast.pop("service", None) is None:
            multicast["service"] = "proxy"


def send_to_another_group(draft: Draft) -> None:
    multicasts = [row for row in draft.of("multicast") if row.get("groups")]
    if multicasts:
        draft.random.choice(multicasts)["groups"] = [draft.random.choice(sorted(draft.groups))]


def send_to_few(draft: Draft) -> None:
    """A message has groups, but goes to explicit destinations, so that the groups do not count."""
    multicasts = [row for row in draft.of("multicast") if row.get("groups")]
    if multicasts:
        few = draft.random.sample(draft.sites, draft.random.randint(1, len(draft.sites)))
        draft.random.choice(multicasts)["destinations"] = sorted(few)


def look_on(draft: Draft) -> None:
    """A site installs the views of a group and has never joined it; it may deliver less than the others."""
    group, site = draft.random.choice(sorted(draft.groups)), draft.random.choice(draft.sites)
    draft.groups[group] = [member for member in draft.groups[group] if member != site]
    draft.remove(row for row in draft.of("join", site=site) if group in row["groups"])
    for view in draft.of("view", site=site):
        if draft.chance(0.8):
            view["members"] = [member for member in view["members"] if member != site]
    draft.remove(row for row in draft.of("deliver", site=site) if draft.chance(0.5))


def switch_service(draft: Draft) -> None:
    """A site has a message by one service, and chooses before others have it the service by which these get it."""
    deliveries = draft.of("deliver")
    pairs = [
        (one, other)
        for one in deliveries
        for other in deliveries
        if one["message"] == other["message"] and one["time"] < other["time"] and one["site"] != other["site"]
    ]
    if not pairs:
        return
    one, other = draft.random.choice(pairs)
    one["service"], other["service"] = "loose", "total"
    chosen = draft.add("activate", one["site"], draft.between(one["time"], other["time"]), service="total")
    for row in draft.of("deliver", site=one["site"]):
        if row["time"] > chosen["time"]:
            row["service"] = "total"


def activate_between(draft: Draft) -> None:
    """A service is chosen between two deliveries, for a group or all, for a source or all; what follows has it."""
    deliveries = draft.of("deliver")
    if not deliveries:
        return
    delivery = draft.random.choice(deliveries)
    service = draft.random.choice(["total", "source", delivery.get("service")])
    row = draft.add("activate", delivery["site"], delivery["time"] + draft.between(-0.0005, 0.0005))
    if service is not None:
        row["service"] = service
    if draft.chance(0.5):
        row["groups"] = [draft.random.choice(sorted(draft.groups))]
    if draft.chance(0.5):
        row["source"] = delivery["source"] if draft.chance(0.6) else draft.random.choice(draft.sites)
    if draft.chance(0.4):
        for later in draft.of("deliver", site=delivery["site"]):
            if later["time"] > row["time"]:
                later.pop("service", None)
                if service is not None:
                    later["service"] = service


def deliver_again_in_order(draft: Draft) -> None:
    """A site delivers two messages in its own order, with an activation between them."""
    site = draft.random.choice(draft.sites)
    deliveries = draft.of("deliver", site=site)
    if len(deliveries) < 2:
        return
    place = draft.random.randrange(len(deliveries) - 1)
    one, other = deliveries[place], deliveries[place + 1]
    one["time"], other["time"] = other["time"], one["time"]
    row = draft.add("activate", site, (one["time"] + other["time"]) / 2)
    if draft.chance(0.4):
        row["groups"] = [draft.random.choice(sorted(draft.groups))]
    if draft.chance(0.5):
        row["source"] = draft.random.choice([one["source"], other["source"], *draft.sites])
    if one.get("service") is not None:
        row["service"] = one["service"]


def take_back(draft: Draft) -> None:
    """A delivery is taken back for good, or for a while."""
    deliveries = draft.of("deliver")
    if deliveries:
        delivery = draft.random.choice(deliveries)
        time = delivery["time"] + draft.between(0.01, 1.0)
        draft.add("rollback", delivery["site"], time, message=delivery["message"])
        if draft.chance(0.3):
            draft.rows.append({**delivery, "time": time + draft.between(0.01, 1.0), "delivery": 2})


def elect_anew(draft: Draft) -> None:
    """A few sites install a view of themselves, and go on without the others."""
    few = sorted(draft.random.sample(draft.sites, draft.random.randint(1, len(draft.sites))))
    start = draft.between(0.0, draft.end())
    name = f"few{len(draft.rows)}"
    for site in few:
        view = draft.add("view", site, start + draft.between(0.0, 0.4), view=name, members=few, transitional=few)
        if draft.chance(0.5):
            view["groups"] = [draft.random.choice(sorted(draft.groups))]
    others = [site for site in draft.sites if site not in few]
    if others:
        # One of the others goes its own way meanwhile.
        site = draft.random.choice(others)
        meanwhile = [row for row in draft.of("deliver", site=site) if row["time"] > start][:3]
        times = [row["time"] for row in meanwhile]
        for row, time in zip(meanwhile, draft.random.sample(times, len(times)), strict=True):
            row["time"] = time


def change_offset(draft: Draft) -> None:
    """Somebody enters a group somewhere else, or does not say where, or enters it where it is already."""
    joins = draft.of("join")
    if not joins:
        return
    join = draft.random.choice(joins)
    if draft.chance(0.2):
        draft.rows.append({**join, "time": join["time"] + draft.between(0.0, 1.0)})
    elif draft.chance(0.3):
        join.pop("offset", None)
    else:
        join["offset"] = draft.random.randint(0, 4)


def miss_the_first(draft: Draft) -> None:
    """Whoever enters a group goes without the first message that is delivered in it afterwards."""
    joins = draft.of("join")
    if joins:
        join = draft.random.choice(joins)
        later = [row for row in draft.of("deliver", site=join["site"]) if row["time"] > join["time"]]
        draft.remove(later[:1])


def count_several(draft: Draft) -> None:
    """A message is a bundle of several; one site may take it for one of another size, or say that it takes it back."""
    multicasts = draft.of("multicast")
    if not multicasts:
        return
    message, count = draft.random.choice(multicasts)["message"], draft.random.randint(1, 4)
    for row in draft.of("multicast", "deliver", "rollback"):
        if row.get("message") == message:
            row["count"] = count
    if draft.chance(0.3):
        draft.random.choice([row for row in draft.rows if row.get("message") == message])["count"] = count + 1


MUTATIONS_OF_GROUPS = {
    mutation.__name__.replace("_", "-"): mutation
    for mutation in (
        fall_silent, change_transitional, rename_view, change_groups_of_view, miss_last_view, keep_in_last_view,
        leave_and_deliver, send_by_proxy, send_to_another_group, send_to_few, look_on, switch_service, activate_between,
        deliver_again_in_order, take_back, elect_anew, change_offset, miss_the_first, count_several,
    )
}  # fmt: skip
