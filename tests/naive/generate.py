"""Random small traces: a sensible run, and then a few things done to it that no sensible run does.

`generate(profile, seed)` always gives the same trace for the same arguments. Times are mostly random reals, so that no
two events coincide; in every tenth trace they are coarse, as in a simulation where all that a site does in one step has
one time. No bound is met exactly. A profile says which features a run has and which mutations may befall it;
each family of properties has one that makes its interesting cases frequent.
"""

from __future__ import annotations

from random import Random

from .draft import Draft, Profile, draft_base
from .dynamic import SERVICES, draft_dynamic
from .mutations import MUTATIONS, MUTATIONS_AT_REST, MUTATIONS_OF_MEMBERS, MUTATIONS_OF_REFUSED
from .mutations_of_groups import MUTATIONS_OF_GROUPS
from .terms import Row, Run

COARSE_STEP = 0.25  # seconds, a third of the usual time between two messages
PROMISES = ("P1", "P2", "P3", "P4", "Q1", "Q2", "Q3")

ALL_MUTATIONS = MUTATIONS | MUTATIONS_AT_REST | MUTATIONS_OF_MEMBERS | MUTATIONS_OF_REFUSED | MUTATIONS_OF_GROUPS
RARE = dict.fromkeys(MUTATIONS, 1)

PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "deliveries",
            RARE
            | {"duplicate-delivery": 8, "deliver-elsewhere": 6, "remove-multicast": 4, "deliver-early": 6}
            | {"multicast-late": 6, "come-or-go": 6, "drop-most-deliveries": 4}
            | {"deliver-in-a-view": 10},
            churn=0.3,
        ),
        Profile(
            "order",
            RARE
            | {"swap-deliveries": 10, "swap-deliveries-of-one-source": 8, "reorder-everywhere": 8}
            | {"make-cycle": 8, "drop-most-deliveries": 4},
        ),
        Profile(
            "failures",
            RARE
            | {"swap-deliveries": 4, "swap-deliveries-of-one-source": 4, "roll-back": 14}
            | {"fail-between-inverted": 14},
            failures=0.2,
            one_group=0.5,
        ),
        Profile(
            "divergence",
            RARE
            | {"swap-deliveries": 8, "drop-delivery": 6, "drop-message": 4, "come-or-go": 4, "refuse-between": 30}
            | {"fail-between-inverted": 4},
            failures=0.15,
            churn=0.25,
            one_group=0.5,
        ),
        Profile(
            "liveness",
            RARE
            | {"drop-delivery": 6, "drop-message": 6, "fail-site": 4, "deliver-elsewhere": 4, "come-or-go": 6}
            | {"multicast-late": 3, "come-or-go-while-sending": 6, "deliver-in-a-view": 6, "come-back": 12},
            settled=0.85,
            churn=0.3,
            packets=0.6,
        ),
        Profile(
            "bounded",
            RARE
            | {"delay-delivery": 8, "delay-site": 6, "delay-packet": 6, "drop-delivery": 6, "lose-packet": 6}
            | {"lose-packet-and-delivery": 8, "drop-message": 3, "change-parent": 3, "fail-after-loss": 5}
            | {"fail-at-the-end-of-a-window": 6, "come-or-go-while-sending": 3, "send-to-itself": 4},
            packets=1.0,
            failures=0.4,
            relays=0.5,
            settled=0.5,
        ),
        Profile(
            "packets",
            RARE | {"stray-packet": 10, "grow-packet": 10, "pack-together": 6, "come-or-go-while-sending": 4},
            packets=1.0,
        ),
        Profile(
            "rest",
            RARE | {"fail-site": 2, "come-back": 4, "talk-on": 8},
            packets=0.7,
            settled=0.9,
            failures=0.1,
        ),
        Profile(
            "views",
            RARE
            | {"change-members": 5, "exclude-sender": 10, "move-view": 6, "lag-behind": 12, "drop-view": 4}
            | {"drop-delivery": 4, "activate": 6, "activate-late": 10, "change-service": 3, "split-off": 10}
            | {"roll-back": 4, "skip-ahead": 4},
            views=0.95,
            services=0.5,
            one_group=0.8,
            explicit_destinations=0.05,
            failures=0.15,
        ),
        Profile(
            "causality",
            RARE
            | {"reorder-everywhere": 8, "depend": 8, "drop-delivery": 8, "drop-message": 4, "swap-deliveries": 6}
            | {"swap-deliveries-of-one-source": 5, "change-members": 10, "depend-in-a-chain": 5, "deliver-early": 2},
            views=0.6,
            explicit_destinations=0.1,
            one_group=0.6,
        ),
        Profile(
            "group-views",
            {"fall-silent": 6, "change-transitional": 8, "rename-view": 4, "change-groups-of-view": 6}
            | {"miss-last-view": 4, "keep-in-last-view": 5, "leave-and-deliver": 4, "send-by-proxy": 5}
            | {"exclude-sender": 6, "elect-anew": 12, "activate-between": 5, "drop-delivery": 6, "change-members": 3}
            | {"drop-view": 2, "come-or-go": 2, "fail-site": 2, "swap-deliveries": 24, "split-off": 4}
            | {"send-to-few": 4, "look-on": 5, "switch-service": 6},
            dynamic=True,
            packets=0.0,
            views=0.95,
            services=0.5,
            churn=0.6,
            failures=0.4,
            settled=0.9,
            explicit_destinations=0.1,
            per_service=("virtual-synchrony", "R2-logical"),
        ),
        Profile(
            "group-liveness",
            {"drop-delivery": 14, "drop-message": 8, "take-back": 8, "fall-silent": 3, "come-or-go": 6, "fail-site": 4}
            | {"leave-and-deliver": 8, "activate-between": 6, "change-members": 5, "deliver-elsewhere": 4}
            | {"duplicate-delivery": 18, "change-service": 4, "deliver-in-a-view": 6, "multicast-late": 2}
            | {"change-groups-of-view": 4, "swap-deliveries": 4, "refuse-between": 3, "delay-delivery": 10}
            | {"delay-site": 14},
            dynamic=True,
            packets=0.8,
            views=0.7,
            services=0.6,
            untouched=0.1,
            mutations_max=4,
            churn=0.6,
            failures=0.3,
            settled=0.9,
            explicit_destinations=0.1,
            per_service=(
                "agreement", "uniform-agreement", "atomic-receipt", "termination", "selective-information",
                "view-termination", "no-silent-divergence", "integrity", "no-duplication",
                "P1", "P2", "P3", "P4", "Q1", "Q2", "Q3",
            ),
        ),
        Profile(
            "group-offsets",
            {"change-offset": 10, "miss-the-first": 10, "count-several": 10, "drop-delivery": 4, "take-back": 6}
            | {"swap-deliveries": 4, "duplicate-delivery": 3, "leave-and-deliver": 6, "come-or-go": 4, "fail-site": 2}
            | {"send-to-few": 4, "send-to-another-group": 3, "remove-multicast": 2, "drop-message": 6}
            | {"change-service": 2, "enter-again-from-the-log": 30, "replay": 3},
            dynamic=True,
            packets=0.0,
            views=0.3,
            services=0.3,
            churn=0.9,
            failures=0.1,
            settled=0.8,
            explicit_destinations=0.1,
            one_group=0.4,
            per_service=("offset-agreement",),
        ),
        Profile(
            "group-order",
            {"swap-deliveries": 8, "swap-deliveries-of-one-source": 10, "deliver-again-in-order": 14}
            | {"send-to-another-group": 6, "reorder-everywhere": 6, "drop-delivery": 6, "depend": 4}
            | {"activate-between": 6, "change-service": 4, "change-members": 4, "come-or-go": 3, "make-cycle": 3}
            | {"duplicate-delivery": 3, "leave-and-deliver": 3, "drop-message": 3, "fail-between-inverted": 4}
            | {"remove-multicast": 1, "send-to-few": 3},
            dynamic=True,
            packets=0.0,
            views=0.6,
            services=0.6,
            churn=0.5,
            failures=0.2,
            explicit_destinations=0.1,
            one_group=0.3,
            per_service=(
                "group-source-order", "source-order", "causal-order", "timestamp-order", "reliable-source-order",
                "reliable-timestamp-order", "multiple-group-order", "acyclic-order", "R1", "R2", "R3",
            ),
        ),
    )
}  # fmt: skip


def _bounds(draft: Draft) -> dict[str, object]:
    sizes = {"a": draft.size_per_message, "b": draft.size_per_destination}
    bounds: dict[str, object] = {
        "phi_p": 0.1,
        "phi_n": draft.phi_n,
        "delta": 1.0,
        "message_size": sizes if draft.chance(0.8) else draft.size_per_message + 3 * draft.size_per_destination,
        "promised": draft.promised,
    }
    for name in ("phi_n", "message_size", "promised"):
        if draft.chance(draft.profile.bound_absent):
            del bounds[name]
    if draft.chance(0.4):
        bounds["p3_sites"] = draft.random.randint(0, 3)
    return bounds


def _bounds_at_rest(draft: Draft) -> dict[str, object]:
    """Some of them absent; so few packets that some runs send more, and so long a time that some are in it."""
    bounds = {
        "seconds": draft.between(0.5, 4.0),
        "packets": draft.random.choice([0.0, 0.4, 1.0, 3.0]),
        "messages": draft.random.randint(0, 6),
        "entries": draft.random.randint(10, 40),
        "credit": draft.random.choice([1, 1, 2, 4]),
    }
    return {name: value for name, value in bounds.items() if not draft.chance(draft.profile.bound_absent)}


def _rest(draft: Draft) -> dict[str, dict[str, int]]:
    """What sites tell of themselves: most of them, most of it, and mostly what is right."""
    rest = {}
    for site in draft.sites:
        kept = {
            "messages": draft.random.choice([0, 0, 1, 2, 7]),
            "entries": draft.random.choice([5, 9, 10, 12, 41]),
            "waiting": draft.random.choice([0, 0, 0, 0, 0, 1, 3]),
            "credit": draft.random.choice([2, 4, 4, 8, 8, 8, 8, 1, 0]),
        }
        if draft.chance(0.8):
            rest[site] = {name: value for name, value in kept.items() if draft.chance(0.7)}
    return rest


def generate(profile_name: str, seed: int) -> tuple[Run, list[Row]]:
    """The run, as in runs.jsonl, and its rows, in no particular order."""
    random, profile = Random(f"{profile_name} {seed}"), PROFILES[profile_name]
    sites = [f"s{number}" for number in range(random.choice([2, 3, 3, 4, 4, 5]))]
    if random.random() < profile.one_group:
        groups = {"g": list(sites)}
    else:
        groups = {
            f"g{number}": sorted(random.sample(sites, random.randint(min(2, len(sites)), len(sites))))
            for number in range(random.randint(1, 3))
        }
    draft = Draft(random, profile, sites, groups)
    draft.promised = {name: draft.between(0.7, 3.0) for name in PROMISES if not draft.chance(profile.bound_absent)}
    (draft_dynamic if profile.dynamic else draft_base)(draft)
    if not draft.chance(profile.untouched):
        names, weights = list(profile.mutations), list(profile.mutations.values())
        for name in random.choices(names, weights, k=random.randint(1, profile.mutations_max)):
            ALL_MUTATIONS[name](draft)
    for site in sites:
        for number, row in enumerate(sorted((r for r in draft.rows if r["site"] == site), key=lambda row: row["time"])):
            row["seq"] = number
    if draft.chance(0.1):
        for row in draft.rows:
            row["time"] = round(row["time"] / COARSE_STEP) * COARSE_STEP
    if draft.chance(0.3):
        draft.guarantees.append(random.choice(["R3", "R3-single-source", "R3-multiple-source"]))
    services: dict[str, list[str]] = {}
    if profile.dynamic:
        if draft.chance(0.3):
            draft.guarantees.append("multiple-group-order")
        if draft.chance(0.5):
            chosen = random.sample(SERVICES, random.choice([1, 2]))
            services = {service: [name for name in profile.per_service if draft.chance(0.5)] for service in chosen}
    ended_at = draft.end() + draft.between(0.01, 6.0)
    run: Run = {
        "run": f"{profile_name}-{seed}",
        "protocol": "none",
        "seed": seed,
        "parameters": {},
        "groups": groups,
        "guarantees": ["integrity", *draft.guarantees],
        "ended_at": ended_at,
        "settled": draft.chance(profile.settled),
        "bounds": _bounds(draft),
        "services": services,
    }
    if profile_name == "rest":
        run["bounds"]["rest"] = _bounds_at_rest(draft)
        run["rest"] = _rest(draft)
    for row in draft.rows:
        row["run"] = run["run"]
    random.shuffle(draft.rows)
    return run, draft.rows
